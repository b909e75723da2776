//! Xen's own tools, their places and their output.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::error::XenError;
use crate::model::clean;
use crate::sys::input;

/// The folder in which Debian keeps the tools of each version of Xen.
const TOOLS: &str = "/usr/lib";
/// A message of `xl` about every guest here.
const NOISE: &str = "tsc mode string";

/// The output of a tool of Xen.
pub fn tool(name: &str, words: &[&str]) -> Result<String, XenError> {
    let output = input::output(Command::new(path_of(name)).args(words), input::MAX_OWN_FILE_BYTES);
    let output = output.map_err(|source| XenError::Tool { tool: name.to_string(), source })?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    } else {
        let text = [output.stderr, output.stdout].concat();
        let output = on_one_line(&String::from_utf8_lossy(&text));
        Err(XenError::Failed { tool: format!("{name} {}", words.join(" ")), output })
    }
}

/// The lines of a tool's complaint, the first one first.
fn on_one_line(text: &str) -> String {
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains(NOISE));
    let lines: Vec<String> = lines.map(clean).collect();
    lines.join("; ")
}

pub fn xenstore(command: &str, words: &[&str]) -> Result<String, XenError> {
    tool("xenstore", &[&[command], words].concat())
}

/// The tool of Debian's newest version of Xen that has it, else of `PATH`.
fn path_of(name: &str) -> PathBuf {
    let folders = fs::read_dir(TOOLS).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = folders
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("xen-"))
        })
        .map(|folder| folder.join("bin").join(name))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found.pop().unwrap_or_else(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_on_one_line_without_what_is_always_said() {
        let text =
            "x: got a tsc mode string: \"native\"\n\nxl: error: no \u{1b}[2J room\nxl: failed\n";
        assert_eq!(on_one_line(text), "xl: error: no \\u{1b}[2J room; xl: failed");
    }
}
