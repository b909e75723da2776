//! The binary: a lab guest's first process when a kernel starts it, a runner when that
//! or the local backend starts it as one, else the command line.

use std::process::ExitCode;

use schedlab::{cli, exec, guest};

fn main() -> ExitCode {
    end_at_a_panic();
    if guest::is_init() {
        guest::init()
    }
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == exec::RUNNER_ARGUMENT) {
        exec::run_and_exit(arguments)
    }
    cli::main()
}

/// Ends the process at a panic in any of its threads, with the message, in builds that could unwind, too: nobody waits
/// for a thread that is gone, and what is left is taken back as after a kill.
fn end_at_a_panic() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say(panic);
        std::process::abort()
    }));
}
