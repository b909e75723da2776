//! The parts and the order of one role: pieces that begin alike and wake the same roles are one part. Pure.

use std::collections::BTreeMap;

use super::likeness::Fit;
use super::threads::Piece;

/// Values of a distribution: the means of as many equal parts of what was seen.
const VALUES: usize = 20;
/// Samples below which a part takes the distribution of the pieces that are in the order alone.
const MIN_SAMPLES: usize = 8;
/// Posts that are no further from each other are one step.
const TOGETHER_NS: f64 = 1_000.0;

/// A semaphore: of a role, and of those of its waits that end in the order in which they began.
pub type Queue = (usize, u8);

/// The things that pieces of one part have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sort {
    /// Where it waits for another thread; `None`: for a timer, an interrupt or somebody who was not captured.
    pub taken: Option<Queue>,
    /// Whether it waits for nothing at all.
    pub goes_on: bool,
    /// It only sleeps, for so long, since no thread of the role was there or nobody woke it.
    pub rest_ns: Option<u64>,
    /// The queues that it wakes one after the other, and how often.
    pub posts: Vec<(Queue, u32)>,
}

impl Sort {
    /// `is_edge`: whether the wakeup of the second piece by the first is part of the plan.
    pub fn new(
        number: usize,
        pieces: &[Piece],
        queue: impl Fn(usize) -> Queue,
        is_edge: impl Fn(usize, usize) -> bool,
    ) -> (Sort, Vec<u64>) {
        let piece = &pieces[number];
        let is_taken = piece.by.is_some_and(|by| is_edge(by, number));
        let (mut posts, mut at): (Vec<(Queue, u32)>, Vec<u64>) = Default::default();
        for &(done_ns, woken) in piece.posts.iter().filter(|(_, woken)| is_edge(number, *woken)) {
            let queue = queue(woken);
            match posts.last_mut() {
                Some((last, times)) if *last == queue => *times += 1,
                _ => posts.push((queue, 1)),
            }
            at.push(done_ns);
        }
        let taken = is_taken.then(|| queue(number));
        let goes_on = !is_taken && (piece.goes_on || piece.is_first);
        (Sort { taken, goes_on, rest_ns: None, posts }, at)
    }

    /// A rest of so long.
    pub fn rest(ns: u64) -> Sort {
        Sort { taken: None, goes_on: false, rest_ns: Some(ns), posts: Vec::new() }
    }

    /// The same whatever the queues of a role.
    pub fn plain(&self) -> Sort {
        let mut posts: Vec<(Queue, u32)> = Vec::new();
        for &((role, _), times) in &self.posts {
            match posts.last_mut() {
                Some(((last, _), so_far)) if *last == role => *so_far += times,
                _ => posts.push(((role, 0), times)),
            }
        }
        Sort { taken: self.taken.map(|(role, _)| (role, 0)), posts, ..*self }
    }
}

/// The queue of each piece that is taken: in each, waits end in the order in which they began, as far as
/// so many of a role suffice.
pub fn queues(
    pieces: &[Piece],
    is_taken: impl Fn(usize) -> bool,
    roles: usize,
    max_queues: usize,
) -> Vec<u8> {
    let began_ns = |number: usize| {
        let piece = &pieces[number];
        piece.slept_at_ns.unwrap_or(piece.woken_at_ns)
    };
    let mut numbers: Vec<usize> = (0..pieces.len()).filter(|number| is_taken(*number)).collect();
    numbers.sort_by_key(|number| (began_ns(*number), *number));
    let mut queues = vec![0; pieces.len()];
    // By role and queue: the last wakeup.
    let mut last: Vec<Vec<u64>> = vec![Vec::new(); roles];
    for number in numbers {
        let piece = &pieces[number];
        let own = &mut last[piece.role];
        let fits = own.iter().enumerate().filter(|(_, ns)| **ns <= piece.woken_at_ns);
        let best = fits.max_by_key(|(_, ns)| **ns).map(|(at, _)| at);
        let at = best.unwrap_or_else(|| {
            if own.len() < max_queues {
                own.push(0);
            }
            own.len() - 1
        });
        own[at] = own[at].max(piece.woken_at_ns);
        queues[number] = at as u8;
    }
    queues
}

/// All that was seen of one part.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// Each with whether its thread did not wait before it.
    works_ns: Vec<(u64, bool)>,
    sleeps_ns: Vec<u64>,
    /// For each post the sum of the shares of the work that were done by then.
    done: Vec<f64>,
}

impl Samples {
    pub fn add(&mut self, piece: &Piece, posts_at_ns: &[u64]) {
        self.works_ns.push((piece.work_ns, piece.goes_on));
        self.sleeps_ns.extend(piece.sleep_ns());
        self.done.resize(posts_at_ns.len(), 0.0);
        for (sum, at_ns) in self.done.iter_mut().zip(posts_at_ns) {
            *sum += *at_ns as f64 / piece.work_ns.max(1) as f64;
        }
    }

    pub fn are_few(&self) -> bool {
        self.works_ns.len() < MIN_SAMPLES
    }

    /// The steps after the wait. `post`: as `post NAME`.
    pub fn work(&self, sort: &Sort, fit: Fit, post: impl Fn(Queue) -> String) -> Vec<String> {
        let work_ns = |&(ns, goes_on): &(u64, bool)| fit.work_ns(ns, goes_on);
        let works_ns = means(self.works_ns.iter().map(work_ns).collect());
        let mean_ns = works_ns.iter().sum::<u64>() as f64 / works_ns.len().max(1) as f64;
        let count = self.works_ns.len().max(1) as f64;
        let burn = |share: f64| {
            let burns = works_ns.iter().map(|ns| (*ns as f64 * share) as u64).collect();
            format!("burn {}", list(burns))
        };
        let queues = sort
            .posts
            .iter()
            .flat_map(|(queue, times)| std::iter::repeat_n(queue, *times as usize));
        let (mut steps, mut done, mut last) = (Vec::new(), 0.0, None);
        for (queue, share) in queues.zip(&self.done) {
            let share = (share / count).clamp(done, 1.0);
            let is_far = (share - done) * mean_ns >= TOGETHER_NS;
            if is_far {
                steps.push(burn(share - done));
                done = share;
            }
            match &mut last {
                Some((same, times)) if *same == *queue && !is_far => {
                    *times += 1;
                    steps.pop();
                    steps.push(format!("{} {times}", post(*queue)));
                }
                _ => {
                    last = Some((*queue, 1));
                    steps.push(post(*queue));
                }
            }
        }
        // A part has a step.
        if (1.0 - done) * mean_ns >= 1.0 || (sort.goes_on && steps.is_empty()) {
            steps.push(burn(1.0 - done));
        }
        steps
    }

    /// How long its pieces slept before.
    pub fn sleep(&self) -> String {
        list(means(self.sleeps_ns.clone()))
    }
}

/// By [`Sort::plain`].
pub type Seen = BTreeMap<Sort, Samples>;

/// A distribution: the means of equal parts of all values, the smallest first; few values as they came.
pub fn means(mut all_ns: Vec<u64>) -> Vec<u64> {
    // Few are drawn one after the other, as they came.
    if all_ns.len() > VALUES {
        all_ns.sort_unstable();
    }
    let parts = VALUES.min(all_ns.len());
    let part = |at: usize| &all_ns[all_ns.len() * at / parts..all_ns.len() * (at + 1) / parts];
    let mean = |part: &[u64]| part.iter().sum::<u64>() / part.len().max(1) as u64;
    (0..parts).map(|at| mean(part(at))).collect()
}

/// `10us|12.5us`; equal ones once.
fn list(mut all_ns: Vec<u64>) -> String {
    all_ns.iter_mut().for_each(|ns| *ns = rounded(*ns));
    if all_ns.windows(2).all(|pair| pair[0] == pair[1]) {
        all_ns.truncate(1);
    }
    if all_ns.is_empty() {
        all_ns.push(0);
    }
    all_ns.into_iter().map(time).collect::<Vec<_>>().join("|")
}

/// To three digits.
pub fn rounded(ns: u64) -> u64 {
    let mut unit = 1;
    while ns / unit >= 1_000 {
        unit *= 10;
    }
    (ns + unit / 2) / unit * unit
}

/// `98.7us`: exact where it is rounded.
pub fn time(ns: u64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    match units.into_iter().find(|(_, factor)| ns >= *factor) {
        Some((unit, factor)) => format!("{}{unit}", ns as f64 / factor as f64),
        None => format!("{ns}ns"),
    }
}

/// `a`, `b` ... `z`, `aa`.
pub fn part_name(mut number: usize) -> String {
    let mut name = Vec::new();
    loop {
        name.insert(0, b'a' + (number % 26) as u8);
        if number < 26 {
            return name.into_iter().map(char::from).collect();
        }
        number = number / 26 - 1;
    }
}

/// `a*3 b a` of part numbers, in lines.
pub fn order(parts: &[usize]) -> String {
    const LINE: usize = 110;
    let (mut text, mut line) = (String::new(), 0);
    for run in parts.chunk_by(|one, next| one == next) {
        let name = part_name(run[0]);
        let word = if run.len() == 1 { name } else { format!("{name}*{}", run.len()) };
        let gap = match line {
            0 => "",
            used if used + word.len() > LINE => "\n",
            _ => " ",
        };
        line = if gap == "\n" { word.len() } else { line + gap.len() + word.len() };
        text += gap;
        text += &word;
    }
    text
}
