//! The other side of the integration tests: a parent to be killed, its guard, and a pool worker.
//!
//! Owns nothing a user needs. The first argument says which of them to be.

use std::io::{self, BufRead, Write};
use std::process::{Command, ExitCode};

use runcue_process::pool::{HandlerError, Reporter, Request, serve};
use runcue_process::{CommandSpec, Guard, Limits, Output, guard, run};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["guard", instance] => {
            guard::watch(instance, io::stdin().lock());
            Ok(())
        }
        ["parent", instance] => parent(instance),
        ["worker"] => serve(handle),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

const FAMILY: [&str; 3] = [
    "echo pid $$; exec sleep 1000",
    "sleep 1000 & echo pid $!; sleep 1000 & echo pid $!; echo pid $$; wait",
    "setsid sh -c 'echo pid $$; sleep 1000 & echo pid $!; wait' & wait",
];

/// Starts a guard and a family, tells everybody's pid, and leaves in good order when its input ends.
fn parent(instance: &str) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("guard");
    let guard = Guard::start(command, instance)?;
    tell(format!("guard {}\n", guard.pid()).as_bytes());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    for line in FAMILY {
        let mut spec = CommandSpec::shell(line.to_owned());
        guard.mark(&mut spec);
        runtime.spawn(async move {
            let cancel = CancellationToken::new();
            run(&spec, &Limits::default(), &cancel, |output| {
                if let Output::Chunk(_, chunk) = output {
                    tell(chunk);
                }
            })
            .await
        });
    }
    let mut ignored = Vec::new();
    io::stdin().lock().read_until(b'\n', &mut ignored)?;
    Ok(())
}

fn tell(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    // Nobody listening any more is the test's business.
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

fn handle(request: Request, reporter: &Reporter<'_>) -> Result<Value, HandlerError> {
    match request.task.as_str() {
        "pid" => Ok(json!(std::process::id())),
        "echo" => {
            tell(b"a stray print\n");
            reporter.progress(50, Some("half way"));
            Ok(request.params)
        }
        "fail" => Err(HandlerError::permanent("no such thing")),
        "abort" => std::process::abort(),
        "exit" => std::process::exit(7),
        "panic" => panic!("the handler gave up"),
        "hang" => {
            let child = Command::new("sleep").arg("1000").spawn();
            let pid = child.map(|child| child.id()).unwrap_or_default();
            reporter.progress(1, Some(&pid.to_string()));
            loop {
                std::thread::park();
            }
        }
        "freeze" => {
            reporter.progress(1, Some(&std::process::id().to_string()));
            freeze();
            Ok(Value::Null)
        }
        _ => Err(HandlerError::permanent("unknown task")),
    }
}

#[cfg(unix)]
fn freeze() {
    let ourselves = rustix::process::getpid();
    let _ = rustix::process::kill_process(ourselves, rustix::process::Signal::STOP);
}

#[cfg(not(unix))]
fn freeze() {}
