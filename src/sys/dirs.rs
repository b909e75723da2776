//! Where schedlab keeps what it must find again, by XDG.

use std::path::PathBuf;

use etcetera::{BaseStrategy, choose_base_strategy};

/// The folder of journals: `$XDG_STATE_HOME/schedlab`.
pub fn state_dir() -> Result<PathBuf, String> {
    let base = choose_base_strategy().map_err(|error| format!("no home folder: {error}"))?;
    let state = base.state_dir().ok_or("no folder for state: set XDG_STATE_HOME")?;
    Ok(state.join("schedlab"))
}

/// The folder of what can be had again: `$XDG_CACHE_HOME/schedlab`.
pub fn cache_dir() -> Result<PathBuf, String> {
    let base = choose_base_strategy().map_err(|error| format!("no home folder: {error}"))?;
    Ok(base.cache_dir().join("schedlab"))
}

/// Columns of the terminal on standard output.
pub fn terminal_columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` is a valid winsize for the call to fill.
    let failed = unsafe { libc::ioctl(1, libc::TIOCGWINSZ, &mut size) } != 0;
    (!failed && size.ws_col > 0).then_some(usize::from(size.ws_col))
}
