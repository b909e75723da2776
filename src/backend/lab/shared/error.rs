//! Errors in the user's settings of a shared cache, found before anything runs.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use crate::model::Advice;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum CacheError {
    #[error("cannot read the passwords in {}: {source}", path.display())]
    Netrc { path: PathBuf, source: io::Error },
    #[error("{} has a password for {host}, and others may read the file", path.display())]
    Readable { path: PathBuf, host: String },
}

impl Advice for CacheError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::from(match self {
            Self::Netrc { .. } => {
                "NETRC names the file, or unset it for ~/.netrc; schedlab help shared-cache"
                    .to_string()
            }
            Self::Readable { path, .. } => format!("chmod 600 {}", path.display()),
        }))
    }
}
