//! Schedulers as files of BPF, loaded into the running kernel as `struct_ops`: those of our own, `bpf/*.bpf.c`, which are
//! embedded, and others.

use std::ffi::OsString;

use libbpf_rs::btf::{Btf, ReferencesType, types::Var};
use libbpf_rs::{Link, MapCore, MapFlags, MapType, Object, ObjectBuilder, OpenObject};

use crate::sys::{input, libbpf};

use super::{Exit, OWN, Scheduler, SchedulerError};

/// Compiled by `make bpf`, by the names of [`super::OWN`].
const OBJECTS: [(&str, &[u8]); OWN.len()] = [
    ("fifo", include_bytes!("bpf/fifo.bpf.o")),
    ("vtime", include_bytes!("bpf/vtime.bpf.o")),
    ("bad", include_bytes!("bpf/bad.bpf.o")),
    ("lossy", include_bytes!("bpf/lossy.bpf.o")),
    ("stray", include_bytes!("bpf/stray.bpf.o")),
    ("haughty", include_bytes!("bpf/haughty.bpf.o")),
];

/// A loaded scheduler. Its descriptors are all that keeps it in place.
pub struct Loaded {
    object: Object,
    link: Option<Link>,
}

/// `struct exit_report` of `scx.h`.
#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C)]
struct ExitReport {
    exit_code: i64,
    kind: u32,
    is_filled: u32,
    reason: [u8; 128],
    message: [u8; 512],
}

impl Loaded {
    pub fn attach(scheduler: &Scheduler) -> Result<Loaded, SchedulerError> {
        let log = &libbpf::Log::listen();
        let wrong = |what: &'static str| {
            move |source: libbpf_rs::Error| {
                let (scheduler, log) = (scheduler.clone(), log.reason());
                SchedulerError::NotLoaded { scheduler, what, source, log }
            }
        };
        let bytes = match scheduler.path() {
            Some(path) => &input::read_file(path, input::MAX_OWN_FILE_BYTES)
                .map_err(|source| SchedulerError::no_file(path, source))?,
            None => own(&scheduler.to_string()),
        };
        let open = ObjectBuilder::default().open_memory(bytes);
        let open = open.map_err(wrong("cannot be read"))?;
        let no_operations = || SchedulerError::NoOperations(scheduler.clone());
        let operations = operations(&open, bytes).ok_or_else(no_operations)?;
        let mut object = open.load().map_err(wrong("is refused by the kernel"))?;
        let mut maps = object.maps_mut();
        let mut ops = maps.find(|map| map.name() == operations).ok_or_else(no_operations)?;
        let link = ops.attach_struct_ops().map_err(wrong("is not attached"))?;
        drop(maps);
        Ok(Loaded { object, link: Some(link) })
    }

    pub fn detach(&mut self) {
        self.link = None;
    }

    /// Why the kernel detached it, once it has.
    pub fn exit(&self) -> Option<Exit> {
        let map = self.object.maps().find(|map| map.name() == ".bss.exit")?;
        let bytes = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        let report: ExitReport =
            bytemuck::pod_read_unaligned(bytes.get(..size_of::<ExitReport>())?);
        let text = |bytes: &[u8]| {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        (report.is_filled != 0).then(|| Exit {
            kind: report.kind,
            code: report.exit_code,
            reason: text(&report.reason),
            message: text(&report.message),
        })
    }
}

/// The name of the operations, if there is one `struct sched_ext_ops` and nothing else that would be attached.
fn operations(open: &OpenObject, bytes: &[u8]) -> Option<OsString> {
    let all = open.maps().filter(|map| map.map_type() == MapType::StructOps);
    let names: Vec<OsString> = all.map(|map| map.name().to_os_string()).collect();
    let [name] = &names[..] else { return None };
    let btf = Btf::from_raw("scheduler", bytes).ok().flatten()?;
    let variable = btf.type_by_name::<Var>(name.to_str()?)?;
    let is_scheduler = variable.referenced_type().name()? == "sched_ext_ops";
    is_scheduler.then(|| name.clone())
}

/// The bytes of a scheduler of [`OWN`].
fn own(name: &str) -> &'static [u8] {
    OBJECTS.iter().find(|(own, _)| *own == name).map_or(&[][..], |(_, bytes)| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scheduler_has_operations_under_its_name_and_room_to_report() {
        for name in OWN {
            let open = ObjectBuilder::default().open_memory(own(name)).unwrap();
            let sizes = |wanted: &str| {
                let mut maps = open.maps();
                maps.find(|map| map.name() == wanted).map(|map| map.value_size() as usize)
            };
            let report = sizes(".bss.exit");
            assert!(
                report.is_some_and(|bytes| bytes >= size_of::<ExitReport>()),
                "{name}: {report:?}"
            );
            assert_eq!(operations(&open, own(name)), Some(name.into()));
            let at = own(name).windows(13).position(|part| part == b"sched_ext_ops").unwrap();
            let other = [&own(name)[..at], b"other_ext_ops", &own(name)[at + 13..]].concat();
            assert_eq!(operations(&open, &other), None, "{name}");
        }
    }
}
