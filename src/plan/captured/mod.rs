//! A trace of running threads as the text of a plan: roles, what each works and waits, and who wakes whom. Pure.
//!
//! Threads alike are one role. Its pieces are sorted into parts: those that begin alike, by a wakeup from another
//! thread or from outside, and wake the same roles. Times are drawn from what was seen of a part; the order of parts
//! is the one that was seen, so what is woken is as often woken in the replay, and nobody waits for a wakeup that does not
//! come: with as many workers as there were threads, the order that was seen is always possible.

mod kinds;
mod likeness;
mod parts;
mod rests;
mod settings;
#[cfg(test)]
mod tests;
mod threads;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::model::{PLAN_SCHEMA, Trace, TracedTask, clean};
use crate::workload;

use super::fields::{MAX_SETS, MAX_TEXT_BYTES, MAX_TITLE_CHARS};
use super::table::toml_text as quoted;
use kinds::Kind;
pub use likeness::{Fit, Likeness, Profile, score, worst_role};
use parts::{Queue, Seen, Sort, order as order_text, part_name, rounded, time};
pub use settings::Settings;
use threads::{PIECE_NS, Piece, Place, Thread, Threads};

/// Pieces in the orders of all roles together.
const MAX_PIECES: usize = 60_000;
/// A plan is not to be longer, so that it can be read and sent.
const MAX_BYTES: usize = MAX_TEXT_BYTES / 2;
/// Pieces of a thread in a window that show what it does, and of many threads alike.
const MIN_IN_WINDOW: u32 = 20;
const MIN_OF_ALL: u32 = 200;
/// Semaphores of a role.
const MAX_QUEUES: usize = 8;
/// So many wakeups of others in a stretch of work are read in pieces, where else most wakers would do too little in the time
/// that a plan has room for.
const MANY_POSTS: u64 = 100;
/// Stretches of work that take one part in so many of the time are long.
const LONG_PARTS: u64 = 20;
/// A rest of less than one part in so many of the time makes no difference.
const REST_PARTS: u64 = 100;
/// Threads with a smaller part of the work and of the wakeups are not worth a role.
const SMALL_PARTS: u64 = 1_000;
/// Roles with less of their CPU time in the plan are named.
pub const MIN_KEPT: f64 = 0.9;
/// Windows that are compared where not all pieces fit.
const WINDOWS: u64 = 9;
/// Names of threads have no more bytes.
const MAX_NAME: usize = 15;

/// A plan, and all it is made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Captured {
    pub text: String,
    pub roles: Vec<Role>,
    /// The time that the order of parts was seen in.
    pub window_ns: u64,
    /// The CPUs that the threads without a role had.
    pub left_out_cpus: f64,
}

/// A role as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Role {
    pub threads: u32,
    pub profile: Profile,
    /// The part of its CPU time that is in the plan. Short stretches are not of which the begin or the end was not seen, nor
    /// those that threads did once, from their birth on.
    pub kept: f64,
    /// The part of the time before its first and after its last work, where its replay goes on without such a pause.
    pub paused: f64,
}

/// All that is captured.
pub struct Asked<'a> {
    pub trace: &'a Trace,
    pub tasks: &'a [TracedTask],
    pub settings: &'a BTreeMap<i32, Settings>,
    pub title: &'a str,
    /// Roles have the names of threads.
    pub is_named: bool,
    /// By role, where a replay was measured.
    pub fits: &'a [Fit],
}

/// The plan of these threads. `None`: none of them did anything.
pub fn captured(asked: &Asked) -> Option<Captured> {
    let mut scene = Scene::new(asked, u64::MAX, &BTreeSet::new())?;
    let once = scene.long_once();
    if !once.is_empty() {
        scene = Scene::new(asked, u64::MAX, &once)?;
    }
    let (found, has_wakers) = scene.captured(asked);
    if has_wakers {
        return Some(found);
    }
    Scene::new(asked, MANY_POSTS, &once).map(|scene| scene.captured(asked).0)
}

/// The same of a replay, whose workers have the names of their roles.
pub fn replayed(trace: &Trace, tasks: &[TracedTask], roles: &[Role]) -> Vec<Profile> {
    let names: Vec<&str> = roles.iter().map(|role| role.profile.name.as_str()).collect();
    let role = |task: &TracedTask| names.iter().position(|name| *name == task.name);
    let roles = tasks.iter().filter_map(|task| Some((task.tid, role(task)?))).collect();
    let threads = Threads::watch(trace, &roles, BTreeSet::new());
    let wall_ns = trace.to_ns.saturating_sub(trace.from_ns);
    let profile = |(at, name): (usize, &&str)| Profile::read(&threads, at, name, wall_ns);
    names.iter().enumerate().map(profile).collect()
}

/// Threads in their roles.
struct Scene {
    from_ns: u64,
    to_ns: u64,
    threads: Threads,
    /// The names of the roles.
    names: Vec<String>,
    /// Whether its threads never slept.
    busy: Vec<bool>,
    /// How its threads were set, where that is not usual.
    knobs: Vec<Vec<String>>,
    /// Kinds of threads without a role.
    left_out: usize,
    /// Their work, and that of threads of which too little was seen.
    left_out_ns: u64,
    /// By role the work of the pieces that no order has.
    once_ns: Vec<u64>,
}

impl Scene {
    /// Stretches with so many posts are cut, and these ones.
    fn new(asked: &Asked, min_posts: u64, more: &BTreeSet<Place>) -> Option<Scene> {
        let all: BTreeMap<i32, usize> = asked.tasks.iter().map(|task| (task.tid, 0)).collect();
        let first = Threads::watch(asked.trace, &all, BTreeSet::new());
        let wall_ns = asked.trace.to_ns.saturating_sub(asked.trace.from_ns);
        let min_ns = wall_ns / LONG_PARTS;
        let mut cut = first.to_cut(min_ns, min_posts);
        cut.extend(more);
        let settings = settings::with_namesakes(asked.tasks, asked.settings);
        let tasks = asked.tasks.iter().zip(&settings);
        let mut kinds = kinds::kinds(tasks, &first, &cut, min_ns);
        let own = || first.by_tid.values();
        let [work_ns, wakeups] =
            [own().map(|of| of.work_ns).sum(), own().map(|of| of.wakeups).sum()];
        let is_small = |part: u64, all: u64| part.saturating_mul(SMALL_PARTS) < all;
        let is_role = |(_, (own_ns, tids)): (&Kind, &(u64, Vec<i32>))| {
            let woken = tids.iter().filter_map(|tid| first.by_tid.get(tid)).map(|own| own.wakeups);
            !is_small(*own_ns, work_ns) || !is_small(woken.sum(), wakeups)
        };
        let all = kinds.len();
        // Where all are small, none is smaller than the others.
        let has_large = kinds.iter().any(is_role);
        kinds.retain(|kind, sum| !has_large || is_role((kind, sum)));
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        // As many as a plan has sets are kept: those that work most.
        kinds.sort_by_key(|(_, (work_ns, _))| std::cmp::Reverse(*work_ns));
        kinds.truncate(MAX_SETS);
        let left_out = all - kinds.len();
        let kept_ns: u64 = kinds.iter().map(|(_, (work_ns, _))| work_ns).sum();
        let left_out_ns = work_ns.saturating_sub(kept_ns);
        let kinds = kinds::with_own_queues(kinds, &first, MAX_SETS);
        let mut names: Vec<String> = Vec::new();
        let (mut roles, mut busy, mut knobs) = (BTreeMap::new(), Vec::new(), Vec::new());
        for (at, (kind, (_, tids))) in kinds.iter().enumerate() {
            let ((process, name, _, prio, settings), manner) = kind;
            knobs.push(settings.knobs(*prio));
            let name = if asked.is_named {
                role_name(process, name, &names)
            } else {
                format!("role-{}", at + 1)
            };
            names.push(name);
            busy.push(manner.is_busy());
            roles.extend(tids.iter().map(|tid| (*tid, at)));
        }
        let threads = Threads::watch(asked.trace, &roles, cut);
        if names.is_empty() {
            return None;
        }
        let (from_ns, to_ns, once_ns) =
            (asked.trace.from_ns, asked.trace.to_ns, vec![0; names.len()]);
        let mut scene =
            Scene { from_ns, to_ns, threads, names, busy, knobs, left_out, left_out_ns, once_ns };
        let once: Vec<(usize, u64)> =
            scene.only_once().map(|piece| (piece.role, piece.work_ns)).collect();
        once.into_iter().for_each(|(role, work_ns)| scene.once_ns[role] += work_ns);
        Some(scene)
    }

    /// The longest plan that has room, and whether most of the wakeups are by roles that are in its order.
    fn captured(&self, asked: &Asked) -> (Captured, bool) {
        let (mut budget, mut max_queues) = (MAX_PIECES, MAX_QUEUES);
        loop {
            let window = self.window(budget);
            let (text, steps) = self.text(asked, window, max_queues);
            if (text.len() <= MAX_BYTES && steps <= workload::MAX_STEPS) || budget < 100 {
                let wall_ns = self.wall_ns();
                let rests_ns = self.unqueued(window).rests_ns;
                let role = |(at, name): (usize, &String)| Role {
                    threads: self.threads.count(at),
                    profile: Profile::read(&self.threads, at, name, wall_ns),
                    kept: self.kept(at),
                    paused: match rests_ns[at] {
                        None if !self.keeps_pause(at, window) => {
                            self.pause_ns(at) as f64 / wall_ns as f64
                        }
                        _ => 0.0,
                    },
                };
                let roles = self.names.iter().enumerate().map(role).collect();
                let window_ns = window.1 - window.0;
                let left_out_cpus = self.left_out_ns as f64 / wall_ns as f64;
                return (
                    Captured { text, roles, window_ns, left_out_cpus },
                    self.has_wakers(window),
                );
            }
            // Fewer queues make fewer parts, and waits of one role more alike than they were.
            match max_queues {
                1 => budget /= 2,
                _ => max_queues /= 2,
            }
        }
    }

    fn has_wakers(&self, window: (u64, u64)) -> bool {
        let (is_rare, pieces) = (self.rare(window), &self.threads.pieces);
        let wakers = || pieces.iter().filter_map(|piece| piece.by);
        wakers().filter(|by| is_rare[pieces[*by].role]).count() * 2 <= wakers().count()
    }

    /// The pieces that no order of their role has, not even one of all the time: what threads did from their birth on that
    /// nobody of these woke.
    fn only_once(&self) -> impl Iterator<Item = &Piece> {
        let order = self.unqueued((self.from_ns, self.to_ns));
        let numbered = || self.threads.pieces.iter().enumerate();
        let mut has_order = vec![false; self.names.len()];
        let in_order = numbered().filter(|(at, _)| order.has[*at]);
        in_order.for_each(|(_, piece)| has_order[piece.role] = true);
        let is_once =
            move |at: usize, own: &Piece| own.is_whole && has_order[own.role] && !order.has[at];
        numbered().filter(move |(at, piece)| is_once(*at, piece)).map(|own| own.1)
    }

    /// The stretches of these pieces that take long: cut, they are in the order but for their first piece.
    fn long_once(&self) -> BTreeSet<Place> {
        let min_ns = self.wall_ns() / LONG_PARTS;
        let long = self.only_once().filter(|piece| piece.work_ns >= min_ns);
        let places = long.filter_map(|piece| {
            let mut threads = self.threads.by_tid.iter();
            let is_it = |thread: &Thread| {
                thread.role == piece.role && thread.first_ns == Some(piece.woken_at_ns)
            };
            threads.find(|(_, thread)| is_it(thread)).map(|(tid, _)| (*tid, piece.woken_at_ns))
        });
        places.collect()
    }

    /// See [`Role::kept`].
    fn kept(&self, role: usize) -> f64 {
        let own = self.threads.by_tid.values().filter(|thread| thread.role == role);
        let all_ns: u64 = own.map(|thread| thread.work_ns).sum();
        let whole = self.threads.pieces.iter().filter(|piece| piece.role == role && piece.is_whole);
        let kept_ns = whole.map(|piece| piece.work_ns).sum::<u64>() - self.once_ns[role];
        if self.busy[role] || all_ns == 0 { 1.0 } else { kept_ns as f64 / all_ns as f64 }
    }

    fn wall_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns).max(1)
    }

    /// The time whose pieces are the order: all of it, or the part of it that is most like the whole.
    fn window(&self, budget: usize) -> (u64, u64) {
        let pieces = &self.threads.pieces;
        if pieces.len() <= budget {
            return (self.from_ns, self.to_ns);
        }
        let length_ns = (self.wall_ns() as f64 * budget as f64 / pieces.len() as f64) as u64;
        let step_ns = (self.wall_ns() - length_ns) / (WINDOWS - 1);
        let windows = (0..WINDOWS).map(|at| {
            let from_ns = self.from_ns + at * step_ns;
            (from_ns, from_ns + length_ns)
        });
        let fits = windows
            .min_by(|one, other| self.strangeness(*one).total_cmp(&self.strangeness(*other)));
        fits.unwrap_or((self.from_ns, self.to_ns))
    }

    /// By how much the roles have more or less to do in a window than on average.
    fn strangeness(&self, window: (u64, u64)) -> f64 {
        let mut sums = vec![[0.0_f64; 4]; self.names.len()];
        for piece in &self.threads.pieces {
            let sum = &mut sums[piece.role];
            let is_in = (window.0..window.1).contains(&piece.woken_at_ns);
            let values = [1.0, piece.work_ns as f64];
            for (at, value) in values.into_iter().enumerate() {
                sum[at] += value;
                sum[2 + at] += if is_in { value } else { 0.0 };
            }
        }
        let share = (window.1 - window.0) as f64 / self.wall_ns() as f64;
        let total = |at: usize| sums.iter().map(|sum| sum[at]).sum::<f64>().max(1.0);
        let part = |at: usize| {
            let differs = |sum: &[f64; 4]| (sum[2 + at] - sum[at] * share).abs();
            sums.iter().map(differs).sum::<f64>() / total(at)
        };
        part(0) + part(1)
    }

    /// The plan, and how many steps the longest list of a set has.
    fn text(&self, asked: &Asked, window: (u64, u64), max_queues: usize) -> (String, usize) {
        let title: String = clean(asked.title).chars().take(MAX_TITLE_CHARS).collect();
        let left_out = match self.left_out {
            0 => String::new(),
            kinds => {
                format!("# Kinds of threads that are left out, since they did least: {kinds}\n")
            }
        };
        let mut text = format!(
            "# Captured for {}, the order of parts in {}: schedlab help capture\n{left_out}schema = {PLAN_SCHEMA}\n\
             title = {}\n\n[[workload]]\nname = \"captured\"\n",
            seconds(self.wall_ns()),
            seconds(window.1 - window.0),
            quoted(&title),
        );
        let order = self.order(window, max_queues);
        let mut longest = 0;
        for role in 0..self.names.len() {
            let (set, steps) = self.set(asked, role, &order);
            text += &set;
            longest = longest.max(steps);
        }
        (text, longest)
    }

    fn set(&self, asked: &Asked, role: usize, order: &InOrder) -> (String, usize) {
        let name = quoted(&self.names[role]);
        let fit = asked.fits.get(role).copied().unwrap_or(Fit::USUAL);
        let (seen, entries) = self.parts(role, order);
        let mut text = format!(
            "\n# {}\n[[workload.set]]\nname = {name}\nuse = \"steps\"\n",
            self.comment(role, fit)
        );
        let count = self.threads.count(role).max(1);
        if count != 1 {
            text += &format!("count = {count}\n");
        }
        let knobs = &self.knobs[role];
        if !knobs.is_empty() {
            text += &format!("knobs = {{ {} }}\n", knobs.join(", "));
        }
        let mut used: BTreeMap<&Sort, usize> = BTreeMap::new();
        entries.iter().for_each(|sort| *used.entry(sort).or_default() += 1);
        let mut by_use: Vec<(&Sort, usize)> = used.into_iter().collect();
        by_use.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        let timer = self.threads.timer_ns(role, self.to_ns).map(time);
        let mut steps: Vec<String> = Vec::new();
        for (number, (sort, _)) in by_use.iter().enumerate() {
            let samples = seen.get(&sort.plain()).cloned().unwrap_or_default();
            let wait = match (sort.taken, &timer) {
                _ if sort.rest_ns.is_some() => sort.rest_ns.map(|ns| format!("sleep {}", time(ns))),
                (Some(queue), _) => {
                    Some(format!("{} {}", order.words(queue)[0], self.queue_name(queue)))
                }
                _ if sort.goes_on => None,
                (None, Some(timer)) => Some(format!("timer {timer}")),
                (None, None) => Some(format!("sleep {}", samples.sleep())),
            };
            steps.push(format!("part {}", part_name(number)));
            steps.extend(wait);
            let post = |queue| format!("{} {}", order.words(queue)[1], self.queue_name(queue));
            steps.extend(samples.work(sort, fit, post));
        }
        if steps.is_empty() {
            let steps = self.steps_without_order(role);
            return (text + &format!("steps = [{}]\n", steps.join(", ")), steps.len());
        }
        let lines: Vec<String> =
            steps.iter().map(|step| format!("  {},\n", quoted(step))).collect();
        let place: BTreeMap<&Sort, usize> =
            by_use.iter().enumerate().map(|(number, (sort, _))| (*sort, number)).collect();
        let entries: Vec<usize> =
            entries.iter().filter_map(|sort| place.get(sort).copied()).collect();
        let order = order_text(&entries);
        let order =
            if order.contains('\n') { format!("\"\"\"\n{order}\"\"\"") } else { quoted(&order) };
        text += &format!("steps = [\n{}]\norder = {order}\n", lines.concat());
        (text, steps.len())
    }

    /// The steps of a role of which no wait is in the order. A thread that never slept works all the time that it was there.
    fn steps_without_order(&self, role: usize) -> Vec<String> {
        let step = |word: &str, ns: u64| quoted(&format!("{word} {}", time(ns)));
        if !self.never_slept(role) {
            return vec![step("sleep", self.wall_ns())];
        }
        let workers = u64::from(self.threads.count(role).max(1));
        let away_ns = self.threads.absence_ns(role, self.from_ns, self.to_ns) / workers;
        if away_ns < self.wall_ns() / REST_PARTS {
            return vec![step("burn", PIECE_NS)];
        }
        let own = self.threads.by_tid.values().filter(|thread| thread.role == role);
        let work_ns = own.map(|thread| thread.work_ns).sum::<u64>() / workers;
        vec![step("burn", rounded(work_ns).max(1_000)), step("sleep", rounded(away_ns))]
    }

    /// Whether its threads worked, and none of them slept.
    fn never_slept(&self, role: usize) -> bool {
        let mut own = self.threads.by_tid.values().filter(|thread| thread.role == role);
        self.busy[role] || own.clone().any(|own| own.work_ns > 0) && own.all(|own| !own.has_slept)
    }

    /// Wakeups that are part of the plan: those of pieces whose waker does not sleep for longer than the order lasts,
    /// since it would have those wait who come round sooner.
    fn is_edge(&self, window: (u64, u64), by: usize, woken: usize) -> bool {
        let pieces = &self.threads.pieces;
        let longest_ns = (window.1 - window.0) / 8;
        let is_all = window.1 - window.0 == self.to_ns - self.from_ns;
        let waker = &pieces[by];
        let wait_ns = if waker.goes_on { Some(waker.work_ns) } else { waker.sleep_ns() };
        let is_slow = waker.by.is_none() && wait_ns.is_none_or(|ns| ns > longest_ns);
        waker.is_whole && pieces[woken].is_whole && (is_all || !is_slow)
    }

    /// The pieces that are in the order, by their numbers. One that has just been born, and was not woken by one of
    /// those, came from outside, once: it would come again at once, unless its role rests.
    fn pieces_in(
        &self,
        window: (u64, u64),
        is_rare: &[bool],
        rests_ns: &[Option<u64>],
    ) -> Vec<bool> {
        let pieces = &self.threads.pieces;
        let mut is_in = vec![false; pieces.len()];
        for (number, piece) in pieces.iter().enumerate() {
            // The piece of the waker began before.
            let is_taken = || {
                piece.by.is_some_and(|by| {
                    is_in[by] && !is_rare[pieces[by].role] && self.is_edge(window, by, number)
                })
            };
            let is_here = (window.0..window.1).contains(&piece.woken_at_ns);
            is_in[number] = piece.is_whole
                && (is_here || is_rare[piece.role])
                && (piece.slept_at_ns.is_some()
                    || piece.goes_on
                    || (piece.is_first && rests_ns[piece.role].is_some())
                    || is_taken());
        }
        is_in
    }

    /// Roles that do little in a window, so that it does not show what they do: all of their pieces are in their orders, as
    /// if they were woken from outside.
    fn rare(&self, window: (u64, u64)) -> Vec<bool> {
        let is_all = window.1 - window.0 == self.to_ns - self.from_ns;
        let mut counts = vec![0; self.names.len()];
        let pieces = self.threads.pieces.iter();
        pieces
            .filter(|piece| (window.0..window.1).contains(&piece.woken_at_ns))
            .for_each(|piece| counts[piece.role] += 1);
        let is_rare = |(role, count): (usize, &u32)| {
            !is_all && *count < (MIN_IN_WINDOW * self.threads.count(role)).min(MIN_OF_ALL)
        };
        counts.iter().enumerate().map(is_rare).collect()
    }

    /// Whether a wakeup is one of the order.
    fn is_edge_here(&self, order: &InOrder, by: usize, woken: usize) -> bool {
        let is_rare = |number: usize| order.is_rare[self.threads.pieces[number].role];
        let is_here = |number: usize| order.has[number] && !is_rare(number);
        is_here(by) && is_here(woken) && self.is_edge(order.window, by, woken)
    }

    /// The order, without the queues.
    fn unqueued(&self, window: (u64, u64)) -> InOrder {
        let is_rare = self.rare(window);
        let rests_ns = vec![None; self.names.len()];
        let has = self.pieces_in(window, &is_rare, &rests_ns);
        let (queues, pipes) = (Vec::new(), BTreeSet::new());
        let mut order = InOrder { window, has, is_rare, rests_ns, queues, pipes };
        order.rests_ns = self.rests_ns(&order);
        order.has = self.pieces_in(window, &order.is_rare, &order.rests_ns);
        order
    }

    fn order(&self, window: (u64, u64), max_queues: usize) -> InOrder {
        let mut order = self.unqueued(window);
        let pieces = &self.threads.pieces;
        let is_taken = |number: usize| {
            pieces[number].by.is_some_and(|by| self.is_edge_here(&order, by, number))
        };
        let queues = parts::queues(pieces, is_taken, self.names.len(), max_queues);
        let mut sync: BTreeMap<Queue, i64> = BTreeMap::new();
        for number in (0..pieces.len()).filter(|number| is_taken(*number)) {
            let queue = (pieces[number].role, queues[number]);
            *sync.entry(queue).or_default() += if pieces[number].is_sync { 1 } else { -1 };
        }
        let is_pipe = |(queue, more): (Queue, i64)| {
            let has_room = self.threads.count(queue.0) as usize <= workload::MAX_READERS;
            (more > 0 && has_room).then_some(queue)
        };
        order.pipes = sync.into_iter().filter_map(is_pipe).collect();
        order.queues = queues;
        order
    }

    /// All that was seen of the parts of a role, and their order.
    fn parts(&self, role: usize, order: &InOrder) -> (Seen, Vec<Sort>) {
        let pieces = &self.threads.pieces;
        let queue = |number: usize| (pieces[number].role, order.queues[number]);
        let is_edge = |by: usize, woken: usize| self.is_edge(order.window, by, woken);
        let is_edge_here = |by: usize, woken: usize| self.is_edge_here(order, by, woken);
        let mut seen = Seen::new();
        let mut here: Vec<(u64, usize, Sort)> = Vec::new();
        let own = (0..pieces.len()).filter(|at| pieces[*at].role == role && pieces[*at].is_whole);
        for number in own.clone() {
            let (sort, at_ns) = Sort::new(number, pieces, queue, is_edge);
            seen.entry(sort.plain()).or_default().add(&pieces[number], &at_ns);
        }
        for number in own.filter(|number| order.has[*number]) {
            let (sort, at_ns) = Sort::new(number, pieces, queue, is_edge_here);
            let piece = &pieces[number];
            // It is counted above already, unless the order leaves out a role that it wakes or is woken by.
            let is_new = || Sort::new(number, pieces, queue, is_edge).0.plain() != sort.plain();
            let samples = seen.entry(sort.plain()).or_default();
            if samples.are_few() && is_new() {
                samples.add(piece, &at_ns);
            }
            here.push((piece.slept_at_ns.unwrap_or(piece.woken_at_ns), number, sort));
        }
        let mut entries = in_order(here);
        if let Some(rest_ns) = order.rests_ns[role].filter(|_| !entries.is_empty()) {
            let workers = self.threads.count(role).max(1);
            entries.extend(vec![Sort::rest(rounded(rest_ns)); workers as usize]);
        }
        (seen, entries)
    }

    /// The name of a semaphore.
    fn queue_name(&self, (role, queue): Queue) -> String {
        let name = &self.names[role];
        if queue == 0 { name.clone() } else { format!("{name}.{queue}") }
    }

    /// Everything that a reader wants to know of a role.
    fn comment(&self, role: usize, fit: Fit) -> String {
        let profile = Profile::read(&self.threads, role, "", self.wall_ns());
        let mut text = format!("{:.3} CPUs, {:.1} wakeups/s", profile.cpus, profile.wakeups_per_s);
        let pieces = &self.threads.pieces;
        let own = pieces.iter().filter(|piece| piece.role == role && !piece.goes_on);
        let mut by: BTreeMap<Option<usize>, usize> = BTreeMap::new();
        for piece in own {
            *by.entry(piece.by.map(|by| self.threads.pieces[by].role)).or_default() += 1;
        }
        let all: usize = by.values().sum();
        let mut by: Vec<(Option<usize>, usize)> = by.into_iter().collect();
        by.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let shares: Vec<String> = by
            .into_iter()
            .map(|(by, count)| {
                let name = by.map_or("timers and others", |by| self.names[by].as_str());
                format!("{:.0} % by {name}", count as f64 * 100.0 / all as f64)
            })
            .collect();
        // Births are wakeups, too.
        if self.never_slept(role) && all <= self.threads.count(role) as usize {
            text += ": never slept";
        } else if !shares.is_empty() {
            text += &format!(": {}", shares.join(", "));
        }
        let kept = self.kept(role);
        if kept < MIN_KEPT {
            text += &format!("; {:.0} % of its CPU time is in the plan", 100.0 * kept);
        }
        if (fit.passes, fit.work) != (1.0, 1.0) {
            let Fit { passes, work, .. } = fit;
            text +=
                &format!("; fitted: {passes:.2} passes for one, with {work:.2} of its work in all");
        }
        text
    }
}

/// The pieces that are in the order.
struct InOrder {
    window: (u64, u64),
    /// By the numbers of pieces.
    has: Vec<bool>,
    /// By role.
    is_rare: Vec<bool>,
    /// By role, where its workers rest.
    rests_ns: Vec<Option<u64>>,
    queues: Vec<u8>,
    /// Queues in which most wakeups were by a write or a send.
    pipes: BTreeSet<Queue>,
}

impl InOrder {
    /// The steps that take from a queue, and that post to it.
    fn words(&self, queue: Queue) -> [&'static str; 2] {
        if self.pipes.contains(&queue) { ["read", "write"] } else { ["take", "post"] }
    }
}

/// Pieces in the order in which their waits began; those that take from one queue, in the order in which they were
/// woken.
fn in_order(mut here: Vec<(u64, usize, Sort)>) -> Vec<Sort> {
    let mut taken: BTreeMap<Option<Queue>, VecDeque<Sort>> = BTreeMap::new();
    // Numbers are in the order of wakeups.
    for (_, _, sort) in &here {
        taken.entry(sort.taken).or_default().push_back(sort.clone());
    }
    here.sort_by_key(|(began_ns, number, _)| (*began_ns, *number));
    let entry = |(.., sort): (u64, usize, Sort)| match sort.taken {
        Some(_) => taken.get_mut(&sort.taken)?.pop_front(),
        None => Some(sort),
    };
    here.into_iter().filter_map(entry).collect()
}

/// A name for a set that no other one has, and that a thread can have.
fn role_name(process: &str, name: &str, taken: &[String]) -> String {
    let whole = if process == name { name.to_string() } else { format!("{process}-{name}") };
    // The beginning of a long one may say little of the thread.
    let base = if whole.chars().count() > MAX_NAME { name } else { &whole };
    // A semaphore has the role's name and `.` with its number.
    let is_word = |c: char| c != '.' && workload::is_step_name(&c.to_string());
    let word = |c: char| if is_word(c) { c } else { '_' };
    let plain: String = base.trim_start_matches('-').chars().map(word).take(MAX_NAME).collect();
    let plain = if plain.is_empty() { "role".to_string() } else { plain };
    let numbered = (2..).map(|number| {
        let end = format!("-{number}");
        plain.chars().take(MAX_NAME - end.len()).collect::<String>() + &end
    });
    let mut names = std::iter::once(plain.clone()).chain(numbered);
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}

fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}
