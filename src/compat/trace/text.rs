//! A trace of the scheduler as text: of `perf sched script` and `perf script`, of `trace-cmd report`, and of ftrace's
//! own file.
//!
//! Input: the bytes of the file. Pure.
//!
//! Facts of the format: a line is a task with its number, a CPU in brackets, flags (not in perf's), seconds and the event.
//! The third flag says whether an interrupt was being served. `prev_comm=a prev_pid=1 ...` and `comm=a pid=1 ...`
//! are the kernel's own form of the fields, `a:1 [120] S ==> b:2 [120]` is that of libtraceevent. The events of all
//! CPUs come in the order of their times.

use crate::compat::CompatError;
use crate::model::{Left, TraceEvent, TraceTask, TraceWhat, Waker, clean};

use super::seen::{ForeignTrace, MAX_EVENTS, Seen, priority};

const MAX_SHOWN: usize = 80;
/// Between the thread that leaves a CPU and the one that gets it.
const ARROW: &str = " ==> ";
/// No event has a longer line; brackets in a name take time by the square of it.
const MAX_LINE_BYTES: usize = 4_096;

pub fn read(bytes: &[u8]) -> Result<ForeignTrace, CompatError> {
    let mut reader = Reader::default();
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
    let mut is_cut_off = false;
    let mut first = None;
    while let Some((at, line)) = lines.next() {
        // A number in it may have lost its last digits.
        is_cut_off = lines.peek().is_none() && !line.ends_with(b"\n");
        if is_cut_off {
            continue;
        }
        match reader.line(&String::from_utf8_lossy(line)) {
            Ok(()) => {}
            // The first line may have lost its beginning.
            Err(fault @ Fault::Unplaced(_)) if at == 0 => first = Some(fault.at(1, line)),
            Err(Fault::Unplaced(_)) if reader.seen.events.is_empty() && first.is_some() => break,
            Err(fault) => return Err(fault.at(at + 1, line)),
        }
    }
    if let (Some(error), true) = (first, reader.seen.events.is_empty()) {
        return Err(error);
    }
    reader.seen.finish(reader.knows_interrupts, is_cut_off)
}

/// A fault of one line.
enum Fault {
    Malformed(&'static str),
    /// An event without a place or a time.
    Unplaced(&'static str),
    Backwards,
    Lost,
    Overwritten,
    TooMany,
}

impl Fault {
    fn at(self, number: usize, line: &[u8]) -> CompatError {
        let line = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE_BYTES)]);
        let shown: String = line.trim().chars().take(MAX_SHOWN).collect();
        let (problem, hint) = match self {
            Fault::Malformed(event) => (
                format!("a {event} that is not understood"),
                "the output of the tool as it is".to_string(),
            ),
            Fault::Unplaced(event) => {
                let hint = "times in seconds with a fraction, such as 10.000620, behind a CPU in brackets: trace-cmd \
                            record -C mono, or echo mono > /sys/kernel/tracing/trace_clock";
                (format!("a {event} whose task, CPU or time is not understood"), hint.to_string())
            }
            Fault::Backwards => {
                let hint = "one trace, in the order of times, with a clock that all CPUs share";
                ("its time is before that of the line above".to_string(), hint.to_string())
            }
            Fault::Lost => {
                let hint = "larger buffers: perf sched record -m 16M, trace-cmd record -b 16384";
                ("events were lost".to_string(), hint.to_string())
            }
            Fault::Overwritten => {
                let hint = "a larger buffer: echo 65536 > /sys/kernel/tracing/buffer_size_kb";
                ("the buffer did not hold all events".to_string(), hint.to_string())
            }
            Fault::TooMany => (
                format!("more than {MAX_EVENTS} switches and wakeups"),
                "a shorter trace".to_string(),
            ),
        };
        CompatError::usage(format!("line {number}: {problem}: {}", clean(&shown)), hint)
    }
}

#[derive(Default)]
struct Reader {
    seen: Seen,
    knows_interrupts: bool,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), Fault> {
        let Some(line) = Line::read(line) else { return check_other(line) };
        if line.event.starts_with("PERF_RECORD_LOST") {
            return Err(Fault::Lost);
        }
        if !matches!(line.event, "sched_switch" | "sched_waking" | "sched_wakeup_new") {
            return Ok(());
        }
        self.knows_interrupts |= line.interrupts.is_some();
        let what = match line.event {
            "sched_switch" => self.switch(line.rest).ok_or(Fault::Malformed("sched_switch"))?,
            _ => self.waking(&line).ok_or(Fault::Malformed("wakeup"))?,
        };
        self.seen.has_waking |= line.event == "sched_waking";
        if let Some(tgid) = line.tgid {
            self.seen.process(line.tid, tgid);
        }
        let events = &mut self.seen.events;
        if events.last().is_some_and(|last| last.at_ns > line.at_ns) {
            return Err(Fault::Backwards);
        }
        if events.len() >= MAX_EVENTS {
            return Err(Fault::TooMany);
        }
        events.push(TraceEvent { at_ns: line.at_ns, cpu: line.cpu, what });
        Ok(())
    }

    fn switch(&mut self, fields: &str) -> Option<TraceWhat> {
        // A name may have an arrow, too.
        let mut arrows = fields.match_indices(ARROW);
        let (from, left, to) = arrows.find_map(|(at, arrow)| {
            let (before, after) = (&fields[..at], &fields[at + arrow.len()..]);
            match before.strip_prefix("prev_comm=") {
                Some(before) => {
                    let (before, left) = before.rsplit_once(" prev_state=")?;
                    let to = Fields::named(after.strip_prefix("next_comm=")?, "next_")?;
                    Some((Fields::named(before, "prev_")?, left_as(left)?, to))
                }
                None => {
                    let (before, left) = before.rsplit_once(' ')?;
                    Some((Fields::short(before)?, left_as(left)?, Fields::short(after)?))
                }
            }
        })?;
        let prio = to.prio;
        Some(TraceWhat::Switch { from: self.task(from), left, to: self.task(to), prio })
    }

    fn waking(&mut self, line: &Line) -> Option<TraceWhat> {
        let (woken, cpu) = match line.rest.strip_prefix("comm=") {
            Some(rest) => {
                let (rest, cpu) = rest.rsplit_once(" target_cpu=")?;
                // Before Linux 4.14.
                (Fields::named(rest.trim_end_matches(" success=1"), "")?, cpu)
            }
            None => {
                let (rest, cpu) = line.rest.rsplit_once("CPU:")?;
                (Fields::short(&rest[..rest.rfind(']')? + 1])?, cpu)
            }
        };
        let by = if line.tid == 0 || line.interrupts == Some(true) {
            Waker::Interrupt
        } else {
            Waker::Task(line.tid)
        };
        let last_cpu = cpu.trim().parse().ok()?;
        let prio = woken.prio;
        Some(TraceWhat::Waking { by, task: self.task(woken), prio, last_cpu, is_sync: false })
    }

    fn task(&mut self, fields: Fields) -> TraceTask {
        self.seen.task(fields.tid, fields.name, Some(fields.prio))
    }
}

/// A line that is read as no event: that something is missing counts, and an event that is named nevertheless.
fn check_other(line: &str) -> Result<(), Fault> {
    let is_lost = line.contains("[LOST ") && line.contains(" EVENTS]");
    if is_lost || line.contains("EVENTS DROPPED]") {
        return Err(Fault::Lost);
    }
    if let Some(event) = named_event(line) {
        return Err(Fault::Unplaced(event));
    }
    let Some((_, counts)) = line.split_once("entries-in-buffer/entries-written:") else {
        return Ok(());
    };
    let counts = counts.split_whitespace().next().and_then(|counts| counts.split_once('/'));
    if counts.is_some_and(|(held, written)| held != written) {
        Err(Fault::Overwritten)
    } else {
        Ok(())
    }
}

/// The event of a trace that a line names, which is no comment.
fn named_event(line: &str) -> Option<&'static str> {
    if line.starts_with('#') || line.len() > MAX_LINE_BYTES {
        return None;
    }
    let words = line.split_whitespace().filter_map(|word| word.strip_suffix(':'));
    let mut events = words.map(|word| word.rsplit(':').next().unwrap_or(word));
    events.find_map(|word| match word {
        "sched_switch" => Some("sched_switch"),
        "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => Some("wakeup"),
        _ => None,
    })
}

/// A line with an event.
struct Line<'a> {
    /// The running thread.
    tid: i32,
    /// Its process, where that is shown.
    tgid: Option<i32>,
    cpu: u32,
    /// Whether an interrupt was being served; `None`: that is not shown.
    interrupts: Option<bool>,
    at_ns: u64,
    event: &'a str,
    rest: &'a str,
}

impl Line<'_> {
    fn read(line: &str) -> Option<Line<'_>> {
        if line.starts_with('#') || line.len() > MAX_LINE_BYTES {
            return None;
        }
        // A name may have brackets, too: those of the CPU stand between a number and the flags and the time.
        let ((tid, tgid), cpu, flags, at_ns, event) =
            line.match_indices('[').find_map(|(at, _)| {
                let (cpu, rest) = line[at + 1..].split_once(']')?;
                let (before, event) = rest.split_once(": ")?;
                let (flags, time) = match before.split_whitespace().collect::<Vec<_>>()[..] {
                    [time] => (None, time),
                    [flags, time] => (flags.chars().nth(2), time),
                    _ => return None,
                };
                Some((
                    running(&line[..at])?,
                    cpu.trim().parse().ok()?,
                    flags,
                    time_ns(time)?,
                    event,
                ))
            })?;
        let interrupts = flags.map(|flag| "hHszZ".contains(flag));
        let event = event.trim();
        let (event, rest) = event.split_once(": ").unwrap_or((event, ""));
        // perf puts the subsystem before the event.
        let event = event.rsplit(':').next().unwrap_or(event);
        Some(Line { tid, tgid, cpu, interrupts, at_ns, event, rest: rest.trim() })
    }
}

/// The thread and its process: `name-12`, `name-12 (11)`, `name 12`, `name 11/12`.
fn running(text: &str) -> Option<(i32, Option<i32>)> {
    let text = text.trim_end();
    let (text, tgid) = match text.strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
        Some((text, tgid)) => (text.trim_end(), tgid.trim().parse().ok()),
        None => (text, None),
    };
    let (text, tid) = last_number(text)?;
    let of_perf = text.strip_suffix('/').and_then(last_number).map(|(_, tgid)| tgid);
    Some((tid, tgid.or(of_perf)))
}

fn last_number(text: &str) -> Option<(&str, i32)> {
    let begin = text.trim_end_matches(|c: char| c.is_ascii_digit());
    Some((begin, text[begin.len()..].parse().ok()?))
}

/// Seconds with their fraction.
fn time_ns(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| (1..=9).contains(digits))?;
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) {
        return None;
    }
    let fraction_ns = fraction.parse::<u64>().ok()? * 10_u64.pow(9 - digits);
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}

/// A task in the fields of an event.
struct Fields<'a> {
    name: &'a str,
    tid: i32,
    prio: u16,
}

impl Fields<'_> {
    /// `NAME prev_pid=1 prev_prio=120`, where a name may have anything in it.
    fn named<'a>(text: &'a str, prefix: &str) -> Option<Fields<'a>> {
        let (text, prio) = text.rsplit_once(&format!(" {prefix}prio="))?;
        let (name, tid) = text.rsplit_once(&format!(" {prefix}pid="))?;
        Some(Fields { name, tid: tid.parse().ok()?, prio: prio_in(prio)? })
    }

    /// `NAME:1 [120]`.
    fn short(text: &str) -> Option<Fields<'_>> {
        let (text, prio) = text.trim().strip_suffix(']')?.rsplit_once(" [")?;
        let (name, tid) = text.rsplit_once(':')?;
        Some(Fields { name, tid: tid.parse().ok()?, prio: prio_in(prio)? })
    }
}

fn prio_in(text: &str) -> Option<u16> {
    Some(priority(text.trim().parse::<i16>().ok()?.into()))
}

fn left_as(state: &str) -> Option<Left> {
    Some(match state {
        "R+" => Left::Preempted,
        _ => match state.chars().next()? {
            'R' => Left::Runnable,
            'S' => Left::Sleeping,
            'D' | 'K' | 'W' => Left::Uninterruptible,
            'I' => Left::Idle,
            'P' => Left::Parked,
            'T' => Left::Stopped,
            't' => Left::Traced,
            'X' | 'x' | 'Z' => Left::Dead,
            _ => return None,
        },
    })
}
