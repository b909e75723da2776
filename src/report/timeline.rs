//! A picture of who ran where: a row for each CPU over the whole time, and a closer look at one moment. Tasks have
//! colours and patterns; time in which a CPU idled next to waiting tasks is marked. Pure.

use std::fmt::Write as _;
use std::io::{self, Write};

use minijinja::{Value, context};

use crate::analysis::{Occupant, Stretch, Timeline};

use super::chart::{HUES, LINE, lines_of, round};
use super::layout::{clean, shortened};
use super::page;

const WIDTH: f64 = 1040.0;
const LEFT: f64 = 60.0;
const ROW: f64 = 26.0;
const GAP: f64 = 6.0;
/// Columns of the whole time: each shows the shares of its tasks.
const BINS: u64 = 200;
/// The length of the closer look.
const CLOSE_NS: u64 = 60_000_000;
const TICKS: u64 = 5;
/// Patterns: with [`HUES`] colours as many tasks are distinguished.
const PATTERNS: usize = 4;
const KEY: f64 = 200.0;
const KEY_LETTERS: usize = 24;

/// The kinds of what is drawn in a row, in the order in which they are stacked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ink {
    Task(usize),
    Other,
    /// Idle, while a task waits that may run there.
    Idle,
}

impl Ink {
    fn fill(self) -> String {
        match self {
            Ink::Task(at) => format!("url(#p{}-{})", at % HUES, at / HUES % PATTERNS),
            Ink::Other => "url(#other)".to_string(),
            Ink::Idle => "url(#idle)".to_string(),
        }
    }
}

/// `title` and `about` are of the run; the closer look begins at `close_ns`.
pub fn write(
    title: &str,
    about: &str,
    timeline: &Timeline,
    close_ns: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let own = [("timeline.svg.html", include_str!("page/timeline.svg.html"))];
    let templates = page::templates(&own).map_err(io::Error::other)?;
    let mut y = LINE;
    let mut lines = Vec::new();
    for text in lines_of(&clean(about), WIDTH) {
        y += LINE;
        lines.push(context! { x => 0.0, y, text });
    }
    let keys = keys(timeline, &mut y);
    let from_ns = close_ns.min(timeline.length_ns.saturating_sub(CLOSE_NS));
    let whole = panel(timeline, 0, timeline.length_ns, &mut y);
    let close = panel(timeline, from_ns, (from_ns + CLOSE_NS).min(timeline.length_ns), &mut y);
    let picture = context! {
        title => clean(title),
        width => WIDTH,
        height => y + LINE,
        style => page::alone_style(),
        hues => (0..HUES).collect::<Vec<_>>(),
        lines,
        keys,
        panels => vec![whole, close],
    };
    page::render(out, &templates, "timeline.svg.html", &picture)
}

fn keys(timeline: &Timeline, y: &mut f64) -> Vec<Value> {
    let tasks = timeline.tasks.iter().enumerate().map(|(at, task)| {
        let number = timeline.tasks[..at].iter().filter(|other| other.set == task.set).count();
        let name = format!("{} {}: CPUs {}", task.name, number + 1, task.cpus);
        (Ink::Task(at), shortened(&clean(&name), KEY_LETTERS))
    });
    let rest = [(Ink::Other, "other tasks"), (Ink::Idle, "idle, and a task waits")];
    let all = tasks.chain(rest.map(|(ink, name)| (ink, name.to_string())));
    *y += GAP;
    let top = *y;
    let columns = (WIDTH / KEY) as usize;
    let keys = all.enumerate().map(|(at, (ink, name))| {
        let (x, line) = ((at % columns) as f64 * KEY, (at / columns) as f64);
        *y = top + (line + 1.0) * (LINE + 2.0);
        let path = area(0.0, 0.0, 24.0, 12.0);
        context! { x, y => top + line * (LINE + 2.0), fill => ink.fill(), path, name }
    });
    keys.collect()
}

/// The rows of all CPUs from one time to another.
fn panel(timeline: &Timeline, from_ns: u64, to_ns: u64, y: &mut f64) -> Value {
    *y += LINE + GAP;
    let top = *y;
    let length_ns = (to_ns - from_ns).max(1);
    let ticks = (0..=TICKS).map(|tick| {
        let at_ns = from_ns + length_ns * tick / TICKS;
        let x = round(LEFT + (WIDTH - LEFT) * tick as f64 / TICKS as f64);
        let text = format!("{:.3} s", (timeline.begin_ns + at_ns) as f64 / 1e9);
        context! { x, y => top - GAP, text }
    });
    let ticks: Vec<Value> = ticks.collect();
    let rows = timeline.cpus.iter().enumerate().map(|(cpu, stretches)| {
        let mut drawn = Drawn::new(from_ns, length_ns);
        for stretch in inked(timeline, cpu as u32, stretches) {
            drawn.add(stretch);
        }
        let own = context! { y => *y, name => format!("CPU {cpu}"), shapes => drawn.shapes() };
        *y += ROW + GAP;
        own
    });
    let rows: Vec<Value> = rows.collect();
    context! { top, rows, bottom => *y - GAP, ticks }
}

/// All that is drawn of a CPU; idle time without a waiting task is left blank.
fn inked(timeline: &Timeline, cpu: u32, stretches: &[Stretch]) -> Vec<(u64, u64, Ink)> {
    let ran = stretches.iter().filter_map(|own| {
        let ink = match own.occupant {
            Occupant::Idle => return None,
            Occupant::Task(task) => Ink::Task(task),
            Occupant::Other => Ink::Other,
        };
        Some((own.from_ns, own.to_ns, ink))
    });
    let idle = timeline.idle.iter().filter(|span| span.cpu == cpu);
    ran.chain(idle.map(|span| (span.from_ns, span.to_ns, Ink::Idle))).collect()
}

/// The shares of each column of a row.
struct Drawn {
    from_ns: u64,
    length_ns: u64,
    /// By column, the time of each ink in it.
    bins: Vec<Vec<(Ink, f64)>>,
}

impl Drawn {
    fn new(from_ns: u64, length_ns: u64) -> Drawn {
        Drawn { from_ns, length_ns, bins: vec![Vec::new(); BINS as usize] }
    }

    fn add(&mut self, (from_ns, to_ns, ink): (u64, u64, Ink)) {
        let width_ns = self.length_ns as f64 / BINS as f64;
        let place = |ns: u64| ns.saturating_sub(self.from_ns) as f64 / width_ns;
        let (from, to) = (place(from_ns), place(to_ns).min(BINS as f64));
        let mut at = from;
        while at < to {
            let end = (at.floor() + 1.0).min(to);
            let bin = &mut self.bins[at as usize];
            match bin.iter_mut().find(|(own, _)| *own == ink) {
                Some((_, share)) => *share += end - at,
                None => bin.push((ink, end - at)),
            }
            at = end;
        }
    }

    /// The path of each ink and its pattern, as `url(#p0-1)`; columns that follow each other with the same whole ink are one rectangle.
    fn shapes(mut self) -> Vec<Value> {
        let mut paths: Vec<(Ink, String)> = Vec::new();
        let width = (WIDTH - LEFT) / BINS as f64;
        self.bins.iter_mut().for_each(|bin| bin.sort_by_key(|(ink, _)| *ink));
        let mut at = 0;
        while at < self.bins.len() {
            let bin = &self.bins[at];
            let same = |other: &Vec<(Ink, f64)>| other == bin;
            let count = self.bins[at..].iter().take_while(|other| same(other)).count();
            let (x, width) = (LEFT + at as f64 * width, count as f64 * width);
            let mut y = ROW;
            for (ink, share) in bin {
                let height = share.min(1.0) * ROW;
                y -= height;
                let place = paths.iter().position(|(own, _)| own == ink).unwrap_or(paths.len());
                if place == paths.len() {
                    paths.push((*ink, String::new()));
                }
                paths[place].1.push_str(&area(x, y.max(0.0), width, height));
            }
            at += count;
        }
        paths.into_iter().map(|(ink, path)| context! { fill => ink.fill(), path }).collect()
    }
}

fn area(x: f64, y: f64, width: f64, height: f64) -> String {
    let mut path = String::new();
    let [x, y, width, height] = [x, y, width, height].map(|place| (place * 100.0).round() / 100.0);
    write!(path, "M{x} {y}h{width}v{height}h-{width}z").expect("a String takes everything");
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{IdleSpan, TimelineTask};

    const MS: u64 = 1_000_000;

    #[test]
    fn a_picture_has_a_row_a_cpu_marks_idle_time_and_escapes_names() {
        let task = |name: &str| TimelineTask {
            name: name.to_string(),
            cpus: "0-1".parse().unwrap(),
            ..TimelineTask::default()
        };
        let stretch = |from, to, occupant| Stretch { from_ns: from * MS, to_ns: to * MS, occupant };
        let timeline = Timeline {
            length_ns: 1000 * MS,
            tasks: vec![task("<script>"), task("b\u{1b}[31m")],
            cpus: vec![
                vec![stretch(0, 500, Occupant::Task(0)), stretch(500, 1000, Occupant::Task(1))],
                vec![stretch(0, 1000, Occupant::Idle)],
            ],
            begin_ns: 500 * MS,
            idle: vec![IdleSpan {
                cpu: 1,
                from_ns: 0,
                to_ns: 1000 * MS,
                waiting: vec![0],
                first: None,
            }],
            ..Timeline::default()
        };
        let mut out = Vec::new();
        write("a & b", "more", &timeline, 470 * MS, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains("<script>") && text.contains("&lt;script&gt;"), "{text}");
        assert!(!text.contains('\u{1b}') && text.contains("a &amp; b"), "{text}");
        let ticks = ["0.500 s", "1.500 s", "0.970 s", "1.030 s"];
        assert!(ticks.iter().all(|tick| text.contains(&format!(">{tick}<"))), "{text}");
        // Two panels of two rows: the tasks of CPU 0, and CPU 1 alone is marked, all of the time.
        assert_eq!(text.matches(">CPU ").count(), 4);
        let whole = |fill: &str, from: f64, width: f64| {
            let shape = format!("<path fill=\"{fill}\" d=\"M{from} 0h{width}v26h-{width}z\"");
            text.matches(&shape).count()
        };
        assert_eq!(whole("url(#idle)", LEFT, WIDTH - LEFT), 2, "{text}");
        assert_eq!(whole("url(#p0-0)", LEFT, 490.0), 2, "half of the whole and of the closer look");
        assert_eq!(whole("url(#p1-0)", 550.0, 490.0), 2);
    }
}
