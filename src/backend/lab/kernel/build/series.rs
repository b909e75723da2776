//! Chooses the patches to apply from the mails of some files: whole series, each in its order. Pure.
//!
//! An mbox is a thread: its newest version counts, and answers are left out. If a user named several files,
//! only cover letters and copies are left out, and two versions are refused.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use super::mail::{self, Mail, MailFault};
use super::patch::{MadeFor, Patch};
use crate::model::Advice;
use crate::model::clean as plain;

/// Numbers that a message names one by one.
const MAX_SHOWN: usize = 3;

/// The patches to apply, in order.
#[derive(Debug, Default, PartialEq)]
pub struct Series {
    pub patches: Vec<Patch>,
    /// Facts that a user should know before anything is built.
    pub notes: Vec<SeriesNote>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SeriesNote {
    /// Its changes are not applied.
    LeftOut {
        name: String,
        why: LeftOut,
    },
    /// The files were not given in the order of their series.
    Sorted {
        tag: String,
    },
    Part(Part),
    Flowed {
        name: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    Older,
    Answer,
    Copy,
}

/// A series with missing patches.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// `[PATCH v2 1/2]`, from the first mail that was found.
    tag: String,
    /// The numbers of the other patches that were found.
    others: Vec<u64>,
    /// The first numbers that are missing, and how many are.
    missing: Vec<u64>,
    missing_count: u64,
    total: u64,
}

#[derive(Debug, PartialEq, Error)]
pub enum SeriesFault {
    #[error("the patch {} cannot be used: {why}", plain(file))]
    File { file: String, why: MailFault },
    #[error("the patches are not a whole series: {0}")]
    Part(Part),
    #[error("{} and {} have the same number and are different", plain(.0), plain(.1))]
    Twice(String, String),
    #[error("versions are mixed: {} and {} are the same patch", plain(.0), plain(.1))]
    Versions(String, String),
}

impl Advice for SeriesFault {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::from(match self {
            Self::File { .. } => "git format-patch writes patches that can be used",
            Self::Part(_) => {
                "b4 am -o - MESSAGE-ID fetches the whole series from lore; \
                 --allow-part applies the part that is there"
            }
            Self::Twice(..) | Self::Versions(..) => "name the files of one version alone",
        }))
    }
}

/// The patches of these files, which have names and contents.
pub fn choose(files: &[(String, Vec<u8>)], allow_part: bool) -> Result<Series, SeriesFault> {
    let (mut notes, mut groups) = (Vec::new(), Vec::new());
    for (at, (file, bytes)) in files.iter().enumerate() {
        let entries = mail::mails(bytes).and_then(|mails| of_file(file, mails, &mut notes));
        let entries = entries.map_err(|why| SeriesFault::File { file: file.clone(), why })?;
        for entry in entries {
            add(&mut groups, Entry { file: at, ..entry }, &mut notes)?;
        }
    }
    let mut patches = Vec::new();
    for group in groups {
        if let Some(part) = group.part() {
            if allow_part {
                notes.push(SeriesNote::Part(part))
            } else {
                return Err(SeriesFault::Part(part));
            }
        }
        if group.was_sorted {
            notes.push(SeriesNote::Sorted { tag: group.tag() });
        }
        patches.extend(group.patches());
    }
    Ok(Series { patches, notes })
}

/// A mail that counts.
struct Entry {
    name: String,
    place: Place,
    /// `None` for a cover letter.
    patch: Option<Patch>,
    made_for: Option<MadeFor>,
    file: usize,
}

/// The mails of one file that count.
fn of_file(
    file: &str,
    mails: Vec<Mail>,
    notes: &mut Vec<SeriesNote>,
) -> Result<Vec<Entry>, MailFault> {
    let is_alone = mails.len() == 1;
    let mut found = Vec::new();
    for mail in mails {
        let place = Place::read(&mail);
        let name = match &mail.subject {
            Some(subject) if !is_alone => format!("{file}: {subject}"),
            _ => file.to_string(),
        };
        let made_for = MadeFor::read(&mail.text);
        let patch = match Patch::parse(&name, &mail.text) {
            // Its diff is between two versions of the series.
            _ if place.is_cover() => None,
            Ok(Some(patch)) => Some(patch),
            // Answers quote the mail that they answer, and may have any text.
            Err(fault) if is_alone || !place.is_answer => {
                return Err(MailFault::Patch { name, fault });
            }
            _ => continue,
        };
        if mail.is_flowed && patch.is_some() {
            notes.push(SeriesNote::Flowed { name: name.clone() });
        }
        found.push(Entry { name, place, patch, made_for, file: 0 });
    }
    let mut leave_out = |found: &mut Vec<Entry>, why, is_out: &dyn Fn(&Place) -> bool| {
        let out = found.extract_if(.., |entry| is_out(&entry.place));
        let patches = out.filter(|entry| entry.patch.is_some());
        notes.extend(patches.map(|entry| SeriesNote::LeftOut { name: entry.name, why }));
    };
    if found.iter().any(|entry| !entry.place.is_answer) {
        leave_out(&mut found, LeftOut::Answer, &|place| place.is_answer);
    }
    let newest = found.iter().map(|entry| entry.place.version).max().ok_or(MailFault::Nothing)?;
    leave_out(&mut found, LeftOut::Older, &|place| place.version != newest);
    if found.iter().any(|entry| entry.place.number.is_some()) {
        // Somebody's proposal for a series is not part of it.
        leave_out(&mut found, LeftOut::Answer, &|place| place.number.is_none() && place.follows);
    }
    Ok(found)
}

/// The mails of one series by their numbers; 0 is the cover letter.
struct Group {
    version: u64,
    total: u64,
    entries: BTreeMap<u64, Entry>,
    was_sorted: bool,
}

/// Adds a mail to its series. If that is complete already, a repeated number begins another series.
fn add(
    groups: &mut Vec<Group>,
    entry: Entry,
    notes: &mut Vec<SeriesNote>,
) -> Result<(), SeriesFault> {
    if let Some(patch) = &entry.patch {
        // Bare diffs have no titles.
        let title = &entry.place.title;
        let known = groups.iter().flat_map(|group| group.entries.values());
        let mut same = known.filter(|other| other.place.title == *title);
        let is_other = |other: &&Entry| other.place.version != entry.place.version;
        if let Some(other) = same.clone().find(is_other).filter(|_| !title.is_empty()) {
            return Err(SeriesFault::Versions(other.name.clone(), entry.name));
        }
        let is_copy = |other: &Patch| other.changes() == patch.changes();
        if same.any(|other| other.patch.as_ref().is_some_and(is_copy)) {
            notes.push(SeriesNote::LeftOut { name: entry.name, why: LeftOut::Copy });
            return Ok(());
        }
    }
    let Place { version, number, .. } = entry.place;
    let (number, total) = number.unwrap_or((1, 1));
    let is_it = |group: &&mut Group| (group.version, group.total) == (version, total);
    match groups.iter_mut().rfind(is_it) {
        Some(group) if !group.entries.contains_key(&number) => {
            let mut later = group.entries.range(number..);
            group.was_sorted |= number > 0 && later.any(|(_, later)| later.file != entry.file);
            group.entries.insert(number, entry);
        }
        Some(group) if group.part().is_some() => {
            let other = group.entries.get(&number).map(|other| other.name.clone());
            return Err(SeriesFault::Twice(other.unwrap_or_default(), entry.name));
        }
        _ => {
            let entries = BTreeMap::from([(number, entry)]);
            groups.push(Group { version, total, entries, was_sorted: false });
        }
    }
    Ok(())
}

impl Group {
    /// `[PATCH v2 1/2]`.
    fn tag(&self) -> String {
        let first = self.entries.range(1..).next().or(self.entries.first_key_value());
        first.map(|(_, entry)| entry.place.tag.clone()).unwrap_or_default()
    }

    /// If it is not whole.
    fn part(&self) -> Option<Part> {
        let numbers = || self.entries.range(1..).map(|(number, _)| *number);
        let missing_count = self.total - numbers().count() as u64;
        let missing = (1..=self.total).filter(|number| !self.entries.contains_key(number));
        (missing_count > 0).then(|| Part {
            tag: self.tag(),
            others: numbers().skip(1).collect(),
            missing: missing.take(MAX_SHOWN).collect(),
            missing_count,
            total: self.total,
        })
    }

    /// The patches in order; the first one gets the base that the cover letter names.
    fn patches(mut self) -> Vec<Patch> {
        let made_for = self.entries.values_mut().find_map(|entry| entry.made_for.take());
        let mut patches: Vec<Patch> =
            self.entries.into_values().filter_map(|entry| entry.patch).collect();
        if let Some(first) = patches.first_mut() {
            first.made_for = made_for;
        }
        patches
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Part { tag, others, missing, missing_count, total } = self;
        let named = |number: &u64| format!("{number}/{total}");
        let there = std::iter::once(plain(tag)).chain(others.iter().take(MAX_SHOWN).map(named));
        let there = listed(there.collect(), 1 + others.len() as u64);
        let missing = listed(missing.iter().map(named).collect(), *missing_count);
        write!(f, "{there} there, {missing} missing")
    }
}

/// `1/7, 2/7 and 3 more are`.
fn listed(shown: Vec<String>, count: u64) -> String {
    let more = match count - shown.len() as u64 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let verb = if count == 1 { "is" } else { "are" };
    format!("{}{more} {verb}", shown.join(", "))
}

impl fmt::Display for SeriesNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeftOut { name, why } => {
                let why = match why {
                    LeftOut::Older => "the thread has a newer version",
                    LeftOut::Answer => "it answers to a patch",
                    LeftOut::Copy => "it is there twice",
                };
                write!(f, "{} is left out: {why}", plain(name))
            }
            Self::Sorted { tag } => {
                write!(f, "the series of {} is applied in its own order", plain(tag))
            }
            Self::Part(part) => write!(f, "a part of a series is applied: {part}"),
            Self::Flowed { name } => write!(
                f,
                "{} was sent as format=flowed: lines may be wrapped, and blanks lost",
                plain(name)
            ),
        }
    }
}

/// The position of a patch in a thread.
#[derive(Clone, Debug, Default, PartialEq)]
struct Place {
    version: u64,
    /// The patch's number and the length of its series.
    number: Option<(u64, u64)>,
    /// Whether it is about others' patches.
    is_answer: bool,
    follows: bool,
    /// `[PATCH v2 03/11]`.
    tag: String,
    title: String,
}

impl Place {
    /// Reads `[PATCH v2 03/11] Title`.
    fn read(mail: &Mail) -> Place {
        let mut place = Place { version: 1, follows: mail.follows, ..Place::default() };
        let subject = mail.subject.as_deref().unwrap_or("").trim();
        let start = subject.get(..3).unwrap_or("");
        place.is_answer = start.eq_ignore_ascii_case("re:");
        let begin = if place.is_answer { subject[3..].trim_start() } else { subject };
        let mut rest = begin;
        while let Some((tag, title)) = rest.strip_prefix('[').and_then(|tag| tag.split_once(']')) {
            // A robot's news that a patch was taken, with the patch.
            place.is_answer |= tag.starts_with("tip:");
            for word in tag.split([' ', '\t', ',']) {
                place.version = version_of(word).unwrap_or(place.version);
                place.number = number_of(word).or(place.number);
            }
            rest = title.trim_start();
        }
        place.tag = begin[..begin.len() - rest.len()].trim_end().to_string();
        place.title = rest.to_string();
        place
    }

    fn is_cover(&self) -> bool {
        self.number.is_some_and(|(number, _)| number == 0)
    }
}

/// `v2`, `PATCHv2`, `RFC-V2`
fn version_of(word: &str) -> Option<u64> {
    let (before, digits) = word.split_at(word.rfind(['v', 'V'])?);
    let is_tag = |c: char| c.is_ascii_uppercase() || c == '-';
    digits[1..].parse().ok().filter(|_| before.chars().all(is_tag))
}

/// `03/11`
fn number_of(word: &str) -> Option<(u64, u64)> {
    let (number, total) = word.split_once('/')?;
    let (number, total) = (number.parse().ok()?, total.parse().ok()?);
    (number <= total && total > 0).then_some((number, total))
}

#[cfg(test)]
mod tests {
    use super::super::patch::testing::{diff, message};
    use super::*;

    /// A mail with a patch that no other mail has.
    fn mail(subject: &str) -> String {
        message(subject, "", &diff("f.c", subject, "b"))
    }

    fn chosen(files: &[(&str, &str)]) -> Result<Series, SeriesFault> {
        let files = files.iter().map(|(name, text)| (name.to_string(), text.as_bytes().to_vec()));
        choose(&files.collect::<Vec<_>>(), false)
    }

    fn names(series: &Series) -> Vec<&str> {
        series.patches.iter().map(|patch| &*patch.name).collect()
    }

    fn notes(series: &Series) -> Vec<String> {
        series.notes.iter().map(ToString::to_string).collect()
    }

    /// The names of the patches in one file with these mails.
    fn thread(subjects: &[&str]) -> Result<Vec<String>, SeriesFault> {
        let series = chosen(&[("x", &subjects.iter().map(|one| mail(one)).collect::<String>())])?;
        Ok(names(&series).iter().map(|name| name.replace("x: ", "")).collect())
    }

    /// Files with a mail each; the names of the patches in order, or the error, and the notes.
    fn named(subjects: &[&str]) -> (Vec<String>, Vec<String>) {
        let texts: Vec<String> = subjects.iter().map(|subject| mail(subject)).collect();
        let files: Vec<(&str, &str)> =
            subjects.iter().copied().zip(texts.iter().map(String::as_str)).collect();
        match chosen(&files) {
            Ok(series) => {
                (names(&series).into_iter().map(str::to_string).collect(), notes(&series))
            }
            Err(fault) => (vec![fault.to_string()], Vec::new()),
        }
    }

    #[test]
    fn a_thread_is_its_newest_series_in_order() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["[PATCH 2/2] B", "[PATCH 1/2] A"], &["[PATCH 1/2] A", "[PATCH 2/2] B"]),
            (
                &["[PATCH v2 1/1] New", "[PATCH 1/2] A", "[PATCH 2/2] B", "Re: [PATCH v3 1/1] Try"],
                &["[PATCH v2 1/1] New"],
            ),
            (
                &["[PATCH 10/10] J", "[RFC PATCH v3 02/02] B", "[RFC PATCH v3 01/02] A"],
                &["[RFC PATCH v3 01/02] A", "[RFC PATCH v3 02/02] B"],
            ),
            (
                &["[PATCH 1/2] A", "[PATCH 1/2] A", "[PATCH 2/2] B"],
                &["[PATCH 1/2] A", "[PATCH 2/2] B"],
            ),
            (
                &[
                    "[RFC][PATCHv2 2/2] B",
                    "[PATCH-V2, 1/2] A",
                    "[PATCH 1/2] Old",
                    "[PATCH 2/2] Old",
                ],
                &["[PATCH-V2, 1/2] A", "[RFC][PATCHv2 2/2] B"],
            ),
            (&["[PATCH 1/1] A", "[tip: sched/core] A", "Re: [PATCH 1/1] A"], &["[PATCH 1/1] A"]),
            (
                &[
                    "=?UTF-8?q?=5BPATCH_2/2=5D_=C3=B6?=",
                    "=?utf-8?B?W1BBVENIIDEvMl0=?= =?utf-8?q?_A?=",
                ],
                &["[PATCH 1/2] A", "[PATCH 2/2] ö"],
            ),
            (&["One", "Two"], &["One", "Two"]),
            (&["Re: a try"], &["x"]),
        ];
        for (subjects, expected) in cases {
            assert_eq!(thread(subjects).as_deref().unwrap(), *expected, "{subjects:?}");
        }
    }

    #[test]
    fn part_of_a_series_is_refused_and_what_is_missing_is_named() {
        let cases: &[(&[&str], &str)] = &[
            (&["[PATCH v2 1/2] A"], "[PATCH v2 1/2] is there, 2/2 is missing"),
            (&["[PATCH 0/2] Cover", "[PATCH 2/2] B"], "[PATCH 2/2] is there, 1/2 is missing"),
            (&["[PATCH 1/3] A", "[PATCH 3/3] C"], "[PATCH 1/3], 3/3 are there, 2/3 is missing"),
            (&["[PATCH 0/2] Cover"], "[PATCH 0/2] is there, 1/2, 2/2 are missing"),
            // One of each version.
            (&["[PATCH 1/2] A", "[PATCH v2 2/2] B"], "[PATCH 1/2] is there, 2/2 is missing"),
            (
                &["[PATCH 2/9] B", "[PATCH 5/9] E"],
                "[PATCH 2/9], 5/9 are there, 1/9, 3/9, 4/9 and 4 more are missing",
            ),
            (
                &["[PATCH 1/18446744073709551615] A"],
                "[PATCH 1/18446744073709551615] is there, 2/18446744073709551615, \
                 3/18446744073709551615, 4/18446744073709551615 and 18446744073709551611 more are \
                 missing",
            ),
        ];
        for (subjects, expected) in cases {
            let expected = format!("the patches are not a whole series: {expected}");
            assert_eq!(named(subjects).0, [expected.as_str()]);
        }
        let fault = thread(&["[PATCH 0/2] Cover", "[PATCH 1/2] A"]).unwrap_err();
        assert!(fault.to_string().ends_with("[PATCH 1/2] is there, 2/2 is missing"), "{fault}");
        let files = [("a".to_string(), mail("[PATCH 3/7] C").into_bytes())];
        let part = choose(&files, true).unwrap();
        assert_eq!(names(&part), ["a"]);
        let note = "a part of a series is applied: [PATCH 3/7] is there, 1/7, 2/7, 4/7 and 3 more \
                    are missing";
        assert_eq!(notes(&part), [note]);
    }

    #[test]
    fn files_are_put_into_the_order_of_their_series_and_copies_are_left_out() {
        let cases: &[(&[&str], &[&str], &[&str])] = &[
            (
                &["[PATCH v2 0/2] Cover", "[PATCH v2 1/2] A", "[PATCH v2 2/2] B"],
                &["[PATCH v2 1/2] A", "[PATCH v2 2/2] B"],
                &[],
            ),
            (
                &["[PATCH 2/2] B", "[PATCH 1/2] A"],
                &["[PATCH 1/2] A", "[PATCH 2/2] B"],
                &["the series of [PATCH 1/2] is applied in its own order"],
            ),
            (
                &["[PATCH 1/2] A", "[PATCH 1/2] A", "[PATCH 2/2] B"],
                &["[PATCH 1/2] A", "[PATCH 2/2] B"],
                &["[PATCH 1/2] A is left out: it is there twice"],
            ),
            (&["One", "One"], &["One"], &["One is left out: it is there twice"]),
            // Two series, and a patch before them.
            (
                &[
                    "Base",
                    "[PATCH 1/2] A",
                    "[PATCH 2/2] B",
                    "[PATCH v3 1/1] X",
                    "[PATCH 1/2] C",
                    "[PATCH 2/2] D",
                ],
                &[
                    "Base",
                    "[PATCH 1/2] A",
                    "[PATCH 2/2] B",
                    "[PATCH v3 1/1] X",
                    "[PATCH 1/2] C",
                    "[PATCH 2/2] D",
                ],
                &[],
            ),
            (
                &["[PATCH 1/2] A", "[PATCH 1/2] Other", "[PATCH 2/2] B"],
                &["[PATCH 1/2] A and [PATCH 1/2] Other have the same number and are different"],
                &[],
            ),
            (
                &["[PATCH 1/2] A", "[PATCH 2/2] B", "[PATCH v2 1/2] A", "[PATCH v2 2/2] B"],
                &["versions are mixed: [PATCH 1/2] A and [PATCH v2 1/2] A are the same patch"],
                &[],
            ),
        ];
        for (subjects, patches, notes) in cases {
            let (found, noted) = named(subjects);
            assert_eq!((found, noted), (owned(patches), owned(notes)), "{subjects:?}");
        }
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| text.to_string()).collect()
    }

    #[test]
    fn cover_letters_and_answers_are_left_out() {
        let interdiff = diff("f.c", "b", "a");
        let text = [
            message("[PATCH 0/1] Cover", "", &format!("From here on a diff to v1:\n\n{interdiff}")),
            message(
                "[PATCH 1/1] A",
                "",
                &format!("Why.\n---\n f.c | 2\n\n{}-- \n2.39", diff("f.c", "a", "b")),
            ),
            message(
                "Re: [PATCH 1/1] A",
                "",
                "> --- a/f.c\nLooks good.\n--- a/f.c\n+++ b/../f.c\n@@ -1 +1",
            ),
            message("Re: [PATCH 1/1] A", "", &format!("Better:\n{}", diff("f.c", "a", "c"))),
        ];
        let series = chosen(&[("x", &text.concat())]).unwrap();
        assert_eq!(names(&series), ["x: [PATCH 1/1] A"]);
        let note = "x: Re: [PATCH 1/1] A is left out: it answers to a patch";
        assert_eq!(notes(&series), [note], "the other answer has no diff");
        for (text, why) in [
            (message("[PATCH] Words", "", "no diff"), MailFault::Nothing),
            ("just words\nrename from a to b\n".to_string(), MailFault::Nothing),
            (String::new(), MailFault::Empty),
        ] {
            let fault = chosen(&[("a", &mail("A")), ("x", &text)]).unwrap_err();
            assert_eq!(fault, SeriesFault::File { file: "x".to_string(), why });
        }
    }

    #[test]
    fn a_proposal_in_answer_to_a_series_is_not_one_of_it() {
        let first = message("[PATCH 1/2] A", "In-Reply-To: <0>\n", &diff("f.c", "a", "b"));
        let second = message("[PATCH 2/2] B", "In-Reply-To: <0>\n", &diff("f.c", "b", "c"));
        let other = message("[PATCH] C", "References: <1>\n", &diff("f.c", "b", "d"));
        let all = [other.clone(), second, first].concat();
        let series = chosen(&[("x", &all)]).unwrap();
        assert_eq!(names(&series), ["x: [PATCH 1/2] A", "x: [PATCH 2/2] B"]);
        assert_eq!(notes(&series), ["x: [PATCH] C is left out: it answers to a patch"]);
        let alone = chosen(&[("x", &other)]).unwrap();
        assert_eq!(names(&alone), ["x"], "alone it is what is meant");
    }

    #[test]
    fn the_first_patch_has_the_commit_that_its_series_was_made_for() {
        let base = "base-commit: 0123456789abcdef0123\nprerequisite-patch-id: 1\n";
        let [cover, first] = ["[PATCH 0/2] Cover", "[PATCH 1/2] A"];
        let series = |cover_has: &str, first_has: &str| {
            let text = message(cover, "", cover_has)
                + &message(first, "", &format!("{}\n{first_has}", diff("f.c", "a", "b")))
                + &mail("[PATCH 2/2] B");
            let series = chosen(&[("x", &text)]).unwrap();
            series.patches.into_iter().map(|patch| patch.made_for).collect::<Vec<_>>()
        };
        let commit = "0123456789abcdef0123".to_string();
        let made_for = Some(MadeFor { commit, prerequisites: 1 });
        assert_eq!(series(base, ""), [made_for.clone(), None]);
        assert_eq!(series("", base), [made_for, None]);
        assert_eq!(series("base-commit: x; rm -rf /\n", ""), [None, None]);
    }
}
