//! A program that works for us and may start others: its lines as they come, and its end together with that of all
//! programs that it started.

use std::io::{self, BufReader, PipeReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::{child, fork, input};

/// How soon a wish to stop is seen.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time for a program that removes its unfinished files first, as `make` does.
const PATIENCE: Duration = Duration::from_secs(10);
/// Lines that were read and not taken yet.
const MAX_WAITING: usize = 1024;
/// A longer one comes in pieces.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Runs it in a process group of its own, with no input; `line` gets the output that it and its children write to
/// standard output and standard error. `None` if `stop` was set: the group is asked to end, and killed if it does
/// not. If this process is killed, the program is asked to end.
pub fn run(
    command: Command,
    stop: &AtomicBool,
    line: &mut dyn FnMut(&str),
) -> io::Result<Option<ExitStatus>> {
    run_until(command, &|| stop.load(Ordering::SeqCst), line)
}

/// Like [`run`], until `is_over`.
pub fn run_until(
    mut command: Command,
    is_over: &dyn Fn() -> bool,
    line: &mut dyn FnMut(&str),
) -> io::Result<Option<ExitStatus>> {
    let (reader, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
    // It may have to end others first.
    child::end_with_us(&mut command, libc::SIGTERM);
    let mut child = command.spawn()?;
    // The command holds the pipe's other end.
    drop(command);
    let group = child.id() as i32;
    let (sender, lines) = mpsc::sync_channel(MAX_WAITING);
    std::thread::spawn(move || send_lines(reader, &sender));
    let mut deadline: Option<Instant> = None;
    loop {
        match lines.recv_timeout(POLL_INTERVAL) {
            Ok(one) if deadline.is_none() => line(&one),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            // Nobody can write any more: all have ended.
            Err(RecvTimeoutError::Disconnected) => break,
        }
        match deadline {
            None if is_over() => {
                fork::terminate_group(group);
                deadline = Some(Instant::now() + PATIENCE);
            }
            Some(end) if Instant::now() > end => fork::kill_group(group),
            _ => {}
        }
    }
    let status = child.wait()?;
    Ok(deadline.is_none().then_some(status))
}

fn send_lines(reader: PipeReader, sender: &mpsc::SyncSender<String>) {
    for line in input::lines(BufReader::new(reader), MAX_LINE_BYTES).map_while(Result::ok) {
        if sender.send(line.trim_end().to_string()).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_of_both_streams_arrive_and_the_status_too() {
        let mut lines = Vec::new();
        let stop = AtomicBool::new(false);
        let script = "echo one; echo two >&2; printf three; exit 7";
        let status = run(shell(script), &stop, &mut |line| lines.push(line.to_string()));
        assert_eq!(status.unwrap().and_then(|status| status.code()), Some(7));
        assert_eq!(lines, ["one", "two", "three"]);
        assert!(run(Command::new("/nonesuch"), &stop, &mut |_| ()).is_err());
    }

    #[test]
    fn a_wish_to_stop_ends_the_whole_group() {
        let stop = AtomicBool::new(false);
        let mut grandchild = None;
        let script = "sleep 1000 & echo $!; wait";
        let ended = run(shell(script), &stop, &mut |line| {
            grandchild = line.parse::<i32>().ok();
            stop.store(true, Ordering::SeqCst);
        });
        assert!(ended.unwrap().is_none());
        // A process closes its files before it counts as ended.
        let path = format!("/proc/{}/stat", grandchild.unwrap());
        let is_there = || std::fs::read_to_string(&path).is_ok_and(|stat| !stat.contains(") Z "));
        let deadline = Instant::now() + Duration::from_secs(60);
        while is_there() {
            assert!(Instant::now() < deadline, "the grandchild has not ended");
            std::thread::yield_now();
        }
    }
}
