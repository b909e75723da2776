//! Errors of compilers and linkers, as a build prints them. Pure.

use std::fmt;

use crate::model::clean as plain;

/// One error of compiler, assembler, linker or `make`.
#[derive(Clone, Debug, PartialEq)]
pub struct CompilerMessage {
    /// The file in the tree and the line; `None` for the linker.
    pub place: Option<(String, u64)>,
    pub text: String,
}

impl fmt::Display for CompilerMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((file, line)) = &self.place {
            write!(f, "{}:{line}: ", plain(file))?;
        }
        write!(f, "{}", plain(&self.text))
    }
}

/// `../kernel/fork.c:12:3: error: expected ';'`, and the linker's `ld: x.o: undefined reference`.
pub fn message(line: &str) -> Option<CompilerMessage> {
    let is_error = |text: &str| {
        ["error:", "fatal error:", "Error:"].iter().any(|word| text.trim_start().starts_with(word))
    };
    if let Some((file, rest)) = line.split_once(':')
        && let Some((number, rest)) = rest.split_once(':')
        && let Ok(number) = number.parse::<u64>()
    {
        let text = match rest.split_once(':') {
            Some((column, text)) if column.bytes().all(|byte| byte.is_ascii_digit()) => text,
            _ => rest,
        };
        let file = file.trim_start_matches("../").to_string();
        let text = text.trim().to_string();
        return is_error(&text).then_some(CompilerMessage { place: Some((file, number)), text });
    }
    let is_linkers = [
        "undefined reference to",
        "multiple definition of",
        "undefined symbol",
        "No space left on device",
        "No rule to make target",
    ];
    let is_one = is_linkers.iter().any(|words| line.contains(words));
    is_one.then(|| CompilerMessage { place: None, text: line.trim().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_their_place_in_the_tree() {
        let cases: &[(&str, Option<&str>)] = &[
            (
                "../kernel/sched/fair.c:76:5: error: expected ';' before 'x'",
                Some("kernel/sched/fair.c:76: error: expected ';' before 'x'"),
            ),
            (
                "../include/linux/x.h:7:10: fatal error: y.h: No such file",
                Some("include/linux/x.h:7: fatal error: y.h: No such file"),
            ),
            (
                "../arch/x86/entry/a.S:12: Error: no such instruction: `mvo'",
                Some("arch/x86/entry/a.S:12: Error: no such instruction: `mvo'"),
            ),
            (
                "ld: kernel/fork.o: in function `x': undefined reference to `y'",
                Some("ld: kernel/fork.o: in function `x': undefined reference to `y'"),
            ),
            ("../kernel/fork.c:7:1: warning: unused variable", None),
            ("../kernel/fork.c: In function 'x':", None),
            ("make[3]: *** [scripts/Makefile.build:229: kernel/fork.o] Error 1", None),
        ];
        for (line, expected) in cases {
            let found = message(line).map(|message| message.to_string());
            assert_eq!(found.as_deref(), *expected, "{line}");
        }
        let hostile = message("../a\u{1b}[2J.c:1:1: error: \u{1b}]0;x").unwrap().to_string();
        assert_eq!(hostile, "a\\u{1b}[2J.c:1: error: \\u{1b}]0;x");
    }
}
