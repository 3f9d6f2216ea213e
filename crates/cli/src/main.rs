//! The binary `runcue`. Everything it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    runcue_cli::app::main()
}
