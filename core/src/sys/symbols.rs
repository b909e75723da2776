//! The addresses of the kernel's functions, from `/proc/kallsyms`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

use super::Host;
use super::input;
use crate::model::CodeRange;

/// A linker puts the files of a folder next to each other, in each section. These are the first function of kernel/sched
/// in a section and the first one after it, which is of kernel/locking: Linux 6.1 to 6.18 have both.
const SCHED: [[&str; 2]; 2] =
    [["__traceiter_sched_kthread_stop", "__mutex_init"], ["__schedule", "mutex_unlock"]];

/// A line is read at once, and those of many functions with few calls.
const MAX_LINE_BYTES: u64 = 1 << 10;
const READ_BYTES: usize = 64 << 10;

/// The code of kernel/sched, or the parts of it that are found.
pub fn sched_code(host: &Host) -> Vec<CodeRange> {
    let Ok(file) = File::open(host.path("/proc/kallsyms")) else { return Vec::new() };
    ranges(BufReader::with_capacity(READ_BYTES, file))
}

fn ranges(text: impl BufRead) -> Vec<CodeRange> {
    let wanted = || SCHED.iter().flatten();
    let mut found: HashMap<&str, u64> = HashMap::new();
    for line in input::lines(text, MAX_LINE_BYTES).map_while(Result::ok) {
        let mut words = line.split(' ');
        let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let Some(name) = wanted().find(|own| **own == name) else { continue };
        found.extend(u64::from_str_radix(address, 16).ok().map(|address| (*name, address)));
        if found.len() == wanted().count() {
            break;
        }
    }
    let range = |[first, next]: &[&str; 2]| {
        let range = CodeRange { from: *found.get(first)?, to: *found.get(next)? };
        (range.from < range.to).then_some(range)
    };
    SCHED.iter().filter_map(range).collect()
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
        let end = "ffffffff81a12480 T mutex_unlock\n";
        let second = CodeRange { from: 0xffff_ffff_81a1_0af0, to: 0xffff_ffff_81a1_2480 };
        assert_eq!(ranges(format!("{text}{end}").as_bytes()), [first, second]);
        let unseen: String = text
            .lines()
            .map(|line| format!("{:016}{}\n", 0, &line[16.min(line.len())..]))
            .collect();
        assert!(ranges(unseen.as_bytes()).is_empty(), "who may not see addresses sees zeros");
        assert!(ranges(&b"\xff\n\n"[..]).is_empty());
    }
}
