//! The user and the password of a cache, from `~/.netrc` or the file that `NETRC` names.

use std::env;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::model::CacheUrl;

use super::error::CacheError;
use crate::sys::input;

const VARIABLE: &str = "NETRC";
/// A file of passwords has a few lines, but the named file may be endless.
const MAX_BYTES: u64 = 1 << 20;
/// Permissions of others than the owner.
const OF_OTHERS: u32 = 0o077;

/// The value of the header `Authorization`, if there are credentials for this server.
pub fn authorization(url: &CacheUrl) -> Result<Option<String>, CacheError> {
    let named = env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    let is_named = named.is_some();
    let Some(path) = named.or_else(|| Some(env::home_dir()?.join(".netrc"))) else {
        return Ok(None);
    };
    match of_file(&path, url) {
        // Only a file that the user named must exist.
        Err(CacheError::Netrc { source, .. })
            if !is_named && source.kind() == io::ErrorKind::NotFound =>
        {
            Ok(None)
        }
        found => found,
    }
}

fn of_file(path: &PathBuf, url: &CacheUrl) -> Result<Option<String>, CacheError> {
    let unreadable = |source| CacheError::Netrc { path: path.clone(), source };
    let mut file = input::open_file(path, MAX_BYTES).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    let text = input::read_open(&mut file, MAX_BYTES).and_then(input::text).map_err(unreadable)?;
    // Over http everybody on the way could read the password.
    let Some(entry) = find(&text, url.host()).filter(|_| url.is_private()) else {
        return Ok(None);
    };
    if mode & OF_OTHERS != 0 {
        return Err(CacheError::Readable { path: path.clone(), host: url.host().to_string() });
    }
    let text = format!("{}:{}", entry.login, entry.password);
    Ok(Some(format!("Basic {}", STANDARD.encode(text))))
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Login {
    login: String,
    password: String,
}

/// The meaning of the next word.
#[derive(Clone, Copy)]
enum Next {
    Keyword,
    Machine,
    Login,
    Password,
    /// A value that is not used here.
    Other,
}

/// The first entry of this machine, or the default one, with a login or a password.
fn find(text: &str, host: &str) -> Option<Login> {
    let mut entries: Vec<(bool, Login)> = Vec::new();
    let (mut next, mut is_macro) = (Next::Keyword, false);
    for line in text.lines() {
        // A macro ends with an empty line.
        if is_macro {
            is_macro = !line.trim().is_empty();
            continue;
        }
        for word in line.split_whitespace() {
            next = match (next, word) {
                (Next::Keyword, "machine") => Next::Machine,
                (Next::Keyword, "login") => Next::Login,
                (Next::Keyword, "password") => Next::Password,
                (Next::Keyword, "account") => Next::Other,
                (Next::Keyword, "default") => {
                    entries.push((true, Login::default()));
                    Next::Keyword
                }
                (Next::Keyword, "macdef") => {
                    is_macro = true;
                    break;
                }
                (Next::Keyword, word) if word.starts_with('#') => break,
                (Next::Keyword | Next::Other, _) => Next::Keyword,
                (Next::Machine, name) => {
                    entries.push((name.eq_ignore_ascii_case(host), Login::default()));
                    Next::Keyword
                }
                (Next::Login | Next::Password, word) => {
                    if let Some((_, entry)) = entries.last_mut() {
                        match next {
                            Next::Login => entry.login = word.to_string(),
                            _ => entry.password = word.to_string(),
                        }
                    }
                    Next::Keyword
                }
            };
        }
    }
    let has_any = |entry: &Login| *entry != Login::default();
    entries.into_iter().find(|(is_of, entry)| *is_of && has_any(entry)).map(|(_, entry)| entry)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::model::Advice;

    #[test]
    fn the_entry_of_the_machine_is_found_else_the_default_one() {
        let text = "# machine cache.example login wrong password wrong\n\
            machine other login o password p\n\
            macdef init\nmachine cache.example login wrong password wrong\n\n\
            machine Cache.Example\n  login me\n  account x password #s\u{e9}cret # mine\n\
            machine cache.example login second password second\n\
            default login anybody password guest";
        let found = |host| find(text, host).map(|entry| (entry.login, entry.password));
        let pair = |login: &str, password: &str| Some((login.to_string(), password.to_string()));
        assert_eq!(found("cache.example"), pair("me", "#s\u{e9}cret"));
        assert_eq!(found("other"), pair("o", "p"));
        assert_eq!(found("third"), pair("anybody", "guest"));
        for text in ["", "machine", "machine c login", "login a password b", "machine d login a"] {
            assert_eq!(find(text, "c"), None, "{text}");
        }
    }

    #[test]
    fn a_password_is_read_from_a_private_file_and_sent_to_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("netrc");
        fs::write(
            &path,
            "machine example.org login me password s\nmachine 127.0.0.1 login me password s",
        )
        .unwrap();
        let of = |mode, url: &str| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            of_file(&path, &url.parse().unwrap())
        };
        assert_eq!(of(0o600, "https://example.org").unwrap().as_deref(), Some("Basic bWU6cw=="));
        assert!(of(0o400, "http://127.0.0.1:8080/x").unwrap().is_some(), "this machine");
        assert_eq!(of(0o644, "https://[::1]").unwrap(), None, "it has no password for it");
        assert_eq!(
            of(0o600, "http://example.org").unwrap(),
            None,
            "others would read it on its way"
        );
        for mode in [0o640, 0o604, 0o620] {
            let error = of(mode, "https://example.org").unwrap_err();
            assert!(matches!(error, CacheError::Readable { .. }), "{mode:o}");
            let text = format!("{error}; {}", error.hint().unwrap());
            assert!(text.contains("chmod 600") && !text.contains("password s"), "{text}");
        }
        fs::remove_file(&path).unwrap();
        let error = of_file(&path, &"https://example.org".parse().unwrap()).unwrap_err();
        assert!(matches!(error, CacheError::Netrc { .. }));
    }
}
