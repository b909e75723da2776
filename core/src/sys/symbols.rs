//! The addresses of the kernel's functions, from `/proc/kallsyms`.

use std::fs::File;
use std::io::{BufRead, BufReader};

use super::Host;
use super::input;
use crate::model::CodeRange;

/// A linker puts the files of a folder next to each other. These are the first function of kernel/sched and the first one
/// after it, which is of kernel/locking: Linux 6.1 to 6.18 have both. They are among the first functions; the few of
/// kernel/sched in `.sched.text` come after most others, and reading up to there would make each boot longer.
const SCHED: [&str; 2] = ["__traceiter_sched_kthread_stop", "__mutex_init"];

/// A line is read at once, and those of many functions with few calls.
const MAX_LINE_BYTES: u64 = 1 << 10;
const READ_BYTES: usize = 64 << 10;

/// The code of kernel/sched; nothing where it is not found.
pub fn sched_code(host: &Host) -> Vec<CodeRange> {
    let Ok(file) = File::open(host.path("/proc/kallsyms")) else { return Vec::new() };
    ranges(BufReader::with_capacity(READ_BYTES, file))
}

fn ranges(text: impl BufRead) -> Vec<CodeRange> {
    let mut found: [Option<u64>; 2] = [None; 2];
    for line in input::lines(text, MAX_LINE_BYTES).map_while(Result::ok) {
        let mut words = line.split(' ');
        let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let Some(at) = SCHED.iter().position(|own| *own == name) else { continue };
        found[at] = u64::from_str_radix(address, 16).ok();
        if let [Some(from), Some(to)] = found {
            let range = CodeRange { from, to };
            return Vec::from_iter((from < to).then_some(range));
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_where_it_begins_and_ends() {
        let text = "ffffffff81000000 T _stext\n\
                    ffffffff810c9db0 T __traceiter_sched_kthread_stop\n\
                    ffffffff810c9df0 t __traceiter_sched_kthread_stop_ret\n\
                    garbage\n\
                    ffffffff81102740 T __mutex_init\n\
                    ffffffff81a10af0 t __schedule\n";
        let first = CodeRange { from: 0xffff_ffff_810c_9db0, to: 0xffff_ffff_8110_2740 };
        assert_eq!(ranges(text.as_bytes()), [first]);
        let none = text.replace("__mutex_init", "another");
        assert!(ranges(none.as_bytes()).is_empty(), "nobody knows where it ends");
        let unseen: String = text
            .lines()
            .map(|line| format!("{:016}{}\n", 0, &line[16.min(line.len())..]))
            .collect();
        assert!(ranges(unseen.as_bytes()).is_empty(), "who may not see addresses sees zeros");
        assert!(ranges(&b"\xff\n\n"[..]).is_empty());
    }
}
