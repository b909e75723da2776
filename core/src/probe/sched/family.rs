//! Watching processes that run already, and their descendants. Reads /proc.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Reading;
use crate::sys::Host;
use crate::sys::load::{self, Process};

use super::{Session, SourceError};

/// Has a session watch processes and all their living descendants. Returns how many processes these are.
///
/// A child that a watched process starts is watched from birth. A child that it starts after it was read and before
/// it is watched is found in the next round; a round that finds nothing new is the last.
pub fn watch_families(session: &mut dyn Session, pids: &[i32]) -> Result<usize, SourceError> {
    let asked: BTreeSet<i32> = pids.iter().copied().collect();
    let mut watched: BTreeSet<i32> = BTreeSet::new();
    let host = Host::default();
    loop {
        let family = load::family(&processes(&host)?, &asked);
        let new: Vec<i32> = asked.union(&family).copied().collect();
        let new: Vec<i32> = new.into_iter().filter(|pid| watched.insert(*pid)).collect();
        if new.is_empty() {
            return Ok(watched.len());
        }
        for pid in new {
            session.watch(pid)?;
        }
    }
}

pub fn processes(host: &Host) -> Result<BTreeMap<i32, Process>, SourceError> {
    match load::processes(host) {
        Reading::Known(processes) => Ok(processes),
        Reading::Unknown(why) => Err(SourceError::Processes(why)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::super::Counted;
    use super::*;

    #[derive(Default)]
    struct Watching(Vec<i32>);

    impl Session for Watching {
        fn watch(&mut self, pid: i32) -> Result<(), SourceError> {
            self.0.push(pid);
            Ok(())
        }

        fn watch_children(&mut self) -> Result<(), SourceError> {
            unreachable!("not asked for")
        }

        fn begin(&mut self) -> Result<(), SourceError> {
            Ok(())
        }

        fn poll(&mut self) -> Result<(), SourceError> {
            Ok(())
        }

        fn reading(&mut self) -> Result<Counted, SourceError> {
            Ok(Counted::default())
        }

        fn end(&mut self) -> Result<Counted, SourceError> {
            Ok(Counted::default())
        }
    }

    #[test]
    fn children_and_their_children_are_watched_each_once() {
        let mut command = Command::new("sh");
        command.args(["-c", "sh -c 'echo $$; read x; :'; :"]);
        let mut parent =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let mut said = String::new();
        let mut byte = [0];
        let mut out = parent.stdout.take().expect("its output");
        while !said.ends_with('\n') && out.read(&mut byte).expect("it says something") > 0 {
            said.push(char::from(byte[0]));
        }
        let child: i32 = said.trim().parse().expect("a number");
        let pid = parent.id() as i32;
        let mut session = Watching::default();
        let watched = watch_families(&mut session, &[pid]);
        drop(parent.stdin.take());
        parent.wait().expect("it ends");
        assert_eq!(watched.unwrap(), 2);
        session.0.sort_unstable();
        let mut expected = [pid, child];
        expected.sort_unstable();
        assert_eq!(session.0, expected);
    }
}
