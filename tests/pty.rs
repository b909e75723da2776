//! A terminal for a program under test: what it shows is read as a person would see it.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};

use crate::home::Home;
use crate::support::wait_for;

fn size_of_screen(size: u16) -> NonZeroU16 {
    NonZeroU16::new(size).expect("no empty screen")
}

pub struct Pty {
    master: File,
    screen: Arc<Mutex<vt100::Parser>>,
    /// All that was written to it.
    written: Arc<Mutex<Vec<u8>>>,
    child: Child,
}

impl Pty {
    /// A shell with job control in this home; `$RUN` is the program under test.
    pub fn shell(home: &Home) -> Pty {
        let mut shell = Command::new("sh");
        shell.arg("-i").env_clear().env("PATH", "/usr/bin:/bin").env("PS1", "ready> ");
        shell.env("HOME", home.path()).env("RUN", env!("CARGO_BIN_EXE_schedlab"));
        shell.current_dir(home.path());
        let pty = Pty::start(shell, 80, 24);
        pty.wait_for("ready>");
        pty
    }

    /// Starts a program on a new terminal with this many columns and lines.
    pub fn start(mut command: Command, columns: u16, lines: u16) -> Pty {
        let (mut master, mut slave) = (-1, -1);
        let size = libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let none = std::ptr::null_mut();
        // SAFETY: the descriptors are valid for writing, and the size for reading.
        let failed = unsafe { libc::openpty(&mut master, &mut slave, none, none.cast(), &size) };
        assert_eq!(failed, 0, "a pseudo-terminal");
        // SAFETY: openpty has just opened both, and nobody else has them.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        // SAFETY: the descriptor is open; no other program is to have this end.
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        let clone = || slave.try_clone().expect("a descriptor");
        command.stdin(clone()).stdout(clone()).stderr(clone()).env("TERM", "xterm-256color");
        let own_terminal = || {
            // SAFETY: between fork and exec, only two system calls are made.
            unsafe { libc::setsid() };
            // SAFETY: standard input is the terminal.
            unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) };
            Ok(())
        };
        // SAFETY: the closure makes system calls alone.
        unsafe { command.pre_exec(own_terminal) };
        let child = command.spawn().expect("the program starts");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(
            size_of_screen(lines),
            size_of_screen(columns),
            0,
        )));
        let written = Arc::new(Mutex::new(Vec::new()));
        let (shown, all) = (Arc::clone(&screen), Arc::clone(&written));
        let mut output = master.try_clone().expect("a descriptor");
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A read fails when nobody has the other end any more.
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                all.lock().expect("the text").extend_from_slice(&bytes[..read]);
                shown.lock().expect("the screen").process(&bytes[..read]);
            }
        });
        Pty { master, screen, written, child }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("keys");
    }

    pub fn resize(&mut self, columns: u16, lines: u16) {
        let shown = (size_of_screen(lines), size_of_screen(columns));
        self.screen.lock().expect("the screen").screen_mut().set_size(shown.0, shown.1);
        let size = libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the size is valid for reading. The kernel sends SIGWINCH.
        unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &size) };
    }

    pub fn text(&self) -> String {
        self.screen.lock().expect("the screen").screen().contents()
    }

    /// All that was written so far.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("the text")).into_owned()
    }

    fn settings(&self) -> libc::termios {
        // SAFETY: termios is plain data, for which zero is valid.
        let mut settings: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open and the settings are valid for writing.
        unsafe { libc::tcgetattr(self.master.as_raw_fd(), &mut settings) };
        settings
    }

    /// A view has the terminal: another screen, no cursor, no echo.
    pub fn is_taken(&self) -> bool {
        let parser = self.screen.lock().expect("the screen");
        let screen = parser.screen();
        let echoes = self.settings().c_lflag & (libc::ECHO | libc::ICANON) != 0;
        let taken = [screen.alternate_screen(), screen.hide_cursor(), !echoes];
        taken.iter().all(|is_so| *is_so)
    }

    /// All of [`Pty::is_taken`] is undone.
    pub fn is_given_back(&self) -> bool {
        let parser = self.screen.lock().expect("the screen");
        let screen = parser.screen();
        let libc::termios { c_lflag, c_iflag, .. } = self.settings();
        let (keys, input) = (libc::ECHO | libc::ICANON | libc::ISIG, libc::ICRNL | libc::IXON);
        let is_plain = c_lflag & keys == keys && c_iflag & input == input;
        !screen.alternate_screen() && !screen.hide_cursor() && is_plain
    }

    /// Waits until the screen shows it.
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    pub fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for(what, || Some(self.text()).filter(|screen| is_so(screen)))
        }));
        found.unwrap_or_else(|_| panic!("no {what} on the screen:\n{}", self.text()))
    }

    pub fn wait(&mut self) -> ExitStatus {
        let pid = self.pid();
        let child = Mutex::new(&mut self.child);
        wait_for(&format!("the end of {pid}"), || {
            child.lock().expect("the child").try_wait().expect("a child")
        })
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
