//! The runcue binary.
fn main() {}
