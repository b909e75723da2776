//! `forkexec`: how fast children are spawned, run for a moment and are collected.
//!
//! Each spawner has one child at a time, so `count` is also the number of children alive.
//! Spawners that are threads share an address space and take turns to copy it; spawners that
//! are processes do not.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::model::{Kind, Params, fields};
use crate::sys::fork::Ending;
use crate::sys::host::error_text;
use crate::sys::process::{self, Birth, Program};
use crate::sys::{clock, shared};

use super::{
    Latency, Load, Request, Role, Slot, Spec, UnderWay, Worker, Workload, WorkloadError, params,
};

pub struct Forkexec;

const WAKEUP: usize = 0;
const SPAWN: usize = 1;

const SPEC: Spec = Spec {
    name: "forkexec",
    about: "spawns children that end at once, one after the other; CPU time is the spawner's own",
    params: fields! {
        "how": Kind::Choice(&["fork", "exec", "thread"]), "fork" =>
            "fork and exit, fork and execute `program`, or create and join a thread";
        "program": Kind::Text, "/bin/true" =>
            "path of the program of how = \"exec\", run without arguments and output";
    },
    roles: &[Role { name: "spawner", counts: true }],
    ops: "spawns",
    histograms: &[
        Latency::headline("wakeup", "from the fork to the child's first instructions"),
        Latency::explaining("spawn", "from the fork until the child's end is collected"),
    ],
    ..Spec::PLAIN
};

impl Workload for Forkexec {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn can_rest(&self, _params: &Params) -> bool {
        true
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        let how = match params::text(request.params, "how")? {
            "exec" => How::Exec(executable(params::text(request.params, "program")?)?),
            "thread" => How::Thread,
            _ => How::Fork,
        };
        let births = shared::leak_slice(request.count as usize).map_err(|source| {
            let action = format!("allocate memory for {} spawners", request.count);
            WorkloadError::system(action, source)
        })?;
        Ok(Box::new(Nursery { how, births }))
    }
}

enum How {
    Fork,
    Exec(Program),
    Thread,
}

/// Checks the program now, so that a wrong path fails before anything has started.
fn executable(path: &str) -> Result<Program, WorkloadError> {
    let wrong = |problem: &str| WorkloadError::Param {
        param: "program",
        value: path.to_string(),
        problem: problem.to_string(),
        hint: "give the path of an executable file: program = \"/bin/true\"",
    };
    let cannot_run =
        |error: std::io::Error| wrong(&format!("cannot be run: {}", error_text(&error)));
    if !path.starts_with('/') {
        return Err(wrong("is not an absolute path"));
    }
    let about = std::fs::metadata(path).map_err(cannot_run)?;
    if !about.is_file() || about.permissions().mode() & 0o111 == 0 {
        return Err(wrong("is not an executable file"));
    }
    Program::new(Path::new(path)).map_err(cannot_run)
}

struct Nursery {
    how: How,
    /// One birth for each spawner.
    births: &'static [Birth],
}

impl Load for Nursery {
    fn work(&self, index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let birth = &self.births[index];
        birth.expect();
        worker.start();
        while worker.running() {
            birth.expect();
            let begin_ns = clock::monotonic_ns();
            worker.begin(WAKEUP, begin_ns);
            worker.begin(SPAWN, begin_ns);
            self.spawn(birth)?;
            let end_ns = clock::monotonic_ns();
            let born_ns = birth.born_ns();
            let wakeup_ns = born_ns.saturating_sub(begin_ns);
            worker.record(WAKEUP, born_ns, wakeup_ns);
            worker.note_delay(wakeup_ns);
            worker.record(SPAWN, end_ns, end_ns - begin_ns);
            worker.add_ops(1);
        }
        Ok(())
    }

    fn under_way(&self, index: usize, slot: &Slot, found: &mut UnderWay) {
        // Its wake-up has ended, though it is counted once its end is collected.
        let is_born = (1..found.end_ns()).contains(&self.births[index].born_ns());
        let open = slot.begun().filter(|(histogram, _)| *histogram != WAKEUP || !is_born);
        open.for_each(|(histogram, begun_ns)| found.add(histogram, begun_ns));
    }
}

impl Nursery {
    fn spawn(&self, birth: &Birth) -> Result<(), WorkloadError> {
        let pid = match &self.how {
            How::Fork => process::fork_and_exit(birth),
            How::Exec(program) => process::fork_and_exec(birth, program),
            How::Thread => return process::thread_and_join(birth).map_err(cannot_spawn),
        };
        let pid = pid.map_err(cannot_spawn)?;
        let ending = process::wait(pid)
            .map_err(|source| WorkloadError::system(format!("collect child {pid}"), source))?;
        match (ending, birth.exec_error()) {
            (Ending::Exited(0), _) => Ok(()),
            (_, Some(source)) => Err(WorkloadError::system("execute the program", source)),
            (ending, None) => Err(WorkloadError::Child(ending)),
        }
    }
}

fn cannot_spawn(source: std::io::Error) -> WorkloadError {
    // A SCHED_DEADLINE task may not fork; the kernel's error is that of every limit.
    let is_limit = source.raw_os_error() == Some(libc::EAGAIN);
    let hint = is_limit.then(|| {
        "a limit of processes is reached (`ulimit -u`, pids.max of the cgroup), or the variant's \
         policy is deadline, under which nothing may fork"
            .to_string()
    });
    WorkloadError::System { action: "spawn".to_string(), source, hint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Advice;
    use crate::model::Raw;
    use crate::workload::testing::{SetMemory, WorkerGroup, params, request};

    fn given(how: &str, program: &str) -> crate::model::Params {
        let text = |text: &str| Raw::Text(text.to_string());
        params(&Forkexec, &[("how", text(how)), ("program", text(program))])
    }

    fn prepared(how: &str, program: &str) -> Result<Box<dyn Load>, WorkloadError> {
        Forkexec.prepare(&request(&given(how, program), 1))
    }

    #[test]
    fn each_way_of_spawning_counts_every_spawn_once_in_both_histograms() {
        for how in ["fork", "exec", "thread"] {
            if how == "exec" && !Path::new("/bin/true").exists() {
                eprintln!("skipped: how = exec needs /bin/true");
                continue;
            }
            let group = WorkerGroup::start(&Forkexec, &given(how, "/bin/true"), 2);
            group.wait_until(how, |group| group.slots().iter().all(|slot| slot.ops() >= 5));
            group.stop();
            let measured = group.measured();
            for histogram in [WAKEUP, SPAWN] {
                let difference = measured.histograms[histogram].total().abs_diff(measured.ops);
                assert!(difference <= 2, "{how}: more than one spawn in progress for each");
            }
            let [wakeup, spawn] = [WAKEUP, SPAWN].map(|i| measured.histograms[i].min_ns());
            assert!(wakeup > Some(0) && wakeup < spawn, "{how}: {wakeup:?} {spawn:?}");
        }
    }

    #[test]
    fn a_child_that_has_begun_to_run_is_awake_though_its_end_is_not_collected() {
        let memory = SetMemory::opened(1, 2, 1);
        let worker = memory.worker(0);
        let nursery = Nursery { how: How::Fork, births: shared::leak_slice(1).unwrap() };
        let begin_ns = clock::monotonic_ns();
        let ages = || {
            let ages = memory.under_way(&nursery, clock::monotonic_ns());
            ages.iter().map(crate::stats::Histogram::total).collect::<Vec<_>>()
        };
        assert_eq!(ages(), [0, 0]);
        [WAKEUP, SPAWN].into_iter().for_each(|histogram| worker.begin(histogram, begin_ns));
        assert_eq!(ages(), [1, 1]);
        nursery.spawn(&nursery.births[0]).unwrap();
        assert_eq!(ages(), [0, 1]);
    }

    #[test]
    fn a_program_that_cannot_run_is_refused_before_the_start() {
        let cases: &[(&str, &str)] = &[
            ("/nowhere/true", "program = `/nowhere/true` cannot be run: ENOENT"),
            ("/etc", "program = `/etc` is not an executable file"),
            ("/etc/passwd", "program = `/etc/passwd` is not an executable file"),
            ("true", "program = `true` is not an absolute path"),
            ("", "program = `` is not an absolute path"),
            ("/bin/true\0", "program = `/bin/true\\u{0}` cannot be run"),
        ];
        for (program, expected) in cases {
            let why = prepared("exec", program).err().expect(program);
            assert!(why.to_string().contains(expected) && why.hint().is_some(), "{program}: {why}");
            assert!(prepared("fork", program).is_ok(), "only exec needs the program");
        }
    }

    #[test]
    fn a_program_that_fails_fails_the_worker_with_its_status() {
        let birth: &Birth = &shared::leak_slice(1).unwrap()[0];
        let spawn = |program: &str| {
            let how = How::Exec(executable(program).unwrap());
            Nursery { how, births: &[] }.spawn(birth)
        };
        let why = spawn("/bin/false").unwrap_err();
        assert!(matches!(why, WorkloadError::Child(Ending::Exited(1))), "{why}");
    }
}
