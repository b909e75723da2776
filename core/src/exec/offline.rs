//! CPUs that a run takes off and puts back, by the kernel's `cpuN/online`. They change the machine for all, so a lab's
//! guest alone does it.

use std::path::PathBuf;

use crate::model::{CpuSet, Work};
use crate::sys::Host;
use crate::sys::host::error_text;
use crate::variant::Missing;

use super::ExecError;

/// A CPU, and whether it is online from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    pub at_ns: u64,
    pub is_online: bool,
    pub cpu: u32,
}

/// All that happens within a run of this length. Of one moment, CPUs come before others go: no worker is without one.
pub fn turns(work: &Work, duration_ns: u64) -> Vec<Turn> {
    let edges = work.offline.iter().flat_map(|off| {
        let back = off.end_ns().map(|at_ns| (at_ns, true));
        let edges = [(off.at_ns, false)].into_iter().chain(back);
        let turn =
            |at_ns, is_online| off.cpus.iter().map(move |cpu| Turn { at_ns, is_online, cpu });
        edges.flat_map(move |(at_ns, is_online)| turn(at_ns, is_online)).collect::<Vec<_>>()
    });
    let mut all: Vec<Turn> = edges.filter(|turn| turn.at_ns < duration_ns).collect();
    all.sort_unstable_by_key(|turn| (turn.at_ns, !turn.is_online, turn.cpu));
    all
}

fn file(cpu: u32) -> PathBuf {
    format!("/sys/devices/system/cpu/cpu{cpu}/online").into()
}

impl Turn {
    pub fn make(&self, host: &Host) -> Result<(), Missing> {
        let path = file(self.cpu);
        let text = if self.is_online { "1" } else { "0" };
        host.write(&path, text).map_err(|error| Missing {
            knob: format!("cpu{}/online", self.cpu),
            message: format!("{} does not take {text} ({})", path.display(), error_text(&error)),
            hint: "other CPUs, or a kernel with CONFIG_HOTPLUG_CPU=y".to_string(),
        })
    }
}

/// Puts back the CPUs of a run that are still off. Fails after all with the first that does not come.
pub fn put_back(cpus: &CpuSet, host: &Host) -> Result<(), ExecError> {
    let is_off = |cpu: &u32| host.read(file(*cpu)).is_ok_and(|text| text.trim() == "0");
    let back = |cpu| Turn { at_ns: 0, is_online: true, cpu }.make(host).err();
    let failed: Vec<Missing> = cpus.iter().filter(is_off).filter_map(back).collect();
    failed.into_iter().next().map_or(Ok(()), |missing| Err(ExecError::refused(missing.message)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Offline;

    #[test]
    fn a_cpu_that_stays_off_is_put_back_after_the_run() {
        let off =
            |at_ns, for_ns, cpus: &str| Offline { at_ns, for_ns, cpus: cpus.parse().unwrap() };
        let offline = vec![off(5, Some(4), "1,3"), off(9, None, "2"), off(1, Some(100), "4")];
        let work = Work { offline, ..Work::default() };
        let shown = turns(&work, 50).into_iter().map(|turn| {
            format!("{} {}{}", turn.at_ns, if turn.is_online { "+" } else { "-" }, turn.cpu)
        });
        assert_eq!(shown.collect::<Vec<_>>(), ["1 -4", "5 -1", "5 -3", "9 +1", "9 +3", "9 -2"]);
        // The second goes on where the first ends: the CPU is off after it.
        let touching = vec![off(5, Some(4), "1"), off(9, None, "1")];
        let last = turns(&Work { offline: touching, ..Work::default() }, 50).last().copied();
        assert_eq!(last, Some(Turn { at_ns: 9, is_online: false, cpu: 1 }));
        let dir = tempfile::tempdir().unwrap();
        let host = Host::below(dir.path());
        let made = |cpu: u32| dir.path().join(file(cpu).strip_prefix("/").unwrap());
        for cpu in 1..=4 {
            std::fs::create_dir_all(made(cpu).parent().unwrap()).unwrap();
            std::fs::write(made(cpu), "1\n").unwrap();
        }
        let online = |cpu: u32| std::fs::read_to_string(made(cpu)).unwrap().trim() == "1";
        turns(&work, 50).iter().for_each(|turn| turn.make(&host).unwrap());
        assert_eq!([1, 2, 3, 4].map(online), [true, false, true, false]);
        put_back(&work.offline_cpus(), &host).unwrap();
        assert_eq!([1, 2, 3, 4].map(online), [true; 4]);
        let refused = Turn { at_ns: 0, is_online: false, cpu: 0 }.make(&host).unwrap_err();
        assert!(refused.message.contains("cpu0/online does not take 0"), "{refused:?}");
    }
}
