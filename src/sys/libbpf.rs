//! What libbpf reports while programs are loaded, in place of standard error: the reason of a failure.

use std::sync::Mutex;

use libbpf_rs::PrintLevel;

/// Its messages since this was made. They are the process's: two loads at once mix theirs.
pub struct Log(());

static MESSAGE: Mutex<String> = Mutex::new(String::new());

impl Log {
    pub fn listen() -> Log {
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
            if let Ok(mut message) = MESSAGE.lock() {
                *message = text.trim().to_string();
            }
        })));
        Log(())
    }

    /// The last line, in brackets and with a space before it; empty without messages.
    pub fn last(&self) -> String {
        let message = MESSAGE.lock().map(|message| message.clone()).unwrap_or_default();
        message.lines().last().map_or(String::new(), |line| format!(" ({line})"))
    }
}
