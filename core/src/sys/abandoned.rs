//! Processes whose schedlab was killed. A program carries the mark of the process that started it in its
//! environment, and so is found even if it left its group or its parent.

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use super::input;
use super::process;

/// The variable of the mark: `PID.START.NAMESPACE`, by which a process differs from all others of its number. The
/// mark is that of the process that executes a run, after which nothing of the run may live.
const MARK: &str = "SCHEDLAB_RUN";
/// Like [`MARK`], for a command of the user: processes that it leaves behind when it ends by itself may live on.
const COMMAND_MARK: &str = "SCHEDLAB_COMMAND";
/// The longest time for which processes are searched for and killed, until none is left.
const PATIENCE: Duration = Duration::from_secs(5);
/// A program that works without an environment is waited for no longer.
const EXEC_PATIENCE: Duration = Duration::from_secs(1);

/// The mark of this process, for programs of a run.
pub fn mark() -> (OsString, OsString) {
    (MARK.into(), own_mark().into())
}

/// The mark of this process, for a command of the user.
pub fn command_mark() -> (OsString, OsString) {
    (COMMAND_MARK.into(), own_mark().into())
}

pub fn own_mark() -> String {
    let own = std::process::id() as i32;
    let start = started(own).unwrap_or_default();
    format!("{own}.{start}.{}", namespace())
}

/// Whether a text is a mark.
pub fn is_mark(text: &str) -> bool {
    text.split('.').count() == 3 && text.split('.').all(|part| part.parse::<u64>().is_ok())
}

/// Ends what is left of runs whose executing process is gone. Returns the name and number of each process.
pub fn end() -> Vec<(String, i32)> {
    end_marked(MARK, &|mark| !owner_lives(mark))
}

/// Ends the processes that a command with this mark left, if the process that started it is gone.
pub fn end_command(mark: &str) -> Vec<(String, i32)> {
    end_marked(COMMAND_MARK, &|own| own == mark && !owner_lives(own))
}

fn end_marked(variable: &str, is_meant: &dyn Fn(&str) -> bool) -> Vec<(String, i32)> {
    let deadline = Instant::now() + PATIENCE;
    let mut ended: Vec<(String, i32)> = Vec::new();
    loop {
        let left = marked(variable, is_meant);
        if left.is_empty() || Instant::now() > deadline {
            return ended;
        }
        for pid in left {
            let name = input::kernel_text(format!("/proc/{pid}/comm")).unwrap_or_default();
            // SAFETY: no memory is passed.
            let is_killed = unsafe { libc::kill(pid, libc::SIGKILL) } == 0;
            if is_killed && ended.iter().all(|(_, own)| *own != pid) {
                ended.push((name.trim().to_string(), pid));
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Processes whose environment this one may read: its own user's, or all. This process and its ancestors are left
/// out.
fn marked(variable: &str, is_meant: &dyn Fn(&str) -> bool) -> Vec<i32> {
    let ancestors = ancestors();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let prefix = format!("{variable}=");
    pids.filter(|pid| !ancestors.contains(pid))
        .filter(|pid| {
            let environment = environment(*pid);
            let mut variables = environment.split(|byte| *byte == 0);
            let owner = variables.find_map(|pair| pair.strip_prefix(prefix.as_bytes()));
            owner.is_some_and(|owner| is_meant(&String::from_utf8_lossy(owner)))
        })
        .collect()
}

/// The environment of a process. While it executes another program it has none, but does not sleep for long either.
fn environment(pid: i32) -> Vec<u8> {
    const RESTS: u32 = 5;
    let (deadline, mut rests) = (Instant::now() + EXEC_PATIENCE, 0);
    loop {
        let found = input::kernel_file_at_once(format!("/proc/{pid}/environ")).unwrap_or_default();
        // Kernel threads have no program.
        let has_program = || fs::read_link(format!("/proc/{pid}/exe")).is_ok();
        if !found.is_empty() || rests == RESTS || !has_program() || Instant::now() > deadline {
            return found;
        }
        let is_at_work = matches!(of_stat(pid, 0).as_deref(), Some("R" | "D"));
        rests = if is_at_work { 0 } else { rests + 1 };
        std::thread::yield_now();
    }
}

/// Whether the owner of a mark lives, as far as this process can see. A text that is not a mark, and a mark of
/// another namespace, count as living.
fn owner_lives(mark: &str) -> bool {
    let [pid, start, of] = mark.splitn(3, '.').collect::<Vec<_>>()[..] else { return true };
    let (Ok(pid), Ok(start)) = (pid.parse(), start.parse::<u64>()) else { return true };
    of != namespace() || lives(pid) && started(pid).is_none_or(|own| own == start)
}

/// The number of this process's PID namespace.
fn namespace() -> String {
    let name = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    name.display().to_string().chars().filter(char::is_ascii_digit).collect()
}

/// This process, its parent, and so on.
fn ancestors() -> Vec<i32> {
    let parent = |pid: &i32| of_stat(*pid, 1)?.parse().ok().filter(|parent| *parent > 0);
    std::iter::successors(Some(std::process::id() as i32), parent).collect()
}

/// Whether a process lives. An ended one may not be collected for long, as in a container whose first process
/// collects none.
pub fn lives(pid: i32) -> bool {
    process::exists(pid) && of_stat(pid, 0).is_none_or(|state| state != "Z")
}

/// The start of a process, in ticks since the boot.
fn started(pid: i32) -> Option<u64> {
    of_stat(pid, 19)?.parse().ok()
}

/// A field behind the name, which may have blanks.
fn of_stat(pid: i32, field: usize) -> Option<String> {
    let stat = input::kernel_file(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = String::from_utf8_lossy(&stat[end + 1..]);
    fields.split_whitespace().nth(field).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_the_dead_started_is_abandoned_and_what_the_living_did_is_not() {
        let mut dead = Command::new("true").spawn().unwrap();
        let here = namespace();
        let start = started(dead.id() as i32).unwrap();
        let of_dead = format!("{}.{start}.{here}", dead.id());
        let elsewhere = format!("{}.{start}.1", dead.id());
        dead.wait().unwrap();
        let (_, own) = mark();
        let another = format!("{}.1.{here}", std::process::id());
        let marks = [&of_dead, own.to_str().unwrap(), &another, "none", "1.x.1", &elsewhere];
        let mut children = marks.map(|mark| {
            let mut sleep = Command::new("sleep");
            sleep.arg("1000").env(MARK, mark).spawn().unwrap()
        });
        let left = marked(MARK, &|mark| !owner_lives(mark));
        let is_left = children.each_ref().map(|child| left.contains(&(child.id() as i32)));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(is_left, [true, false, true, false, false, false]);
        assert!(ancestors().contains(&(std::os::unix::process::parent_id() as i32)));
    }

    #[test]
    fn a_process_is_found_while_it_executes_another_program() {
        let dir = tempfile::tempdir().unwrap();
        let again = dir.path().join("again");
        fs::write(&again, "exec sh \"$0\"\n").unwrap();
        let mut child = Command::new("sh").arg(&again).env(MARK, "1.2.3").spawn().unwrap();
        let is_found = || marked(MARK, &|mark| mark == "1.2.3") == [child.id() as i32];
        // A process that was just started may still have this one's memory.
        while !is_found() {
            std::thread::yield_now();
        }
        let found = (0..200).filter(|_| is_found()).count();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, 200);
    }
}
