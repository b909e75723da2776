//! The mails in a file: a diff alone, one mail, or an mbox with a whole thread. Pure.
//!
//! Formats: RFC 2045 (bodies), RFC 4155 (mbox, and mboxrd's quoting), RFC 3676 (format=flowed).

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use flate2::read::MultiGzDecoder;
use thiserror::Error;

use super::patch::{Patch, PatchFault};
use crate::model::clean as plain;
use crate::sys::input;

/// Maximum size of a file, packed or unpacked.
pub const MAX_BYTES: u64 = 64 << 20;
/// Maximum depth of nested parts in a mail.
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
    #[error("it cannot be unpacked: it has more than {} MB or is not gzip", MAX_BYTES >> 20)]
    Packed,
}

/// The mails of one file, in its order; a text that is not a mail counts as one.
pub fn mails(bytes: &[u8]) -> Result<Vec<Mail>, MailFault> {
    let unpacked = unpacked(bytes)?;
    if unpacked.trim_ascii().is_empty() {
        return Err(MailFault::Empty);
    }
    Ok(messages(&unpacked).iter().map(|message| Mail::read(message)).collect())
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, MailFault> {
    // The magic numbers of xz, Zstandard and bzip2.
    const OTHERS: [&[u8]; 3] = [b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"BZh"];
    if OTHERS.iter().any(|begin| bytes.starts_with(begin)) {
        return Err(MailFault::OtherPacking);
    }
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes.to_vec());
    }
    input::read_all(MultiGzDecoder::new(bytes), MAX_BYTES).map_err(|_| MailFault::Packed)
}

/// The messages of an mbox, without the lines that separate them; another text is one message.
fn messages(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut is_blank = true;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if is_blank && is_separator(&String::from_utf8_lossy(line)) {
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

/// `From a@example.org Thu Jan  1 00:00:00 1970`; a sentence that begins with "From" has no such time.
fn is_separator(line: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = |word: &str| word.contains(':') && word.split(':').all(is_number);
    let is_year = |word: &str| word.len() == 4 && is_number(word);
    let has = |is_it: &dyn Fn(&str) -> bool| line.split_whitespace().skip(2).any(is_it);
    line.starts_with("From ") && has(&is_time) && has(&is_year)
}

/// mboxrd puts one `>` before each line that begins with any number of `>` and `From `.
fn unquoted(line: &[u8]) -> &[u8] {
    let quotes = line.iter().take_while(|byte| **byte == b'>').count();
    if quotes > 0 && line[quotes..].starts_with(b"From ") { &line[1..] } else { line }
}

#[derive(Debug, Default)]
pub struct Mail {
    pub subject: Option<String>,
    pub text: Vec<u8>,
    /// Whether it names an earlier mail, as patches of a series do, too.
    pub follows: bool,
    /// Whether its lines may have been wrapped and its blanks lost: format=flowed.
    pub is_flowed: bool,
}

impl Mail {
    fn read(bytes: &[u8]) -> Mail {
        let Some((headers, body)) = headers(bytes) else {
            return Mail { text: with_newlines(bytes.to_vec()), ..Mail::default() };
        };
        let subject = header(&headers, "subject").map(unencoded);
        let follows = ["in-reply-to", "references"];
        let follows = follows.iter().any(|name| header(&headers, name).is_some());
        let mut is_flowed = false;
        let text = decoded(&headers, body, MAX_DEPTH, &mut is_flowed);
        Mail { subject, text, follows, is_flowed }
    }
}

/// Decodes the encoded words of RFC 2047, such as `=?UTF-8?q?=5BPATCH_1/2=5D?=`. Blanks between two encoded
/// words do not count.
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

/// The text of a body; if it has several parts, those with a diff.
fn decoded(
    fields: &[(String, String)],
    body: &[u8],
    depth: usize,
    is_flowed: &mut bool,
) -> Vec<u8> {
    let kind = header(fields, "content-type").unwrap_or("");
    let is = |name: &str| kind.get(..name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name));
    if let (Some(boundary), true) = (boundary(kind).filter(|_| is("multipart/")), depth > 0) {
        return with_diffs(&parts(body, &boundary), depth, is_flowed);
    }
    if is("text/html") {
        // The other part of the same text.
        return Vec::new();
    }
    *is_flowed |= kind.to_ascii_lowercase().contains("format=flowed");
    let encoding = header(fields, "content-transfer-encoding").unwrap_or("");
    let text = match encoding.to_ascii_lowercase().as_str() {
        "quoted-printable" => quoted_printable(body),
        "base64" => base64(body),
        _ => body.to_vec(),
    };
    match headers(&text).filter(|_| is("message/rfc822") && depth > 0) {
        Some((fields, body)) => decoded(&fields, body, depth - 1, is_flowed),
        None => with_newlines(text),
    }
}

/// Joins the parts that have a diff. A diff that is in the text and also attached is taken once.
fn with_diffs(parts: &[Vec<u8>], depth: usize, is_flowed: &mut bool) -> Vec<u8> {
    let (mut all, mut seen) = (Vec::new(), Vec::new());
    for part in parts {
        // A part without headers begins with an empty line.
        let (headers, body) = headers(part).unwrap_or((Vec::new(), part));
        let mut is_flowed_part = false;
        let text = decoded(&headers, body, depth - 1, &mut is_flowed_part);
        let files = match Patch::parse("", &text) {
            Ok(None) => continue,
            Ok(Some(patch)) => patch.changes(),
            // Parsing the whole mail reports the fault.
            Err(_) => Vec::new(),
        };
        if files.is_empty() || !seen.contains(&files) {
            *is_flowed |= is_flowed_part;
            all.extend(text);
            all.push(b'\n');
            seen.push(files);
        }
    }
    all
}

/// Removes the carriage returns if all lines end in one. If only some lines do, they belong to the file.
fn with_newlines(mut text: Vec<u8>) -> Vec<u8> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    // The last line may have no newline, and a mailbox adds an empty line.
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

/// Text that cannot be decoded is returned unchanged; it has no diff.
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

    use super::super::patch::testing::{diff, message};
    use super::*;

    /// The patch of the first mail.
    fn patch(bytes: &[u8]) -> Patch {
        Patch::parse("x", &mails(bytes).unwrap()[0].text).unwrap().unwrap()
    }

    #[test]
    fn texts_that_cannot_be_read_are_refused() {
        assert_eq!(mails(b" \n").unwrap_err(), MailFault::Empty);
        assert_eq!(mails(b"\xfd7zXZ\0...").unwrap_err(), MailFault::OtherPacking);
    }

    #[test]
    fn messages_begin_with_a_date_and_not_with_a_sentence() {
        let cases = [
            ("From 8c4daea312fb7c Mon Sep 17 00:00:00 2001", 2),
            ("From a@example.org Sun Nov  1 9:05:00 2026 +0100", 2),
            ("From here on a reader of mboxes may stumble", 1),
            ("From 2019 on it was so: nobody looked at it", 1),
            ("From: A <a@example.org>", 1),
        ];
        for (line, expected) in cases {
            let text = message("A", "", &format!("Words.\n\n{line}\nSubject: B\n\nMore."));
            assert_eq!(mails(text.as_bytes()).unwrap().len(), expected, "{line}");
        }
    }

    #[test]
    fn a_mail_that_may_have_lost_blanks_is_known() {
        let flowed = "Content-Type: text/plain; charset=utf-8; Format=Flowed\n";
        let text = diff("f", "a", "b");
        let part = format!("--b1\n{flowed}\n{text}--b1--\n");
        let mixed = "Content-Type: multipart/mixed; boundary=b1\n";
        for (more, body, expected) in
            [("", &text, false), (flowed, &text, true), (mixed, &part, true)]
        {
            let found = mails(message("A", more, body).as_bytes()).unwrap();
            assert_eq!(found[0].is_flowed, expected, "{more}");
        }
    }

    /// Names of files and hunks of a mail with these parts.
    fn attached(kind: &str, parts: &[(&str, &str)]) -> Vec<String> {
        let parts = parts.iter().map(|(headers, body)| format!("--b1\n{headers}\n\n{body}\n"));
        let body = parts.collect::<String>() + "--b1--\n";
        let kind = format!("Content-Type: multipart/{kind}; boundary=b1\n");
        let found = patch(message("A", &kind, &body).as_bytes());
        found.changes().into_iter().flat_map(|(_, hunks)| hunks).collect()
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
        assert_eq!(patch(text.as_bytes()).text, text.as_bytes());
        let found = patch(diff("f", "a", "b").replace('\n', "\r\n").as_bytes());
        assert_eq!(found.text, diff("f", "a", "b").as_bytes());
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
            let found = patch(text.as_bytes());
            let got = String::from_utf8_lossy(&found.text).trim_end().to_string();
            assert_eq!(got, plain.trim_end(), "{text}");
        }
    }

    #[test]
    fn a_bare_diff_is_a_patch_and_a_packed_one_too() {
        let text = diff("f.c", "a", "b");
        assert_eq!(patch(text.as_bytes()).text, text.as_bytes());
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        packer.write_all(text.as_bytes()).unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(patch(&packed).text, text.as_bytes());
        assert_eq!(mails(&packed[..packed.len() / 2]).unwrap_err(), MailFault::Packed);
    }

    #[test]
    fn lines_that_an_mbox_quotes_are_restored() {
        let body = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n>From x\n".replace(">From", " From");
        let text = message("A", "", &format!(">From me\n>>From you\n{body}"));
        let found = patch(text.as_bytes());
        assert!(String::from_utf8_lossy(&found.text).starts_with("From me\n>From you\n"));
    }
}
