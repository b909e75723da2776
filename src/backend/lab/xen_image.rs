//! The words of a command line and the schedulers that a hypervisor knows, as far as its image shows:
//! their names are texts in it. Xen itself ignores words that it does not know.

use std::path::Path;

use crate::exec::XenError;
use crate::model::{Cell, Value};
use crate::sys::xen::Scheduler;

use super::asked::{XEN, XEN_ARGUMENTS, XEN_SCHEDULER};
use super::error::LabError;
use super::{first_domain, initrd, kernel};

/// The word for the scheduler of Xen's first pool.
const SCHEDULER_WORD: &str = "sched";

/// Checks that the hypervisor of this kernel, or the cell's own, can do what the cell asks for.
pub fn check(cell: &Cell, kernel: &str) -> Result<(), LabError> {
    let text = |knob| cell.variant.knobs.get(knob).and_then(Value::as_text);
    let own = text(XEN).map(|path| first_domain::hypervisor(Path::new(path))).transpose()?;
    let (words, scheduler) = (text(XEN_ARGUMENTS), text(XEN_SCHEDULER));
    if words.is_none() && scheduler.is_none() {
        return Ok(());
    }
    let image = match (own, kernel::find(kernel)?.hypervisor) {
        (Some(own), _) => own,
        (None, Some(below)) => initrd::read(&below.image)?,
        (None, None) => return Ok(()),
    };
    knows(&image, words.unwrap_or_default(), scheduler)
}

/// Checks that a hypervisor knows these words and this scheduler.
fn knows(image: &[u8], words: &str, scheduler: Option<&str>) -> Result<(), LabError> {
    let mut schedulers: Vec<&str> = scheduler.into_iter().collect();
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let positive = name.strip_prefix("no-").unwrap_or(name);
        if !has_text(image, name) && !has_text(image, positive) {
            return Err(LabError::NoXenWord { word: name.to_string() });
        }
        schedulers.extend((name == SCHEDULER_WORD).then_some(value));
    }
    match schedulers.into_iter().find(|word| !has_text(image, word)) {
        None => Ok(()),
        Some(word) => Err(match Scheduler::from_word(word) {
            Some(scheduler) => XenError::NoScheduler { scheduler: scheduler.word() }.into(),
            None => LabError::NoXenWord { word: format!("{SCHEDULER_WORD}={word}") },
        }),
    }
}

fn has_text(image: &[u8], text: &str) -> bool {
    !text.is_empty() && image.split(|byte| *byte == 0).any(|own| own == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_image_has_not_is_refused_with_its_name() {
        let image =
            b"\x7fELF\0\0loglvl\0credit2_runqueue\0sched\0credit\0credit2\0xpti\0not-rtds\0";
        let cases: &[(&str, Option<&str>, Option<&str>)] = &[
            ("", None, None),
            ("credit2_runqueue=core loglvl=all  no-xpti", Some("credit2"), None),
            ("sched=credit", Some("credit"), None),
            ("credit2_runque=core", None, Some("no parameter `credit2_runque`")),
            ("loglvl=all no-such", None, Some("no parameter `no-such`")),
            ("=core", None, Some("no parameter ``")),
            ("sched=rtds", None, Some("does not have the scheduler rtds")),
            ("sched=fair", None, Some("no parameter `sched=fair`")),
            ("", Some("null"), Some("does not have the scheduler null")),
        ];
        for (words, scheduler, expected) in cases {
            match (knows(image, words, *scheduler), expected) {
                (Ok(()), None) => {}
                (Err(why), Some(part)) if why.to_string().contains(part) => {}
                (got, _) => panic!("{words:?} {scheduler:?}: {got:?}"),
            }
        }
    }
}
