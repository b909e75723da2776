//! A view on the terminal: set up, drawn where it changed, and given back whatever ends it (its
//! owner, a signal, a panic). Keys and signals come from [`Screen::next`].
//!
//! Ctrl-C is SIGINT and Ctrl-Z is SIGTSTP, as without a view. The first is its owner's matter
//! (`signal::catch_termination`), the second is dealt with here.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::Once;
use std::time::Duration;

use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Style};
use ratatui_core::terminal::{Frame, Terminal};

use crate::sys::tty::{self, Tty, Wake, Waker};

use super::cells::Cells;
use super::keys::{Press, keys};
use super::terminal;

/// With colours or without. Nothing is said by them alone.
#[derive(Debug, Clone, Copy)]
pub struct Palette {
    pub color: bool,
}

impl Palette {
    /// As the terminal and NO_COLOR want it.
    pub fn of_terminal(out: &impl IsTerminal) -> Palette {
        Palette { color: terminal::color(out) }
    }

    pub fn foreground(self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }
}

pub struct Screen {
    terminal: Terminal<Cells>,
    /// Several may come at once.
    keys: VecDeque<Press>,
    /// Dropped last: nothing is drawn after it.
    tty: Tty,
}

/// The event that ended a view's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    Key(Press),
    /// The size has changed, or all has to be drawn anew.
    Redraw,
    /// A signal that the view's owner may have caught, SIGCHLD among them; or a [`Waker`].
    Signal,
    /// Nobody sees the view any more.
    Closed,
}

impl Screen {
    /// Takes the terminal that `out` is: see `terminal::redraws` and [`tty::is_in_foreground`].
    pub fn enter(out: &impl AsFd) -> io::Result<Screen> {
        restore_on_panic();
        let tty = Tty::enter(out)?;
        let terminal = Terminal::new(Cells::new(tty.out().try_clone()?))?;
        Ok(Screen { terminal, keys: VecDeque::new(), tty })
    }

    /// For another thread.
    pub fn waker(&self) -> io::Result<Waker> {
        self.tty.waker()
    }

    pub fn draw(&mut self, view: impl FnOnce(&mut Frame)) -> io::Result<()> {
        self.terminal.draw(view).map(|_| ())
    }

    /// The next key or signal; `None`: the time is over. Stops, and draws again, as Ctrl-Z and `fg`
    /// want it.
    pub fn next(&mut self, timeout: Duration) -> io::Result<Option<Input>> {
        if let Some(key) = self.keys.pop_front() {
            return Ok(Some(Input::Key(key)));
        }
        Ok(match self.tty.wait(timeout)? {
            Wake::Timeout => None,
            Wake::Keys => match self.tty.read()? {
                bytes if bytes.is_empty() => Some(Input::Closed),
                bytes => {
                    self.keys.extend(keys(&bytes));
                    self.keys.pop_front().map(Input::Key)
                }
            },
            Wake::Resized => Some(Input::Redraw),
            Wake::Signal => Some(Input::Signal),
            Wake::Closed => Some(Input::Closed),
            Wake::Stop => {
                self.tty.stop()?;
                Some(self.begin_anew()?)
            }
            Wake::Resumed => {
                self.tty.set()?;
                Some(self.begin_anew()?)
            }
        })
    }

    /// Nothing of what was drawn is there any more.
    fn begin_anew(&mut self) -> io::Result<Input> {
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from(size))?;
        Ok(Input::Redraw)
    }
}

/// Leaves the screen before a panic's message, which would vanish with it.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            tty::restore();
            before(panic);
        }));
    });
}
