//! What libbpf says while programs are loaded, in place of standard error: the reason of a failure.

use std::sync::Mutex;

use libbpf_rs::PrintLevel;

/// Its words since this was made. They are the process's: who loads two at once mixes them.
pub struct Said(());

static SAID: Mutex<String> = Mutex::new(String::new());

impl Said {
    pub fn listen() -> Said {
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
            if let Ok(mut said) = SAID.lock() {
                *said = text.trim().to_string();
            }
        })));
        Said(())
    }

    /// The last line, on one line, in brackets and with a space before it; empty without words.
    pub fn last(&self) -> String {
        let said = SAID.lock().map(|said| said.clone()).unwrap_or_default();
        said.lines().last().map_or(String::new(), |line| format!(" ({line})"))
    }
}
