//! Tracepoints of tracefs: their numbers and where their fields lie. Parsing is pure.
//!
//! Input: /proc/self/mountinfo, and `events/SYSTEM/NAME/{id,format}` below tracefs.

use std::path::PathBuf;

use super::{FileError, Host, mounts};

/// Why a tracepoint cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("tracefs is not mounted")]
    NotMounted,
    #[error("{}: not the format of a tracepoint", .0.display())]
    NoTracepoint(PathBuf),
}

impl TracefsError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            TracefsError::NotMounted => Some("mount -t tracefs tracefs /sys/kernel/tracing"),
            _ => None,
        }
    }
}

/// One tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracepoint {
    pub id: u64,
    pub fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub offset: usize,
    pub bytes: usize,
    pub signed: bool,
}

impl Tracepoint {
    /// The field of this name. Names do not include brackets and their contents.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// The folder at which tracefs is mounted: by itself, or below debugfs.
pub fn folder(host: &Host) -> Result<PathBuf, TracefsError> {
    let mounts = mounts::parse_all(&host.text(mounts::MOUNTINFO)?);
    let point = |kind: &str| mounts.iter().find(|mount| mount.filesystem == kind);
    match (point("tracefs"), point("debugfs")) {
        (Some(own), _) => Ok(own.point.clone()),
        (None, Some(debug)) => Ok(debug.point.join("tracing")),
        (None, None) => Err(TracefsError::NotMounted),
    }
}

/// Reads a tracepoint of the scheduler.
pub fn sched(host: &Host, name: &str) -> Result<Tracepoint, TracefsError> {
    let below = folder(host)?.join("events/sched").join(name);
    let read = |file: &str| host.text(below.join(file));
    parse(&read("format")?)
        .filter(|tracepoint| read("id").is_ok_and(|id| id.trim() == tracepoint.id.to_string()))
        .ok_or(TracefsError::NoTracepoint(below))
}

/// `ID: 375`, and for each field `\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;`.
fn parse(text: &str) -> Option<Tracepoint> {
    let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("field:"));
    let fields = lines.map(field).collect::<Option<Vec<Field>>>()?;
    Some(Tracepoint { id, fields })
}

fn field(line: &str) -> Option<Field> {
    let mut parts = line.split(';').map(str::trim);
    let declared = parts.next()?;
    let mut value = |key: &str| parts.next()?.strip_prefix(key)?.strip_prefix(':');
    let offset = value("offset")?.parse().ok()?;
    let bytes = value("size")?.parse().ok()?;
    let signed = value("signed")? == "1";
    // `__data_loc char[] comm`, `char comm[16]`, `unsigned long args[6]`.
    let name = declared.rsplit(' ').next()?.split('[').next()?;
    Some(Field { name: name.to_string(), offset, bytes, signed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::testing::Tree;

    const WAKING: &str = "name: sched_waking\nID: 375\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:__data_loc char[] where;\toffset:24;\tsize:4;\tsigned:0;\n\
        \nprint fmt: \"field: %s ID: 1\", REC->comm\n";

    #[test]
    fn fields_are_found_by_name_wherever_they_lie() {
        let read = parse(WAKING).unwrap();
        let of = |name: &str| read.field(name).map(|f| (f.offset, f.bytes, f.signed));
        assert_eq!(read.id, 375);
        assert_eq!(read.fields.len(), 4);
        assert_eq!(of("common_type"), Some((0, 2, false)));
        assert_eq!(of("common_pid"), Some((4, 4, true)));
        assert_eq!(of("comm"), Some((8, 16, false)));
        assert_eq!(of("where"), Some((24, 4, false)));
        assert_eq!(of("pid"), None);
    }

    #[test]
    fn what_is_no_format_is_refused() {
        let cut = WAKING.replace("\tsize:4;", "");
        let odd = WAKING.replace("offset:8", "offset:-8");
        for wrong in ["", "ID: x\n", cut.as_str(), odd.as_str()] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    /// The mount table, and below which folder of it the events are.
    #[test]
    fn tracefs_is_found_wherever_it_is_mounted() {
        let traces = "30 1 0:9 / /somewhere/else rw - tracefs none rw\n";
        let debug = "31 1 0:8 / /sys/kernel/debug rw - debugfs none rw\n";
        let both = format!("{debug}{traces}");
        let cases = [
            (traces, Some("/somewhere/else")),
            (both.as_str(), Some("/somewhere/else")),
            (debug, Some("/sys/kernel/debug/tracing")),
            ("32 1 0:7 / /proc rw - proc none rw\n", None),
        ];
        for (mounts, expected) in cases {
            let tree = Tree::with_files(&[("/proc/self/mountinfo", mounts)]);
            let Some(folder) = expected else {
                let error = sched(&tree.host(), "sched_waking").unwrap_err();
                assert!(error.hint().is_some_and(|hint| hint.contains("mount -t tracefs")));
                continue;
            };
            let why = sched(&tree.host(), "sched_waking").unwrap_err().to_string();
            assert!(why.contains(folder) && why.contains("ENOENT"), "{why}");
            let file = |name: &str| format!("{folder}/events/sched/sched_waking/{name}");
            tree.write(&file("format"), WAKING);
            tree.write(&file("id"), "375\n");
            assert_eq!(sched(&tree.host(), "sched_waking").unwrap().id, 375);
            tree.write(&file("id"), "376\n");
            assert!(sched(&tree.host(), "sched_waking").is_err());
        }
    }
}
