//! How a plan that runs is shown: by a view on a terminal, by a line each round elsewhere, or not
//! at all. Events and analyses come from the thread that measures, which never waits for the
//! terminal: a thread of its own draws, at most a few times a second.

mod draw;
mod keys;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::analysis::Analysis;
use crate::engine::{HostNews, Job};
use crate::model::Event;
use crate::sys::tty::{self, Waker};
use crate::sys::{Host, heat, lock, signal};

use super::progress::Progress;
use super::screen::{Input, Palette, Screen};
use super::terminal;

use draw::{Theme, draw};
use keys::Keys;
use state::State;

/// Times go on in a long run, too.
const TICK: Duration = Duration::from_secs(1);
/// A run that begins sooner after what was drawn last is not drawn.
const MIN_INTERVAL: Duration = Duration::from_millis(400);
const HEAT_INTERVAL: Duration = Duration::from_secs(2);
/// Ratios are computed once more when the last time is so small a part of what has gone since.
const ANSWER_PART: u32 = 1000;

pub enum Display {
    None,
    Lines(Box<Progress>),
    View(View),
}

impl Display {
    /// `cancel`: what an interruption sets.
    pub fn new(job: &Job, cancel: &Arc<AtomicBool>, quiet: bool, plain: bool) -> Display {
        if quiet {
            return Display::None;
        }
        let stderr = io::stderr();
        let may_view = !plain && terminal::redraws(&stderr) && tty::is_in_foreground(&stderr);
        // A terminal that cannot be taken can still have lines.
        let view = may_view.then(|| View::begin(job, cancel).ok()).flatten();
        view.map_or_else(
            || {
                let progress = Progress::new(job);
                terminal::message(&progress.first_line());
                Display::Lines(Box::new(progress))
            },
            Display::View,
        )
    }

    pub fn show(&mut self, event: &Event) {
        match self {
            Display::None => {}
            Display::Lines(progress) => {
                let line = progress.apply(event);
                line.into_iter().chain(progress.missing_at_first()).for_each(|line| {
                    terminal::message(&line);
                });
            }
            Display::View(view) => view.show(event),
        }
    }

    /// Also said where lines are shown: a starved run takes long, and a run that is made again costs time.
    pub fn host(&mut self, news: &HostNews) {
        match self {
            Display::None => {}
            Display::Lines(progress) => {
                if let Some(line) = progress.host(news) {
                    terminal::message(&line);
                }
            }
            Display::View(view) => {
                view.shared.state().host(news);
                view.shared.wake();
            }
        }
    }

    /// Whether ratios are wanted now. They cost the plan little: see [`ANSWER_PART`].
    pub fn wants_answer(&self) -> bool {
        matches!(self, Display::View(view) if view.wants_answer())
    }

    /// Takes the ratios so far, and the verdicts of a look after `look` rounds; `took`: the time to compute them.
    pub fn answer(&mut self, analysis: &Analysis, look: Option<u32>, took: Duration) {
        if let Display::View(view) = self {
            view.shared.state().answer(analysis, look);
            // A look is the plan's own, whether or not it is shown.
            if look.is_none() {
                view.next_answer = Instant::now() + took * ANSWER_PART;
            }
        }
    }
}

/// The view on a terminal; gives it back when it is dropped.
pub struct View {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    host: Host,
    next_heat: Instant,
    next_answer: Instant,
}

/// State that the measuring and the drawing thread share.
struct Shared {
    state: Mutex<State>,
    /// Whether there is something to draw that the other thread has not seen.
    news: AtomicBool,
    done: AtomicBool,
    cancel: Arc<AtomicBool>,
    waker: Waker,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // After a panic, show the state as it is.
        lock(&self.state)
    }

    fn wake(&self) {
        if !self.news.swap(true, SeqCst) {
            self.waker.wake();
        }
    }
}

impl View {
    fn begin(job: &Job, cancel: &Arc<AtomicBool>) -> io::Result<View> {
        let screen = Screen::enter(&io::stderr())?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(job)),
            news: AtomicBool::new(false),
            done: AtomicBool::new(false),
            cancel: Arc::clone(cancel),
            waker: screen.waker()?,
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("view".to_string());
        let thread = thread.spawn(move || serve(screen, &own))?;
        let now = Instant::now();
        let (host, thread) = (Host::default(), Some(thread));
        Ok(View { shared, thread, host, next_heat: now, next_answer: now })
    }

    /// Takes the state between runs alone: the other thread, which may hold it, waits for a CPU
    /// while workers have them all.
    fn show(&mut self, event: &Event) {
        if matches!(event, Event::Window { .. }) {
            return;
        }
        let mut state = self.shared.state();
        state.apply(event);
        // Between two runs, as to ask for it may disturb a CPU.
        if matches!(event, Event::RunEnded { .. }) && Instant::now() >= self.next_heat {
            state.heat(heat::hottest_celsius(&self.host));
            self.next_heat = Instant::now() + HEAT_INTERVAL;
        }
        drop(state);
        // The end of a run is drawn while the next one prepares.
        if matches!(event, Event::RunStarted { .. } | Event::PlanEnded { .. }) {
            self.shared.wake();
        }
    }

    fn wants_answer(&self) -> bool {
        Instant::now() >= self.next_answer
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.shared.done.store(true, SeqCst);
        self.shared.waker.wake();
        // Its panic has said what was wrong.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Draws until the plan has ended, or the terminal is gone.
fn serve(mut screen: Screen, shared: &Shared) {
    let palette = Palette::of_terminal(&io::stderr());
    let theme = Theme { palette, unicode: terminal::is_unicode() };
    let mut keys = Keys::default();
    let mut due = Instant::now();
    let mut drawn = due;
    while !shared.done.load(SeqCst) {
        if Instant::now() >= due {
            let scene = shared.state().scene(shared.cancel.load(Relaxed));
            if screen.draw(|frame| draw(frame, &scene, &mut keys, theme)).is_err() {
                return;
            }
            drawn = Instant::now();
            due = drawn + TICK;
        }
        shared.news.store(false, SeqCst);
        match screen.next(due.saturating_duration_since(Instant::now())) {
            Ok(None) => {}
            Ok(Some(Input::Key(key))) => {
                if keys.press(key) {
                    signal::interrupt_group();
                }
                due = Instant::now();
            }
            Ok(Some(Input::Redraw)) => due = Instant::now(),
            // News, or a signal: drawn now, between two runs, or with the next tick.
            Ok(Some(Input::Signal)) if drawn.elapsed() >= MIN_INTERVAL => due = Instant::now(),
            Ok(Some(Input::Signal)) => {}
            Ok(Some(Input::Closed)) | Err(_) => return,
        }
    }
}
