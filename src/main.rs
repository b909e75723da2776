//! The binary: a lab guest's first process when a kernel starts it, a runner when that
//! or the local backend starts it as one, else the command line.

use std::process::ExitCode;

use schedlab::{cli, exec, guest};

fn main() -> ExitCode {
    if guest::is_init() {
        guest::init()
    }
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == exec::RUNNER_ARGUMENT) {
        exec::run_and_exit(arguments)
    }
    cli::main()
}
