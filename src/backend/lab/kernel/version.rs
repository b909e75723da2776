//! The order of Debian's package versions (Debian Policy Manual, 5.6.12). Pure.

use std::cmp::Ordering;

/// `[epoch:]upstream[-revision]`; a missing epoch or revision is 0.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (a_epoch, a_upstream, a_revision) = parts(a);
    let (b_epoch, b_upstream, b_revision) = parts(b);
    let upstream = || compare_part(a_upstream, b_upstream);
    let revision = || compare_part(a_revision, b_revision);
    compare_digits(a_epoch, b_epoch).then_with(upstream).then_with(revision)
}

/// `6.18.15` of `6.18.15-1~bpo13+1`.
pub fn upstream(version: &str) -> &str {
    parts(version).1
}

fn parts(version: &str) -> (&str, &str, &str) {
    let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
    let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, "0"));
    (epoch, upstream, revision)
}

/// Alternates between a part without digits, compared letter by letter, and a number.
fn compare_part(mut a: &str, mut b: &str) -> Ordering {
    while !(a.is_empty() && b.is_empty()) {
        let (a_words, b_words) = (cut(&mut a, false), cut(&mut b, false));
        let (a_digits, b_digits) = (cut(&mut a, true), cut(&mut b, true));
        let order = compare_words(a_words, b_words);
        let order = order.then_with(|| compare_digits(a_digits, b_digits));
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

/// Removes the leading digits, or non-digits, from `text` and returns them.
fn cut<'a>(text: &mut &'a str, digits: bool) -> &'a str {
    let end = text.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(text.len());
    let (taken, rest) = text.split_at(end);
    *text = rest;
    taken
}

/// A tilde sorts before the end, the end before letters, letters before all else.
fn compare_words(a: &str, b: &str) -> Ordering {
    let ranks = |text: &str| -> Vec<(u8, char)> {
        let rank = |c: char| match c {
            '~' => (0, c),
            c if c.is_ascii_alphabetic() => (2, c),
            c => (3, c),
        };
        text.chars().map(rank).chain([(1, ' ')]).collect()
    };
    ranks(a).cmp(&ranks(b))
}

/// Numbers of any length.
fn compare_digits(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row as `dpkg --compare-versions` has it.
    #[test]
    fn versions_are_ordered_as_dpkg_orders_them() {
        use Ordering::{Equal, Greater, Less};
        let cases = [
            ("6.1.176-1", "6.1.164-1", Greater),
            ("6.1.9-1", "6.1.10-1", Less),
            ("6.12.107-1", "6.12.95-1~bpo12+1", Greater),
            ("6.18.15-1~bpo13+1", "6.18.15-1", Less),
            ("6.18.15-1~bpo13+1", "6.18.12-1~bpo13+1", Greater),
            ("6.12.90-2~bpo12+1", "6.12.90-1~bpo12+1", Greater),
            ("6.1.4-1+b1", "6.1.4-1", Greater),
            ("7.3~rc4-1~exp1", "7.3-1", Less),
            ("7.3~rc4-1~exp1", "7.3~rc10-1~exp1", Less),
            ("7.3~~-1", "7.3~-1", Less),
            ("1:1.0-1", "6.18-1", Greater),
            ("0:6.1-1", "6.1-1", Equal),
            ("6.1-0", "6.1", Equal),
            ("6.01-1", "6.1-01", Equal),
            ("6.1a-1", "6.1+-1", Less),
            ("6.1a", "6.1", Greater),
            ("6.1-a-1", "6.1-a-2", Less),
            ("", "6", Less),
            ("99999999999999999999999.1", "99999999999999999999999.2", Less),
        ];
        for (a, b, expected) in cases {
            assert_eq!(compare(a, b), expected, "{a} against {b}");
            assert_eq!(compare(b, a), expected.reverse(), "{b} against {a}");
        }
    }

    #[test]
    fn the_upstream_version_is_what_kernel_developers_call_it() {
        let cases = [
            ("6.18.15-1~bpo13+1", "6.18.15"),
            ("1:6.1.176-1", "6.1.176"),
            ("7.3~rc4-1~exp1", "7.3~rc4"),
            ("6.1", "6.1"),
        ];
        for (version, expected) in cases {
            assert_eq!(upstream(version), expected);
        }
    }
}
