//! Where schedlab keeps its files, by XDG.

use std::path::PathBuf;

use etcetera::{BaseStrategy, HomeDirError, choose_base_strategy};

/// Why there is no folder to keep something in.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("no home folder: {0}")]
    NoHome(#[from] HomeDirError),
    #[error("no folder for state: set XDG_STATE_HOME")]
    NoState,
}

/// The folder of journals: `$XDG_STATE_HOME/schedlab`.
pub fn state_dir() -> Result<PathBuf, FolderError> {
    let state = choose_base_strategy()?.state_dir().ok_or(FolderError::NoState)?;
    Ok(state.join("schedlab"))
}

/// The folder of what can be downloaded or made again: `$XDG_CACHE_HOME/schedlab`.
pub fn cache_dir() -> Result<PathBuf, FolderError> {
    Ok(choose_base_strategy()?.cache_dir().join("schedlab"))
}

/// Columns of the terminal on standard output.
pub fn terminal_columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` is a valid winsize for the call to fill.
    let failed = unsafe { libc::ioctl(1, libc::TIOCGWINSZ, &mut size) } != 0;
    (!failed && size.ws_col > 0).then_some(usize::from(size.ws_col))
}
