//! Patches out of what people have: a diff, a mail, or an mbox with a whole thread. Pure.
//!
//! Of a thread the newest version of the series is taken, in its order; cover letters and answers
//! are left out. Formats: RFC 2045 (bodies), RFC 4155 (mbox, and mboxrd's quoting).

use std::io::Read;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use flate2::read::MultiGzDecoder;
use thiserror::Error;

use super::super::plain::plain;
use super::patch::{Patch, PatchFault, PatchedFile};

/// Of an unpacked mbox.
const MAX_BYTES: u64 = 256 << 20;
/// Parts in parts of a mail.
const MAX_DEPTH: usize = 4;

#[derive(Debug, PartialEq, Eq, Error)]
pub enum MailFault {
    #[error("{}: {fault}", plain(name))]
    Patch { name: String, fault: PatchFault },
    #[error("it has no diff")]
    Nothing,
    #[error("it is empty")]
    Empty,
    #[error("it is packed, and not by gzip")]
    OtherPacking,
    #[error("of {total} patches of the series {missing} is not there")]
    Missing { missing: u64, total: u64 },
    #[error("patch {0} of the series is there twice, with different texts")]
    Twice(u64),
    #[error("it cannot be unpacked: it has more than {} MB or is no gzip", MAX_BYTES >> 20)]
    Packed,
}

/// The patches of one file, in the order in which they are applied.
pub fn patches(file: &str, bytes: &[u8]) -> Result<Vec<Patch>, MailFault> {
    let unpacked = unpacked(bytes)?;
    if unpacked.trim_ascii().is_empty() {
        return Err(MailFault::Empty);
    }
    let messages = messages(&unpacked);
    let mut found = Vec::new();
    for message in &messages {
        let mail = Mail::read(message);
        let name = match &mail.subject {
            Some(subject) if messages.len() > 1 => format!("{file}: {subject}"),
            _ => file.to_string(),
        };
        let patch = Patch::parse(&name, &mail.text);
        let is_alone = messages.len() == 1;
        match patch {
            Ok(Some(patch)) => found.push((mail.place(), patch)),
            // Answers quote what they answer to, and have any text.
            Err(fault) if is_alone || !mail.is_answer() => {
                return Err(MailFault::Patch { name, fault });
            }
            _ => {}
        }
    }
    if found.iter().any(|(place, _)| !place.is_answer) {
        found.retain(|(place, _)| !place.is_answer);
    }
    in_order(found)
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, MailFault> {
    // What files of xz, Zstandard and bzip2 begin with.
    const OTHERS: [&[u8]; 3] = [b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"BZh"];
    if OTHERS.iter().any(|begin| bytes.starts_with(begin)) {
        return Err(MailFault::OtherPacking);
    }
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes.to_vec());
    }
    let mut unpacked = Vec::new();
    let mut reader = MultiGzDecoder::new(bytes).take(MAX_BYTES + 1);
    match reader.read_to_end(&mut unpacked) {
        Ok(read) if read as u64 <= MAX_BYTES => Ok(unpacked),
        _ => Err(MailFault::Packed),
    }
}

/// Where in a thread a patch stands.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    version: u64,
    /// Which of how many.
    number: Option<(u64, u64)>,
    /// Of a mail about others' patches.
    is_answer: bool,
    /// Whether it names a mail before it, as patches of a series do too.
    follows: bool,
}

/// The newest version in its order, whole.
fn in_order(mut found: Vec<(Place, Patch)>) -> Result<Vec<Patch>, MailFault> {
    let newest = found.iter().map(|(place, _)| place.version).max().ok_or(MailFault::Nothing)?;
    found.retain(|(place, _)| place.version == newest);
    if found.iter().any(|(place, _)| place.number.is_some()) {
        // Somebody's proposal for a series is not one of it.
        found.retain(|(place, _)| place.number.is_some() || !place.follows);
    }
    let total = found.iter().filter_map(|(place, _)| place.number).map(|(_, total)| total).max();
    let is_series = found.len() > 1 && found.iter().all(|(place, _)| place.number.is_some());
    let (Some(total), true) = (total, is_series) else {
        return Ok(found.into_iter().map(|(_, patch)| patch).collect());
    };
    found.sort_by_key(|(place, _)| place.number);
    found.dedup_by(|(a, b), (c, d)| a.number == c.number && b.digest == d.digest);
    for pair in found.windows(2) {
        if let (Some((number, _)), true) = (pair[0].0.number, pair[0].0.number == pair[1].0.number)
        {
            return Err(MailFault::Twice(number));
        }
    }
    let has = |number: u64| found.iter().any(|(place, _)| place.number == Some((number, total)));
    match (1..=total).find(|number| !has(*number)) {
        Some(missing) => Err(MailFault::Missing { missing, total }),
        None => Ok(found.into_iter().map(|(_, patch)| patch).collect()),
    }
}

/// The messages of an mbox, without the line that separates them; a text that is none is one.
fn messages(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut is_blank = true;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        // A separator has a date; "From here on" does not.
        let words = String::from_utf8_lossy(line).split_whitespace().count();
        if is_blank && line.starts_with(b"From ") && words >= 6 {
            all.push(Vec::new());
        } else {
            if all.is_empty() {
                all.push(Vec::new());
            }
            if let Some(message) = all.last_mut() {
                message.extend(unquoted(line));
            }
        }
        is_blank = line.iter().all(u8::is_ascii_whitespace);
    }
    all
}

/// mboxrd puts one `>` before each line that begins with any number of `>` and `From `.
fn unquoted(line: &[u8]) -> &[u8] {
    let quotes = line.iter().take_while(|byte| **byte == b'>').count();
    if quotes > 0 && line[quotes..].starts_with(b"From ") { &line[1..] } else { line }
}

#[derive(Debug, Default)]
struct Mail {
    subject: Option<String>,
    text: Vec<u8>,
    follows: bool,
}

impl Mail {
    fn read(bytes: &[u8]) -> Mail {
        let Some((headers, body)) = headers(bytes) else {
            return Mail { text: with_newlines(bytes.to_vec()), ..Mail::default() };
        };
        let subject = header(&headers, "subject").map(unencoded);
        let follows = ["in-reply-to", "references"];
        let follows = follows.iter().any(|name| header(&headers, name).is_some());
        Mail { subject, text: decoded(&headers, body, MAX_DEPTH), follows }
    }

    fn is_answer(&self) -> bool {
        self.subject.as_deref().is_some_and(|subject| {
            let start = subject.trim_start().get(..3).unwrap_or("");
            start.eq_ignore_ascii_case("re:")
        })
    }

    /// Of `[PATCH v2 03/11] Title`.
    fn place(&self) -> Place {
        let (mut is_answer, follows) = (self.is_answer(), self.follows);
        let (mut version, mut number) = (1, None);
        let subject = self.subject.as_deref().unwrap_or("").trim_start();
        let mut rest = if is_answer { subject[3..].trim_start() } else { subject };
        while let Some((tag, title)) = rest.strip_prefix('[').and_then(|tag| tag.split_once(']')) {
            // A robot's news that a patch was taken, with the patch.
            is_answer |= tag.starts_with("tip:");
            for word in tag.split([' ', '\t', ',']) {
                version = version_of(word).unwrap_or(version);
                number = number_of(word).or(number);
            }
            rest = title.trim_start();
        }
        Place { version, number, is_answer, follows }
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
    Some((number.parse().ok()?, total.parse().ok()?))
}

/// Of RFC 2047: `=?UTF-8?q?=5BPATCH_1/2=5D?=`; blanks between two encoded words do not count.
fn unencoded(text: &str) -> String {
    let (mut plain, mut rest, mut follows_word) = (String::new(), text, false);
    while let Some(at) = rest.find("=?") {
        let (before, after) = rest.split_at(at);
        let word = encoded_word(after);
        if !(follows_word && word.is_some() && before.trim().is_empty()) {
            plain.push_str(before);
        }
        follows_word = word.is_some();
        rest = match word {
            Some((bytes, rest)) => {
                plain.push_str(&String::from_utf8_lossy(&bytes));
                rest
            }
            None => {
                plain.push_str("=?");
                &after[2..]
            }
        };
    }
    plain + rest
}

fn encoded_word(text: &str) -> Option<(Vec<u8>, &str)> {
    let (_charset, rest) = text.strip_prefix("=?")?.split_once('?')?;
    let (encoding, rest) = rest.split_once('?')?;
    let (data, rest) = rest.split_once("?=")?;
    match encoding {
        "q" | "Q" => Some((quoted_printable(data.replace('_', "=20").as_bytes()), rest)),
        "b" | "B" => Some((base64(data.as_bytes()), rest)),
        _ => None,
    }
}

type Headers = Vec<(String, String)>;

/// Headers with names in small letters, and the body; `None` if the text begins with something
/// else.
fn headers(bytes: &[u8]) -> Option<(Headers, &[u8])> {
    let mut headers: Vec<(String, String)> = Vec::new();
    let mut rest = bytes;
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(end);
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end();
        rest = after;
        if line.is_empty() {
            let of_mail = ["subject", "content-type", "content-transfer-encoding"];
            let is_mail = of_mail.iter().any(|name| header(&headers, name).is_some());
            return is_mail.then_some((headers, rest));
        }
        if line.starts_with([' ', '\t']) {
            let (_, value) = headers.last_mut()?;
            *value = format!("{value} {}", line.trim());
            continue;
        }
        let (name, value) = line.split_once(':')?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || !name.bytes().all(is_name) {
            return None;
        }
        headers.push((name.to_ascii_lowercase(), value.trim().to_string()));
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// The text of a body; of several parts those with a diff.
fn decoded(fields: &[(String, String)], body: &[u8], depth: usize) -> Vec<u8> {
    let kind = header(fields, "content-type").unwrap_or("");
    let is = |name: &str| kind.get(..name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name));
    if let (Some(boundary), true) = (boundary(kind).filter(|_| is("multipart/")), depth > 0) {
        return with_diffs(&parts(body, &boundary), depth);
    }
    if is("text/html") {
        // The other part of the same text.
        return Vec::new();
    }
    let encoding = header(fields, "content-transfer-encoding").unwrap_or("");
    let text = match encoding.to_ascii_lowercase().as_str() {
        "quoted-printable" => quoted_printable(body),
        "base64" => base64(body),
        _ => body.to_vec(),
    };
    match headers(&text).filter(|_| is("message/rfc822") && depth > 0) {
        Some((fields, body)) => decoded(&fields, body, depth - 1),
        None => with_newlines(text),
    }
}

/// Of several parts those with a diff; what is in the text and attached too is taken once.
fn with_diffs(parts: &[Vec<u8>], depth: usize) -> Vec<u8> {
    let (mut all, mut seen) = (Vec::new(), Vec::new());
    for part in parts {
        // A part may have no header at all, and begins with an empty line then.
        let (headers, body) = headers(part).unwrap_or((Vec::new(), part));
        let text = decoded(&headers, body, depth - 1);
        let files = match Patch::parse("", &text) {
            Ok(None) => continue,
            Ok(Some(patch)) => changes(&patch),
            // The fault is that of the whole.
            Err(_) => Vec::new(),
        };
        if files.is_empty() || !seen.contains(&files) {
            all.extend(text);
            all.push(b'\n');
            seen.push(files);
        }
    }
    all
}

/// What a patch does, without the lines in which it stands.
fn changes(patch: &Patch) -> Vec<(Option<String>, Vec<String>)> {
    let hunks = |file: &PatchedFile| file.hunks.iter().map(|hunk| hunk.text.clone()).collect();
    patch.files.iter().map(|file| (file.new.clone(), hunks(file))).collect()
}

/// With lines that end in a newline alone, if all end in a carriage return too. If only some do,
/// it is part of the file.
fn with_newlines(mut text: Vec<u8>) -> Vec<u8> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    // The last may have none, and a mailbox adds an empty one.
    if lines.all(|line| !line.ends_with(b"\n") || line.ends_with(b"\r\n") || line == b"\n") {
        text.retain(|byte| *byte != b'\r');
    }
    text
}

fn boundary(kind: &str) -> Option<String> {
    let at = kind.to_ascii_lowercase().find("boundary=")? + "boundary=".len();
    let rest = &kind[at..];
    let value = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split([';', ' ']).next(),
    };
    value.filter(|value| !value.is_empty()).map(str::to_string)
}

fn parts(body: &[u8], boundary: &str) -> Vec<Vec<u8>> {
    let (begin, end) = (format!("--{boundary}"), format!("--{boundary}--"));
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let trimmed = line.trim_ascii_end();
        if trimmed == end.as_bytes() {
            break;
        }
        match parts.last_mut() {
            _ if trimmed == begin.as_bytes() => parts.push(Vec::new()),
            Some(part) => part.extend(line),
            None => {}
        }
    }
    parts
}

fn quoted_printable(body: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(body.len());
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let is_whole = line.ends_with(b"\n");
        let line = line.trim_ascii_end();
        let (line, joins) = match line.strip_suffix(b"=") {
            Some(line) => (line, true),
            None => (line, !is_whole),
        };
        let mut at = 0;
        while at < line.len() {
            let hexadecimal = line
                .get(at + 1..at + 3)
                .and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
            match (line[at], hexadecimal) {
                (b'=', Some(byte)) => {
                    text.push(byte);
                    at += 3;
                }
                (byte, _) => {
                    text.push(byte);
                    at += 1;
                }
            }
        }
        if !joins {
            text.push(b'\n');
        }
    }
    text
}

/// What cannot be decoded stays as it is, and has no diff.
fn base64(body: &[u8]) -> Vec<u8> {
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let bytes: Vec<u8> = body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let decoded = GeneralPurpose::new(&base64::alphabet::STANDARD, config).decode(&bytes);
    decoded.unwrap_or_else(|_| body.to_vec())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::patch::testing::diff;
    use super::*;

    fn message(subject: &str, more: &str, body: &str) -> String {
        format!(
            "From mboxrd@z Thu Jan  1 00:00:00 1970\nFrom: A <a@example.org>\nSubject: {subject}\n\
             {more}\n{body}\n\n"
        )
    }

    fn names(text: &str) -> Result<Vec<String>, MailFault> {
        let found = patches("x.mbox", text.as_bytes())?;
        Ok(found.into_iter().map(|patch| patch.name).collect())
    }

    fn series(subjects: &[&str]) -> Result<Vec<String>, MailFault> {
        let one = |subject: &&str| message(subject, "", &diff("f.c", subject, "b"));
        let found = names(&subjects.iter().map(one).collect::<String>())?;
        Ok(found.iter().map(|name| name.replace("x.mbox: ", "")).collect())
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
            (&["[PATCH 3/7] alone"], &["x.mbox"]),
            (&["Re: a try"], &["x.mbox"]),
        ];
        for (subjects, expected) in cases {
            assert_eq!(series(subjects).as_deref().unwrap(), *expected, "{subjects:?}");
        }
    }

    #[test]
    fn a_series_with_a_gap_or_two_of_one_is_refused() {
        let missing = MailFault::Missing { missing: 2, total: 3 };
        assert_eq!(series(&["[PATCH 1/3] A", "[PATCH 3/3] C"]), Err(missing));
        assert_eq!(
            series(&["[PATCH 1/2] A", "[PATCH 1/2] Other", "[PATCH 2/2] B"]),
            Err(MailFault::Twice(1))
        );
        assert_eq!(names(&message("[PATCH 0/2] Cover", "", "no diff")), Err(MailFault::Nothing));
        assert_eq!(names(""), Err(MailFault::Empty));
        assert_eq!(patches("x", b"\xfd7zXZ\0..."), Err(MailFault::OtherPacking));
        assert_eq!(names("just words\nrename from a to b\n"), Err(MailFault::Nothing));
    }

    #[test]
    fn cover_letters_and_answers_are_left_out() {
        let text = [
            message("[PATCH 0/1] Cover", "", "From here on it is better\n kernel | 2 +-"),
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
        ];
        assert_eq!(names(&text.concat()).unwrap(), ["x.mbox: [PATCH 1/1] A"]);
    }

    #[test]
    fn a_proposal_in_answer_to_a_series_is_not_one_of_it() {
        let first = message("[PATCH 1/2] A", "In-Reply-To: <0>\n", &diff("f.c", "a", "b"));
        let second = message("[PATCH 2/2] B", "In-Reply-To: <0>\n", &diff("f.c", "b", "c"));
        let other = message("[PATCH] C", "References: <1>\n", &diff("f.c", "b", "d"));
        let found = names(&[other.clone(), second, first].concat()).unwrap();
        assert_eq!(found, ["x.mbox: [PATCH 1/2] A", "x.mbox: [PATCH 2/2] B"]);
        assert_eq!(names(&other).unwrap(), ["x.mbox"], "alone it is what is meant");
    }

    /// Names of files and hunks of a mail with these parts.
    fn attached(kind: &str, parts: &[(&str, &str)]) -> Vec<String> {
        let parts = parts.iter().map(|(headers, body)| format!("--b1\n{headers}\n\n{body}\n"));
        let body = parts.collect::<String>() + "--b1--\n";
        let kind = format!("Content-Type: multipart/{kind}; boundary=b1\n");
        let found = patches("x", message("A", &kind, &body).as_bytes()).unwrap();
        found.iter().flat_map(changes).flat_map(|(_, hunks)| hunks).collect()
    }

    #[test]
    fn every_attachment_counts_once() {
        let packed = |text: &str| base64::engine::general_purpose::STANDARD.encode(text.trim_end());
        let (one, two) = (diff("f.c", "a", "b"), diff("g.c", "c", "d"));
        let (one_packed, two_packed) = (packed(&one), packed(&two));
        let both = ["@@ -1 +1 @@\n-a\n+b", "@@ -1 +1 @@\n-c\n+d"];
        let base64 = "Content-Transfer-Encoding: base64";
        let inline = format!("Hello.\n{one}\nBye.");
        let found =
            attached("mixed", &[("", &inline), (base64, &one_packed), (base64, &two_packed)]);
        assert_eq!(found, both);
        let html = format!("<pre>{one}</pre>");
        let found = attached("alternative", &[("", &one), ("Content-Type: text/html", &html)]);
        assert_eq!(found, both[..1]);
        let mail = format!("Subject: B\n{base64}\n\n{two_packed}");
        let found = attached("mixed", &[("", &one), ("Content-Type: message/rfc822", &mail)]);
        assert_eq!(found, both);
    }

    #[test]
    fn carriage_returns_of_a_file_stay() {
        let text = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\r\n+b\r\n";
        assert_eq!(patches("x", text.as_bytes()).unwrap()[0].text, text.as_bytes());
        let found = patches("x", diff("f", "a", "b").replace('\n', "\r\n").as_bytes()).unwrap();
        assert_eq!(found[0].text, diff("f", "a", "b").as_bytes());
    }

    #[test]
    fn bodies_are_decoded() {
        let plain = diff("f.c", "a = 1", "ö = \"x\"; /* From here */");
        let quoted = plain.replace('=', "=3D").replace('ö', "=C3=B6").replace("/* ", "/* =\n");
        let packed = base64::engine::general_purpose::STANDARD.encode(&plain);
        let encoding = |name: &str| format!("Content-Transfer-Encoding: {name}\n");
        let part = format!("--b1\n{}\n{packed}\n", encoding("base64"));
        let parts = format!("--b1\nContent-Type: text/plain\n\nSee below.\n{part}--b1--\nend\n");
        let cases = [
            message("A", &encoding("quoted-printable"), &quoted),
            message("A", &encoding("base64"), &packed),
            message("A", "Content-Type: multipart/mixed;\n boundary=\"b1\"\n", &parts),
            message("A", "", &plain.replace('\n', "\r\n")),
        ];
        for text in cases {
            let found = patches("x", text.as_bytes()).unwrap();
            let got = String::from_utf8_lossy(&found[0].text).trim_end().to_string();
            assert_eq!(got, plain.trim_end(), "{text}");
        }
    }

    #[test]
    fn a_bare_diff_is_a_patch_and_a_packed_one_too() {
        let text = diff("f.c", "a", "b");
        assert_eq!(names(&text).unwrap(), ["x.mbox"]);
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        packer.write_all(text.as_bytes()).unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(patches("x", &packed).unwrap()[0].text, text.as_bytes());
        assert_eq!(patches("x", &packed[..packed.len() / 2]), Err(MailFault::Packed));
    }

    #[test]
    fn lines_that_an_mbox_quotes_are_restored() {
        let body = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n>From x\n".replace(">From", " From");
        let text = message("A", "", &format!(">From me\n>>From you\n{body}"));
        let found = patches("x", text.as_bytes()).unwrap();
        assert!(String::from_utf8_lossy(&found[0].text).starts_with("From me\n>From you\n"));
    }
}
