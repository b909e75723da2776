//! The terminal as a view on it needs it: keys one by one and without echo, another screen, and
//! the way back, whatever ends the view. Ctrl-C and Ctrl-Z stay signals, to all that runs in the
//! foreground, as without a view.
//!
//! A process has one [`Tty`] at a time. State of the process: the terminal's settings before.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use signal_hook::SigId;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::{flag, low_level};

use super::call::checked;
use super::{signal, tty_restore};

pub use tty_restore::restore;

/// The other screen, without a cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";

/// Signals that end a wait for keys. Other code reacts to them, except for those of job control.
const WAKING: [i32; 7] = [SIGWINCH, SIGCONT, SIGTSTP, SIGINT, SIGTERM, SIGHUP, SIGCHLD];

/// The terminal under a view, from [`Tty::enter`] until this is dropped.
pub struct Tty {
    out: File,
    keys: OwnedFd,
    wake: UnixStream,
    waker: UnixStream,
    stop: Arc<AtomicBool>,
    resumed: Arc<AtomicBool>,
    resized: Arc<AtomicBool>,
    registered: Vec<SigId>,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    Timeout,
    Keys,
    /// A signal that is another's matter, or a [`Waker`].
    Signal,
    Resized,
    /// Ctrl-Z, or the signal that asks for the same.
    Stop,
    /// The process was stopped and goes on: the terminal is as another has left it.
    Resumed,
    /// The terminal is gone.
    Closed,
}

/// Makes a terminal a pipe: nothing is echoed, and no byte is changed.
pub fn make_raw(terminal: &impl AsFd) -> io::Result<()> {
    let terminal = terminal.as_fd().as_raw_fd();
    // SAFETY: termios is plain data, for which zero is valid.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and `settings` is valid for writing.
    checked(unsafe { libc::tcgetattr(terminal, &mut settings) })?;
    // SAFETY: `settings` is initialised.
    unsafe { libc::cfmakeraw(&mut settings) };
    // SAFETY: as above.
    checked(unsafe { libc::tcsetattr(terminal, libc::TCSANOW, &settings) })
}

/// Columns and lines.
pub fn size(terminal: &impl AsFd) -> io::Result<[u16; 2]> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = terminal.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open and `size` is a valid winsize for the call to fill.
    checked(unsafe { libc::ioctl(terminal, libc::TIOCGWINSZ, &mut size) })?;
    Ok([size.ws_col, size.ws_row])
}

/// Ends a wait from another thread.
pub struct Waker(UnixStream);

impl Waker {
    pub fn wake(&self) {
        // A full pipe wakes, too.
        _ = (&self.0).write(&[0]);
    }
}

impl Tty {
    /// Draws on the terminal that `out` is; keys come from standard input where that is one, else
    /// from /dev/tty.
    pub fn enter(out: &impl AsFd) -> io::Result<Tty> {
        let out = File::from(out.as_fd().try_clone_to_owned()?);
        let keys = if io::stdin().is_terminal() {
            io::stdin().as_fd().try_clone_to_owned()?
        } else {
            File::options().read(true).write(true).open("/dev/tty")?.into()
        };
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let [stop, resumed, resized] = std::array::from_fn(|_| Arc::new(AtomicBool::new(false)));
        let registered = Vec::new();
        let mut tty = Tty { out, keys, wake, waker, stop, resumed, resized, registered };
        let flags = [(SIGTSTP, &tty.stop), (SIGCONT, &tty.resumed), (SIGWINCH, &tty.resized)];
        for (signal, set) in flags.into_iter().filter(|(signal, _)| !signal::is_ignored(*signal)) {
            tty.registered.push(flag::register(signal, Arc::clone(set))?);
        }
        for signal in WAKING.into_iter().filter(|signal| !signal::is_ignored(*signal)) {
            tty.registered.push(low_level::pipe::register(signal, tty.waker.try_clone()?)?);
        }
        tty.set()?;
        Ok(tty)
    }

    pub fn out(&self) -> &File {
        &self.out
    }

    pub fn waker(&self) -> io::Result<Waker> {
        Ok(Waker(self.waker.try_clone()?))
    }

    /// Takes the terminal, also once more after [`restore`].
    pub fn set(&self) -> io::Result<()> {
        // SAFETY: termios is plain data, for which zero is valid.
        let mut before: libc::termios = unsafe { std::mem::zeroed() };
        let keys = self.keys.as_raw_fd();
        // SAFETY: the descriptor is open and `before` is valid for writing.
        checked(unsafe { libc::tcgetattr(keys, &mut before) })?;
        let mut during = before;
        during.c_lflag &= !(libc::ICANON | libc::ECHO | libc::ECHONL | libc::IEXTEN);
        // Ctrl-S would stop the drawing.
        during.c_iflag &= !(libc::IXON | libc::ICRNL | libc::INLCR | libc::ISTRIP);
        (during.c_cc[libc::VMIN], during.c_cc[libc::VTIME]) = (1, 0);
        tty_restore::keep(keys, self.out.as_raw_fd(), before);
        // SAFETY: the descriptor is open and `during` is initialised.
        checked(unsafe { libc::tcsetattr(keys, libc::TCSANOW, &during) })?;
        (&self.out).write_all(ENTER)
    }

    /// Waits for keys or a signal.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Wake> {
        let mut wanted = [self.keys.as_raw_fd(), self.wake.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let timeout_ms = timeout.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32;
        // SAFETY: the array is valid for its length.
        let ready = unsafe { libc::poll(wanted.as_mut_ptr(), 2, timeout_ms) };
        let error = io::Error::last_os_error();
        if ready < 0 && error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        let mut bytes = [0; 64];
        while self.wake.read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
        let [keys, wake] = wanted.map(|wanted| wanted.revents);
        Ok(match () {
            () if self.stop.swap(false, SeqCst) => Wake::Stop,
            () if self.resumed.swap(false, SeqCst) => Wake::Resumed,
            () if keys & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 => Wake::Closed,
            () if self.resized.swap(false, SeqCst) => Wake::Resized,
            () if wake != 0 || ready < 0 => Wake::Signal,
            () if keys != 0 => Wake::Keys,
            () => Wake::Timeout,
        })
    }

    /// The bytes that were typed, when [`Tty::wait`] has reported some; empty: the terminal is gone.
    pub fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 1024];
        // SAFETY: the descriptor is open, and the buffer is valid for its length.
        let read =
            unsafe { libc::read(self.keys.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        bytes.truncate(usize::try_from(read).map_err(|_| io::Error::last_os_error())?);
        Ok(bytes)
    }

    /// Gives the terminal back and stops this process, as Ctrl-Z does; takes it once more when the
    /// process goes on.
    pub fn stop(&self) -> io::Result<()> {
        restore();
        signal::stop_here();
        self.resumed.store(false, SeqCst);
        self.set()
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        restore();
        self.registered.drain(..).for_each(|id| _ = low_level::unregister(id));
    }
}

/// Whether this process may take the terminal: the shell has given it no other (`&`, `bg`).
pub fn is_in_foreground(terminal: &impl AsFd) -> bool {
    // SAFETY: the descriptor is open; no memory is passed.
    let (has_it, own) = unsafe { (libc::tcgetpgrp(terminal.as_fd().as_raw_fd()), libc::getpgrp()) };
    has_it == own
}
