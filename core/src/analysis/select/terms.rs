//! The terms of a selection: how they are read, which plans fit them, and what is wrong with them.
//!
//! Input: what the user wrote, the heads of what is stored, and the time of asking. Pure.

use std::collections::BTreeMap;

use super::super::lists::once;
use crate::model::{EnvironmentHead, PlanHead, SampledPlan, ValueError, clean, mistyped};

/// Ids or names that a message has.
pub const MAX_NAMED: usize = 5;

/// In nanoseconds; messages have no moments that are finer.
const S: u64 = 1_000_000_000;

/// The terms that the user wrote for one side.
#[derive(Debug, Default)]
pub struct Terms {
    /// How many of the newest plans.
    pub newest: Option<usize>,
    /// By key; `*` stands for anything.
    pub patterns: BTreeMap<&'static str, String>,
    /// `since` and `until`, in Unix nanoseconds.
    pub moments: BTreeMap<&'static str, u64>,
    /// The terms as written, with moments in place of relative dates.
    pub fixed: Vec<String>,
}

/// The terms as completions show them.
pub const TERMS: [&str; 12] = [
    LAST, "last:", ALL, "variant=", "kernel=", "machine=", "plan=", "backend=", "tag=", "title=",
    "since=", "until=",
];

pub const LAST: &str = "last";

const ALL: &str = "all";

/// The keys that a bare word is tried as; the first that fits counts.
const KEYS_OF_WORDS: [&str; 5] = ["variant", "kernel", "machine", "tag", "plan"];

/// In place of a score's backend.
pub const SCORE: &str = "score";

/// The term that a text may mean which is none: `last:3` of `lst:3`, `tag=x` of `tga=x`.
pub fn near_term(text: &str) -> Option<String> {
    let end_of_key = text.find(['=', ':']).map_or(text.len(), |at| at + 1);
    let (key, value) = text.split_at(end_of_key);
    let has_end = |text: &str| text.ends_with(['=', ':']);
    let terms = TERMS.into_iter().filter(|term| has_end(term) == has_end(key));
    mistyped(key, terms).map(|term| format!("{term}{value}"))
}

fn keys() -> impl Iterator<Item = &'static str> + Clone {
    TERMS.iter().filter_map(|term| term.strip_suffix('='))
}

fn is_key(word: &str) -> bool {
    keys().any(|key| key == word.trim())
}

/// Whether the text begins as a selection of what is stored, and as no name of a plan or a file.
pub fn is_selection(text: &str) -> bool {
    let first = text.split(',').next().unwrap_or_default().trim();
    first == LAST
        || first == ALL
        || first.starts_with("last:")
        || first.split_once('=').is_some_and(|(key, _)| is_key(key))
}

pub fn is_of_scores(heads: &[PlanHead]) -> bool {
    heads.first().is_some_and(|head| head.backend == SCORE)
}

/// The command that lists what there is.
pub fn list(heads: &[PlanHead]) -> &'static str {
    if is_of_scores(heads) { "schedlab list scores" } else { "schedlab list runs" }
}

/// The command that lists what there is, and before it the name that may be meant, else names under these keys.
pub fn listed(near: Option<&str>, keys: &[&str], heads: &[PlanHead]) -> String {
    let near = near.map(|near| format!("did you mean `{}`? ", clean(near)));
    format!("{}{}", near.unwrap_or_else(|| existing(keys, heads)), list(heads))
}

/// `stored: variant default, batch; kernel 6.12.1; `, those of the newest plans; empty without any.
fn existing(keys: &[&str], heads: &[PlanHead]) -> String {
    let of_key = |key: &&str| {
        let mut found: Vec<&str> = Vec::new();
        all_names(key, heads).for_each(|name| once(&mut found, name));
        let more = if found.len() > MAX_NAMED { ", ..." } else { "" };
        let shown = found.iter().take(MAX_NAMED).map(|name| {
            let is_plain = !name.contains([',', ';']);
            if is_plain { clean(name) } else { format!("`{}`", clean(name)) }
        });
        let shown: Vec<String> = shown.collect();
        (!found.is_empty()).then(|| format!("{key} {}{more}", shown.join(", ")))
    };
    let all: Vec<String> = keys.iter().filter_map(of_key).collect();
    if all.is_empty() { String::new() } else { format!("stored: {}; ", all.join("; ")) }
}

impl Terms {
    pub fn read(text: &str, heads: &[PlanHead], now_unix_ns: u64) -> Result<Terms, ValueError> {
        let mut terms = Terms::default();
        for term in split(text, heads) {
            let (key, value) = match term.split_once('=') {
                // Names come with imports, too: none may stand for the id or the tag of another plan.
                Some((key, _)) if !is_key(key) && is_variant(term, heads) => ("variant", term),
                Some((key, value)) => (key_of(key.trim(), value.trim(), heads)?, value.trim()),
                None => (key_of_word(term, heads)?, term),
            };
            let mut fixed = term.to_string();
            let newest = if key == "plan" { newest(value)? } else { None };
            let twice = match (key, newest) {
                (_, Some(count)) => terms.newest.replace(count).map(|_| "plans"),
                ("since" | "until", _) => {
                    let moment = moment(value, now_unix_ns).ok_or_else(|| no_date(key, value))?;
                    if absolute(value).is_none() {
                        fixed = format!("{key}={}", date(moment));
                    }
                    if key == "since" && moment > now_unix_ns {
                        let message = format!("`{key}={}` lies in the future", clean(value));
                        return Err(wrong(
                            message,
                            &format!(
                                "it is {} UTC: {}",
                                date(now_unix_ns - now_unix_ns % S),
                                list(heads)
                            ),
                        ));
                    }
                    terms.moments.insert(key, moment).map(|_| key)
                }
                ("plan", _) => {
                    // The whole id of one may be the beginning of another's.
                    let is_whole = heads.iter().any(|head| head.id == value);
                    let any = if is_whole { "" } else { "*" };
                    terms.patterns.insert(key, format!("{value}{any}")).map(|_| key)
                }
                _ => terms.patterns.insert(key, value.to_string()).map(|_| key),
            };
            if let Some(what) = twice {
                let message = format!("`{}` names its {what} twice", clean(text));
                return Err(wrong(
                    message,
                    &format!("name it once, or separate sides: {}", list(heads)),
                ));
            }
            terms.fixed.push(fixed);
        }
        let moment = |key| terms.moments.get(key).copied();
        if let (Some(since), Some(until)) = (moment("since"), moment("until"))
            && since >= until
        {
            let [since, until] = [since, until].map(|moment| date(moment - moment % S));
            let message =
                format!("`{}` leaves no time: since {since}, until {until} UTC", clean(text));
            let hint = "`until` has to be the later one: schedlab list runs";
            return Err(wrong(message, hint));
        }
        Ok(terms)
    }

    pub fn name_several(&self) -> bool {
        let has = |key: &str| self.patterns.contains_key(key);
        !self.moments.is_empty() || has("tag") || has("title")
    }

    /// Nothing but a variant.
    pub fn is_variant(&self) -> bool {
        self.patterns.keys().eq(&["variant"]) && self.newest.is_none() && self.moments.is_empty()
    }

    /// Whether the plan has a name that was asked for under this key.
    pub fn fit(&self, key: &str, head: &PlanHead) -> bool {
        let is = |pattern: &String| names(key, head).any(|name| fits(key, pattern, name));
        self.patterns.get(key).is_none_or(is)
    }

    pub fn take(&self, head: &PlanHead) -> bool {
        // The last plans measured something, on a real backend unless another was asked for.
        let is_asked = self.patterns.contains_key("backend");
        let is_score = head.backend == SCORE;
        let may_be_last = head.is_measured() || is_score || (is_asked && head.runs.done > 0);
        (self.newest.is_none() || may_be_last) && self.fit_all(head)
    }

    /// Whether the plan is as all terms say, but for `last`.
    pub fn fit_all(&self, head: &PlanHead) -> bool {
        let started = head.started_unix_ns;
        ["plan", "backend", "tag", "title", "variant"].iter().all(|key| self.fit(key, head))
            && self.moments.get("since").is_none_or(|since| started >= *since)
            && self.moments.get("until").is_none_or(|until| started < *until)
            && head.environments.iter().any(|environment| {
                let is_of =
                    |wanted: &String| kernels(head, environment).any(|name| matches(wanted, name));
                let is_on = |wanted: &String| matches(wanted, &environment.hostname);
                self.patterns.get("kernel").is_none_or(is_of)
                    && self.patterns.get("machine").is_none_or(is_on)
            })
    }
}

/// The terms of a side. Its last one may be the name of a variant that has commas itself, as
/// `pinned affinity=0,2`.
fn split<'t>(text: &'t str, heads: &[PlanHead]) -> Vec<&'t str> {
    let commas = text.match_indices(',').map(|(at, _)| at);
    for from in std::iter::once(0).chain(commas.map(|at| at + 1)) {
        let last = text[from..].trim();
        if is_variant(last.strip_prefix("variant=").unwrap_or(last), heads) {
            let before = text[..from].trim_end_matches(',').split(',').map(str::trim);
            return before.filter(|_| from > 0).chain([last]).collect();
        }
    }
    text.split(',').map(str::trim).collect()
}

/// Whether a stored plan has a variant of exactly this name.
fn is_variant(name: &str, heads: &[PlanHead]) -> bool {
    heads.iter().any(|head| head.variants.iter().any(|variant| variant == name))
}

/// The names of a plan under a key.
fn names<'h>(key: &str, head: &'h PlanHead) -> std::vec::IntoIter<&'h str> {
    let environments = head.environments.iter();
    let names: Vec<&String> = match key {
        "kernel" => {
            return environments.flat_map(|of| kernels(head, of)).collect::<Vec<_>>().into_iter();
        }
        "variant" => head.variants.iter().collect(),
        "machine" => environments.map(|of| &of.hostname).collect(),
        "backend" => vec![&head.backend],
        "tag" => head.tags.iter().collect(),
        "title" => vec![&head.title],
        _ => vec![&head.id],
    };
    names.into_iter().map(String::as_str).collect::<Vec<_>>().into_iter()
}

/// The names under a key that are not empty, of all plans.
pub fn all_names<'h>(key: &str, heads: &'h [PlanHead]) -> impl Iterator<Item = &'h str> + use<'h> {
    let key = key.to_string();
    heads.iter().flat_map(move |head| names(&key, head)).filter(|name| !name.is_empty())
}

/// The names of the kernels of a plan in this environment. In the lab these are the ones that were asked for,
/// with and without their maker, and the ones that booted.
fn kernels<'h>(
    head: &'h PlanHead,
    environment: &'h EnvironmentHead,
) -> impl Iterator<Item = &'h str> {
    let own = environment.kernel_release.as_str();
    let asked: Vec<&str> = if head.backend == SampledPlan::LAB {
        own.split(", ").flat_map(|name| [name, without_maker(name)]).collect()
    } else {
        vec![own]
    };
    asked.into_iter().chain(head.booted.iter().map(String::as_str))
}

/// A title may be named by any part of it, in any case.
pub fn fits(key: &str, pattern: &str, name: &str) -> bool {
    match key {
        "title" => matches(&format!("*{}*", pattern.to_lowercase()), &name.to_lowercase()),
        _ => matches(pattern, name),
    }
}

/// `6.1` of `debian:6.1`.
pub fn without_maker(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, version)| version)
}

fn key_of(word: &str, value: &str, heads: &[PlanHead]) -> Result<&'static str, ValueError> {
    if value.is_empty() {
        let message = format!("`{}=` names nothing", clean(word));
        return Err(wrong(message, list(heads)));
    }
    if word == SCORE && !is_of_scores(heads) {
        let message = format!("`{SCORE}={}` is a score, and stored plans are wanted", clean(value));
        return Err(wrong(message, &format!("schedlab show '{SCORE}={}'", clean(value))));
    }
    keys().find(|key| *key == word).ok_or_else(|| {
        let known = keys().collect::<Vec<_>>().join(", ");
        let message = format!("`{}` is none of {known}", clean(word));
        let near = near_term(&format!("{word}={value}"));
        wrong(message, &listed(near.as_deref(), &[], heads))
    })
}

fn no_date(key: &str, value: &str) -> ValueError {
    let message = format!("`{key}={}` is not a date", clean(value));
    // It may be meant for months, which have no length.
    let minutes = value.strip_suffix('m').filter(|count| count.parse::<u64>().is_ok());
    let near = minutes.map(|count| format!("minutes are `{key}={count}min`, months dates; "));
    let dates = "today, yesterday, 10min, 2h, 7d, 2w, 2026-11-01 or 2026-11-01T12:00:00";
    let near = near.unwrap_or_default();
    wrong(message, &format!("{near}{dates}: schedlab list runs since=7d"))
}

/// Finds the key of a bare word, by the names in the stored plans.
fn key_of_word(word: &str, heads: &[PlanHead]) -> Result<&'static str, ValueError> {
    let is_id = heads.iter().any(|head| head.id == word);
    if is_id || newest(word)?.is_some() {
        return Ok("plan");
    }
    let is_of = |key: &str, head: &PlanHead| {
        let is_it = |name: &str| fits(key, word, name) || (key == "plan" && name.starts_with(word));
        names(key, head).any(is_it)
    };
    let has = |key: &&str| !word.is_empty() && heads.iter().any(|head| is_of(key, head));
    KEYS_OF_WORDS.into_iter().find(has).ok_or_else(|| {
        let shown = clean(word);
        let what = if is_of_scores(heads) { "score" } else { "plan" };
        let keys = if what == "score" { "" } else { "variant, " };
        let message = format!("no stored {what} has a {keys}kernel, machine, tag or id `{shown}`");
        let mut names = KEYS_OF_WORDS.iter().flat_map(|key| all_names(key, heads));
        let near = mistyped(word, &mut names).map(str::to_string).or_else(|| near_term(word));
        wrong(message, &listed(near.as_deref(), &["variant", "kernel"], heads))
    })
}

/// How many of the newest plans; `None` where the word says nothing of it.
fn newest(word: &str) -> Result<Option<usize>, ValueError> {
    match word {
        LAST => return Ok(Some(1)),
        ALL => return Ok(Some(usize::MAX)),
        _ => {}
    }
    let Some(count) = word.strip_prefix("last:") else { return Ok(None) };
    match count.parse() {
        Ok(count @ 1..) => Ok(Some(count)),
        _ => {
            let message = format!("`last:{}` names no number of plans", clean(count));
            Err(wrong(message, "`last:1` is the newest: schedlab list runs last:10"))
        }
    }
}

/// A time before now (`2h`), the beginning of a day (`today`, `2026-11-01`), or a moment, in UTC.
pub fn moment(text: &str, now_unix_ns: u64) -> Option<u64> {
    const DAY_NS: u64 = 86_400_000_000_000;
    let today = now_unix_ns - now_unix_ns % DAY_NS;
    match text {
        "now" => return Some(now_unix_ns),
        "today" => return Some(today),
        "yesterday" => return Some(today.saturating_sub(DAY_NS)),
        _ => {}
    }
    let units = [("min", DAY_NS / 1440), ("h", DAY_NS / 24), ("d", DAY_NS), ("w", 7 * DAY_NS)];
    for (unit, unit_ns) in units {
        if let Some(Ok(count)) = text.strip_suffix(unit).map(str::parse::<u64>) {
            return Some(now_unix_ns.saturating_sub(count.checked_mul(unit_ns)?));
        }
    }
    absolute(text)
}

fn absolute(text: &str) -> Option<u64> {
    let moment: jiff::civil::DateTime =
        text.parse().ok().or_else(|| text.parse::<jiff::civil::Date>().ok().map(Into::into))?;
    let zoned = moment.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    let unix_ns = zoned.timestamp().as_nanosecond();
    // One that is too late to count lies in the future as well.
    (unix_ns >= 0).then(|| u64::try_from(unix_ns).unwrap_or(u64::MAX))
}

/// As [`moment`] reads it.
pub fn date(unix_ns: u64) -> String {
    let moment = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    moment.to_zoned(jiff::tz::TimeZone::UTC).datetime().to_string()
}

/// Whether `pattern`, in which `*` stands for anything, is all of `text`.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The first place of each part leaves the most for the parts after it.
    for part in middle.split('*') {
        let Some((_, after)) = text.split_once(part) else { return false };
        text = after;
    }
    text.ends_with(tail)
}

/// `hint` ends in a command on stored plans.
pub fn wrong(message: String, hint: &str) -> ValueError {
    ValueError { message, hint: hint.to_string() }
}
