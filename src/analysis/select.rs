//! Which stored runs a side of a comparison is made of.
//!
//! Input: what the user wrote, the heads of stored plans, and the time of asking. Output: for
//! each side its plans and what its runs must be like. Pure.
//!
//! A side is written as terms with commas between: `KEY=VALUE`, or a word alone that is `last`,
//! `last:N`, `all`, or the name of a variant, of a kernel or of a machine, or the beginning of
//! a plan's id. In values `*` stands for anything. `last`, `last:N` and `all` are plans that
//! measured something; those of the null backend are meant only by `backend=null`.

#[cfg(test)]
mod tests;

use crate::model::{PlanHead, Reading, SampledPlan};

/// The variants that a side takes, where it says so.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    /// As a user wrote it: `*` stands for anything.
    Like(String),
    /// As a plan names it: `b*` is a name like any other.
    Named(String),
}

/// A side, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// As the user wrote it.
    pub label: String,
    /// The label with moments in place of `since=7d`.
    fixed: String,
    /// Ids, oldest first.
    pub plans: Vec<String>,
    variant: Option<Wanted>,
    kernel: Option<String>,
    machine: Option<String>,
}

impl Selection {
    /// Whether runs made on a kernel of these names, and on this machine, are of this side.
    pub fn takes(&self, kernels: &[&str], hostname: &str) -> bool {
        let fits = |pattern: &Option<String>, texts: &[&str]| {
            let fits = |pattern: &String| texts.iter().any(|text| matches(pattern, text));
            pattern.as_ref().is_none_or(fits)
        };
        fits(&self.kernel, kernels) && fits(&self.machine, &[hostname])
    }

    /// Whether runs of this variant are of this side.
    pub fn takes_variant(&self, name: &str) -> bool {
        match &self.variant {
            None => true,
            Some(Wanted::Like(pattern)) => matches(pattern, name),
            Some(Wanted::Named(wanted)) => wanted == name,
        }
    }

    /// Whether it takes some variants alone.
    pub fn names_variants(&self) -> bool {
        self.variant.is_some()
    }

    /// Whether it takes some machines alone.
    pub fn names_machines(&self) -> bool {
        self.machine.is_some()
    }

    /// The words that take the same from a store that has got newer plans since: one plan by
    /// its id, several by what was written and a moment just after the newest of them.
    pub fn words(&self, heads: &[PlanHead]) -> String {
        if let [plan] = self.plans.as_slice() {
            let variant = self.variant.as_ref().map(|wanted| match wanted {
                Wanted::Like(text) | Wanted::Named(text) => text,
            });
            let terms = [("variant", variant), ("kernel", self.kernel.as_ref())];
            let terms = terms.into_iter().chain([("machine", self.machine.as_ref())]);
            let terms = terms.filter_map(|(key, value)| Some(format!(",{key}={}", value?)));
            return format!("plan={plan}{}", terms.collect::<String>());
        }
        let newest = self.plans.last().and_then(|id| heads.iter().find(|head| head.id == *id));
        match newest {
            Some(newest) if !self.fixed.contains("until=") => {
                format!("{},until={}", self.fixed, date(newest.started_unix_ns.saturating_add(1)))
            }
            _ => self.fixed.clone(),
        }
    }

    /// Whether both take the same runs, but for the variant.
    pub fn is_of_the_runs_of(&self, other: &Selection) -> bool {
        (&self.plans, &self.kernel, &self.machine) == (&other.plans, &other.kernel, &other.machine)
    }

    /// All of one plan.
    pub fn of_plan(plan: &str) -> Selection {
        let label = plan.to_string();
        let (fixed, plans) = (label.clone(), vec![label.clone()]);
        Selection { label, fixed, plans, variant: None, kernel: None, machine: None }
    }

    /// One variant of one plan.
    pub fn of_variant(plan: &str, variant: &str) -> Selection {
        Selection {
            label: variant.to_string(),
            fixed: variant.to_string(),
            plans: vec![plan.to_string()],
            variant: Some(Wanted::Named(variant.to_string())),
            kernel: None,
            machine: None,
        }
    }
}

/// Why a side means nothing: what was seen, and a hint that ends in a command on stored plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectionError {
    pub message: String,
    pub hint: String,
}

/// What was written for one side.
#[derive(Debug, Clone, Default)]
struct Terms {
    newest: Option<usize>,
    plan: Option<String>,
    variant: Option<String>,
    kernel: Option<String>,
    machine: Option<String>,
    backend: Option<String>,
    tag: Option<String>,
    since_unix_ns: Option<u64>,
    until_unix_ns: Option<u64>,
    /// What was written, with moments in place of relative dates.
    fixed: Vec<String>,
}

const KEYS: &str = "variant, kernel, machine, plan, backend, tag, since, until";

/// The sides that `texts` name, at the time `now_unix_ns`. `heads` are all stored plans, newest
/// first.
pub fn select(
    texts: &[String],
    heads: &[PlanHead],
    now_unix_ns: u64,
) -> Result<Vec<Selection>, SelectionError> {
    if heads.is_empty() {
        return Err(wrong("nothing is stored yet".to_string(), "schedlab run quick"));
    }
    let context = Context { heads, now_unix_ns };
    let terms: Vec<Terms> =
        texts.iter().map(|text| read(text, &context)).collect::<Result<_, _>>()?;
    // Sides that are variants and nothing else are of one plan: the newest that has them all,
    // of those that measured something where there is such a one.
    let variants: Vec<&str> = terms
        .iter()
        .filter(|terms| terms.is_variant())
        .filter_map(|t| t.variant.as_deref())
        .collect();
    let has_all = |head: &&PlanHead| {
        variants.iter().all(|variant| head.variants.iter().any(|name| matches(variant, name)))
    };
    let measured = heads.iter().filter(|head| head.is_measured()).find(has_all);
    let common = measured.or_else(|| heads.iter().find(has_all));
    let sides = texts.iter().zip(&terms);
    sides.map(|(text, terms)| selection(text, terms, heads, common)).collect()
}

/// The newest plan that measured something on a real backend; `heads` newest first.
pub fn last(heads: &[PlanHead]) -> Result<&PlanHead, SelectionError> {
    heads.iter().find(|head| head.is_measured()).ok_or_else(|| nothing_measured(heads))
}

/// The one plan that `text` names: `last`, an id, or the beginning of one alone.
pub fn plan<'h>(text: &str, heads: &'h [PlanHead]) -> Result<&'h PlanHead, SelectionError> {
    if text == "last" {
        return last(heads);
    }
    if let Some(head) = heads.iter().find(|head| head.id == text) {
        return Ok(head);
    }
    let found: Vec<&PlanHead> = heads.iter().filter(|head| head.id.starts_with(text)).collect();
    let shown = text.escape_default();
    match found.as_slice() {
        [head] if !text.is_empty() => Ok(head),
        [] => {
            let near = nearest(text, heads.iter().map(|head| head.id.as_str()));
            Err(wrong(format!("no stored plan's id begins with `{shown}`"), &listed(near)))
        }
        many => {
            let message = format!("the ids of {} stored plans begin with `{shown}`", many.len());
            Err(wrong(message, "schedlab list runs"))
        }
    }
}

fn nothing_measured(heads: &[PlanHead]) -> SelectionError {
    match heads.is_empty() {
        true => wrong("nothing is stored yet".to_string(), "schedlab run quick"),
        false => wrong(
            "no stored plan has measured anything on a real backend, so none is `last`".to_string(),
            "name a plan by its id: schedlab list runs",
        ),
    }
}

/// The command that lists what there is, and before it the name that may be meant.
fn listed(near: Option<&str>) -> String {
    let near = near.map(|near| format!("did you mean `{}`? ", near.escape_default()));
    format!("{}schedlab list runs", near.unwrap_or_default())
}

/// The known word that `word` is a slip of, if there is one.
fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let word = word.to_lowercase();
    known
        // Far words are not compared: the distance takes the product of both lengths.
        .filter(|known| word.len() <= 4 * known.len() && known.len() <= 4 * word.len())
        .map(|known| (strsim::osa_distance(&word, &known.to_lowercase()), known))
        .filter(|(distance, known)| *distance <= (known.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// What a side is read by.
struct Context<'a> {
    heads: &'a [PlanHead],
    now_unix_ns: u64,
}

fn selection(
    text: &str,
    terms: &Terms,
    heads: &[PlanHead],
    common: Option<&PlanHead>,
) -> Result<Selection, SelectionError> {
    let shown = text.escape_default();
    let plans: Vec<String> = if terms.is_variant() {
        let Some(head) = common else {
            let message = format!("no stored plan has `{shown}` together with the other variants");
            return Err(wrong(message, "schedlab list runs"));
        };
        vec![head.id.clone()]
    } else {
        let newest = heads.iter().filter(|head| terms.take(head)).map(|head| head.id.clone());
        let mut plans: Vec<String> = newest.take(terms.newest.unwrap_or(usize::MAX)).collect();
        plans.reverse();
        plans
    };
    if plans.is_empty() {
        return Err(match text {
            "last" | "all" => nothing_measured(heads),
            _ => wrong(format!("no stored plan is `{shown}`"), "schedlab list runs"),
        });
    }
    Ok(Selection {
        label: text.to_string(),
        fixed: terms.fixed.join(","),
        plans,
        variant: terms.variant.clone().map(Wanted::Like),
        kernel: terms.kernel.clone(),
        machine: terms.machine.clone(),
    })
}

impl Terms {
    /// Adds a further term; fails with what would be there twice.
    fn add(&mut self, more: Terms) -> Result<(), &'static str> {
        fill(&mut self.newest, more.newest, "plans")?;
        fill(&mut self.plan, more.plan, "plan")?;
        fill(&mut self.variant, more.variant, "variant")?;
        fill(&mut self.kernel, more.kernel, "kernel")?;
        fill(&mut self.machine, more.machine, "machine")?;
        fill(&mut self.backend, more.backend, "backend")?;
        fill(&mut self.tag, more.tag, "tag")?;
        fill(&mut self.since_unix_ns, more.since_unix_ns, "since")?;
        fill(&mut self.until_unix_ns, more.until_unix_ns, "until")
    }

    /// Nothing but a variant.
    fn is_variant(&self) -> bool {
        let texts = [&self.plan, &self.kernel, &self.machine, &self.backend, &self.tag];
        self.variant.is_some()
            && self.newest.is_none()
            && texts.iter().all(|term| term.is_none())
            && self.since_unix_ns.or(self.until_unix_ns).is_none()
    }

    /// Whether the plan may count among the last: one that measured something, and on a real
    /// backend unless another was asked for.
    fn may_be_last(&self, head: &PlanHead) -> bool {
        head.is_measured() || (self.backend.is_some() && head.runs.done > 0)
    }

    fn take(&self, head: &PlanHead) -> bool {
        let is = |pattern: &Option<String>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| matches(pattern, text))
        };
        let started = head.started_unix_ns;
        (self.newest.is_none() || self.may_be_last(head))
            && self.plan.as_ref().is_none_or(|plan| begins(plan, &head.id))
            && is(&self.backend, &head.backend)
            && (self.tag.is_none() || head.tags.iter().any(|name| is(&self.tag, name)))
            && self.since_unix_ns.is_none_or(|since| started >= since)
            && self.until_unix_ns.is_none_or(|until| started < until)
            && (self.variant.is_none() || head.variants.iter().any(|name| is(&self.variant, name)))
            && head.environments.iter().any(|environment| {
                let kernel = &environment.kernel_release;
                let fits = match head.backend == SampledPlan::LAB {
                    true => self.kernel.as_ref().is_none_or(|wanted| may_be_of(wanted, kernel)),
                    false => is(&self.kernel, kernel),
                };
                fits && is(&self.machine, &environment.hostname)
            })
    }
}

/// Whether a plan in the lab may have runs on such a kernel: its head knows the names that were asked
/// for, its runs what was booted.
fn may_be_of(wanted: &str, asked: &str) -> bool {
    let is_name = |name| matches(wanted, name) || matches(wanted, without_maker(name));
    let may_be_release = wanted.starts_with(|first: char| first == '*' || first.is_ascii_digit());
    asked.split(", ").any(is_name) || may_be_release
}

/// `6.1` of `debian:6.1`.
pub fn without_maker(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, version)| version)
}

fn read(text: &str, context: &Context) -> Result<Terms, SelectionError> {
    let mut all = Terms::default();
    for term in text.split(',').map(str::trim) {
        let mut terms = Terms::default();
        match term.split_once('=') {
            Some((key, value)) => {
                put(&mut terms, key.trim(), value.trim(), context.now_unix_ns)?;
            }
            None => put_word(&mut terms, term, context.heads)?,
        }
        let is_relative = term.split_once('=').is_some_and(|(_, date)| absolute(date).is_none());
        let since = terms.since_unix_ns.map(|moment| format!("since={}", date(moment)));
        let until = terms.until_unix_ns.map(|moment| format!("until={}", date(moment)));
        let fixed = since.or(until).filter(|_| is_relative);
        all.fixed.push(fixed.unwrap_or_else(|| term.to_string()));
        all.add(terms).map_err(|what| {
            let message = format!("`{}` names its {what} twice", text.escape_default());
            wrong(message, "schedlab compare default batch")
        })?;
    }
    Ok(all)
}

/// Puts `more` where nothing is yet.
fn fill<T>(slot: &mut Option<T>, more: Option<T>, what: &'static str) -> Result<(), &'static str> {
    if slot.is_some() && more.is_some() {
        return Err(what);
    }
    *slot = more.or(slot.take());
    Ok(())
}

fn put(terms: &mut Terms, key: &str, value: &str, now_unix_ns: u64) -> Result<(), SelectionError> {
    let shown = value.escape_default();
    if value.is_empty() {
        let message = format!("`{}=` names nothing", key.escape_default());
        return Err(wrong(message, "schedlab compare default batch"));
    }
    let slot = match key {
        "variant" => &mut terms.variant,
        "kernel" => &mut terms.kernel,
        "machine" => &mut terms.machine,
        "backend" => &mut terms.backend,
        "tag" => &mut terms.tag,
        "plan" => match newest(value)? {
            Some(count) => {
                terms.newest = Some(count);
                return Ok(());
            }
            None => &mut terms.plan,
        },
        "since" | "until" => {
            let moment = moment(value, now_unix_ns).ok_or_else(|| {
                let message = format!("`{key}={shown}` is no date");
                let dates = "today, yesterday, 2h, 7d, 2w, 2026-11-01 or 2026-11-01T12:00:00";
                wrong(message, &format!("{dates}: schedlab list runs --since 7d"))
            })?;
            let slot =
                if key == "since" { &mut terms.since_unix_ns } else { &mut terms.until_unix_ns };
            *slot = Some(moment);
            return Ok(());
        }
        _ => {
            let message = format!("`{}` is none of {KEYS}", key.escape_default());
            return Err(wrong(message, "schedlab compare kernel=6.1.* kernel=6.12.*"));
        }
    };
    *slot = Some(value.to_string());
    Ok(())
}

/// A word alone, by what the stored plans have of that name.
fn put_word(terms: &mut Terms, word: &str, heads: &[PlanHead]) -> Result<(), SelectionError> {
    if let Some(count) = newest(word)? {
        terms.newest = Some(count);
        return Ok(());
    }
    let any = |has: &dyn Fn(&PlanHead) -> bool| !word.is_empty() && heads.iter().any(has);
    let word_is = |text: &str| matches(word, text);
    let slot = if any(&|head| head.variants.iter().any(|name| word_is(name))) {
        &mut terms.variant
    } else if any(&|head| head.environments.iter().any(|of| word_is(&of.kernel_release))) {
        &mut terms.kernel
    } else if any(&|head| head.environments.iter().any(|of| word_is(&of.hostname))) {
        &mut terms.machine
    } else if any(&|head| begins(word, &head.id)) {
        &mut terms.plan
    } else {
        let shown = word.escape_default();
        let message = format!("no stored plan has a variant, kernel, machine or id `{shown}`");
        return Err(wrong(message, &listed(nearest(word, names(heads)))));
    };
    *slot = Some(word.to_string());
    Ok(())
}

/// All that a word alone can name.
fn names(heads: &[PlanHead]) -> impl Iterator<Item = &str> {
    heads.iter().flat_map(|head| {
        let environments = head.environments.iter();
        let places = environments.flat_map(|of| [of.kernel_release.as_str(), of.hostname.as_str()]);
        let variants = head.variants.iter().map(String::as_str);
        variants.chain(places).chain([head.id.as_str()])
    })
}

/// How many of the newest plans; `None` where the word says nothing of it.
fn newest(word: &str) -> Result<Option<usize>, SelectionError> {
    match word {
        "last" => return Ok(Some(1)),
        "all" => return Ok(Some(usize::MAX)),
        _ => {}
    }
    let Some(count) = word.strip_prefix("last:") else { return Ok(None) };
    match count.parse() {
        Ok(count @ 1..) => Ok(Some(count)),
        _ => {
            let message = format!("`last:{}` names no number of plans", count.escape_default());
            Err(wrong(message, "schedlab compare last --against last:10"))
        }
    }
}

/// A time before now (`2h`, `7d`), the beginning of a day (`today`, `2026-11-01`), or a moment of
/// one; in UTC.
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
    u64::try_from(zoned.timestamp().as_nanosecond()).ok()
}

/// As [`moment`] reads it.
fn date(unix_ns: u64) -> String {
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

fn begins(pattern: &str, id: &str) -> bool {
    matches(&format!("{pattern}*"), id)
}

fn wrong(message: String, hint: &str) -> SelectionError {
    SelectionError { message, hint: hint.to_string() }
}

/// Boots of a plan's environments, `None` where one does not know.
pub fn boot_of(boot_id: &Reading<String>) -> Option<&str> {
    match boot_id {
        Reading::Known(id) => Some(id),
        Reading::Unknown(_) => None,
    }
}
