//! Parts of a plan, each run by itself and joined afterwards, and the runs of each. Pure.
//!
//! A part is a function of the plan, its seed and two numbers, so every machine that reads the same plan divides it
//! in the same way, and the one that joins the parts can name the missing ones.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::clean;
use super::{Plan, RunKey, Value, ValueError, Variant};

/// The largest number of parts of a plan.
pub const MAX_PARTS: u32 = 100_000;
/// Characters of the plan's digest in ids.
const ID_DIGITS: usize = 12;
/// The knobs of a variant that its guests are booted with.
const OF_A_BOOT: [&str; 4] = ["kernel", "kernel-args", "xen-args", "scx"];

/// `3/16`: the third of sixteen parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shard {
    /// The number of the part, from 1.
    pub part: u32,
    pub parts: u32,
}

impl Shard {
    pub fn parse(text: &str) -> Result<Shard, ValueError> {
        let number = |text: &str| {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| is_plain)
        };
        let shown = clean(text);
        let pair = text.split_once('/').and_then(|(part, parts)| number(part).zip(number(parts)));
        let Some((part, parts)) = pair else {
            let message = format!("`{shown}` is not PART/PARTS");
            return Err(ValueError { message, hint: "the third of 16 parts: 3/16".to_string() });
        };
        if !(1..=MAX_PARTS).contains(&parts) {
            let message = format!("`{shown}`: a plan is cut in 1 to {MAX_PARTS} parts");
            return Err(ValueError { message, hint: "the third of 16 parts: 3/16".to_string() });
        }
        if !(1..=parts).contains(&part) {
            let message = format!("`{shown}`: of {parts} parts there is none with number {part}");
            return Err(ValueError { message, hint: format!("1/{parts} to {parts}/{parts}") });
        }
        Ok(Shard { part, parts })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.parts)
    }
}

/// The division of which a stored plan is a part, or whose parts are joined in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharding {
    /// The digest of the data that all parts have in common, in hexadecimal digits.
    pub plan: String,
    pub parts: u32,
    /// From 1; `None`: parts were joined in it, and it may lack some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    pub cut: Cut,
}

/// A part that lacks runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MissingPart {
    pub shard: Shard,
    /// Runs that are missing.
    pub lacks: u64,
    pub planned: u64,
}

impl fmt::Display for MissingPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MissingPart { shard, lacks, planned } = self;
        match (lacks == planned, planned) {
            (true, 1) => write!(f, "part {shard}, 1 run"),
            (true, _) => write!(f, "part {shard}, {lacks} runs"),
            (false, _) => write!(f, "part {shard}, {lacks} of {planned} runs"),
        }
    }
}

/// The runs that stay together in a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// Whole rounds: values that are compared pair by pair are measured by one machine, one after the other.
    Rounds,
    /// Cells whose guests are booted alike, each with all of its rounds: a part boots few machines.
    Boots,
}

impl Sharding {
    /// `None` where parts are joined.
    pub fn shard(&self) -> Option<Shard> {
        self.part.map(|part| Shard { part, parts: self.parts })
    }

    /// The id of the plan that the parts are joined in.
    pub fn whole_id(&self) -> String {
        format!("parts-{}", self.plan.get(..ID_DIGITS).unwrap_or(&self.plan))
    }

    /// The id of the plan that has this; the same in every store.
    pub fn id(&self) -> String {
        let of = self.shard().map(|Shard { part, parts }| format!("-{part}of{parts}"));
        self.whole_id() + of.as_deref().unwrap_or_default()
    }

    /// Whether a program of ours could have written it.
    pub fn is_sound(&self) -> bool {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        self.plan.len() == 64
            && self.plan.bytes().all(is_digit)
            && (1..=MAX_PARTS).contains(&self.parts)
            && self.part.is_none_or(|part| (1..=self.parts).contains(&part))
    }

    /// The runs of each part of this plan.
    pub fn division(&self, plan: &Plan) -> Division {
        let Sharding { parts, cut, .. } = *self;
        let cells = by_boot(plan);
        let mut places = vec![0; cells.len()];
        for (place, cell) in cells.iter().enumerate() {
            places[*cell as usize] = place as u32;
        }
        Division { parts: parts.max(1), cut, rounds: plan.measure.rounds, cells, places }
    }
}

/// The runs of each part. Numbers of parts are from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    parts: u32,
    pub cut: Cut,
    rounds: u32,
    /// All cells, with those of the same boot next to each other.
    cells: Vec<u32>,
    /// The place of each cell in `cells`.
    places: Vec<u32>,
}

impl Division {
    /// The part of a run; `None`: it is not a run of the plan. A round that is measured again, beyond those that
    /// the plan asks for, has a part as well where rounds stay together.
    pub fn part_of(&self, key: RunKey) -> Option<u32> {
        let place = *self.places.get(key.cell as usize)?;
        match self.cut {
            Cut::Rounds => Some(key.round % self.parts + 1),
            Cut::Boots if key.round < self.rounds => {
                let at = u64::from(place) * u64::from(self.rounds) + u64::from(key.round);
                Some((at * u64::from(self.parts) / self.runs()) as u32 + 1)
            }
            Cut::Boots => None,
        }
    }

    /// The parts that lack runs where these are there, each of them once.
    pub fn missing(&self, there: impl IntoIterator<Item = RunKey>) -> Vec<MissingPart> {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        let asked = there.into_iter().filter(|key| key.round < self.rounds);
        asked.filter_map(|key| self.part_of(key)).for_each(|part| {
            *counts.entry(part).or_default() += 1;
        });
        let missing = (1..=self.parts).filter_map(|part| {
            let planned = self.runs_of(part);
            let lacks = planned.saturating_sub(counts.get(&part).copied().unwrap_or_default());
            let shard = Shard { part, parts: self.parts };
            (lacks > 0).then_some(MissingPart { shard, lacks, planned })
        });
        missing.collect()
    }

    /// Runs that the plan's rounds ask for.
    pub fn runs(&self) -> u64 {
        u64::from(self.rounds) * self.cells.len() as u64
    }

    /// The runs of one part.
    pub fn runs_of(&self, part: u32) -> u64 {
        match self.cut {
            Cut::Rounds => u64::from(self.rounds_of(part)) * self.cells.len() as u64,
            Cut::Boots => {
                let range = self.range(part);
                range.end.saturating_sub(range.start)
            }
        }
    }

    /// Rounds of a part that has whole ones.
    pub fn rounds_of(&self, part: u32) -> u32 {
        self.rounds.saturating_sub(part.saturating_sub(1)).div_ceil(self.parts)
    }

    /// The round of the whole plan that a part's own one is.
    pub fn round(&self, part: u32, own: u32) -> u32 {
        own.saturating_mul(self.parts).saturating_add(part.saturating_sub(1))
    }

    /// The runs of a part in the order of their boots, from one of them on.
    pub fn runs_from(&self, part: u32, first: u64) -> impl Iterator<Item = RunKey> {
        let range = self.range(part);
        let rounds = u64::from(self.rounds.max(1));
        (range.start.saturating_add(first)..range.end).map(move |at| RunKey {
            round: (at % rounds) as u32,
            cell: self.cells[(at / rounds) as usize],
        })
    }

    fn range(&self, part: u32) -> Range<u64> {
        let begin = |part: u32| (u64::from(part) * self.runs()).div_ceil(u64::from(self.parts));
        begin(part.saturating_sub(1))..begin(part.min(self.parts))
    }
}

/// The cells of a plan, those of one boot next to each other.
fn by_boot(plan: &Plan) -> Vec<u32> {
    let boot = |variant: &Variant| -> Vec<Option<Value>> {
        OF_A_BOOT.iter().map(|knob| variant.knobs.get(*knob).cloned()).collect()
    };
    let boots: Vec<_> = plan.variants.iter().map(boot).collect();
    let first = |variant: usize| boots.iter().position(|boot| *boot == boots[variant]);
    let groups: Vec<Option<usize>> = (0..boots.len()).map(first).collect();
    let mut cells: Vec<u32> = (0..(plan.works.len() * boots.len()) as u32).collect();
    cells.sort_by_key(|cell| (groups[*cell as usize % boots.len().max(1)], *cell));
    cells
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::model::Work;

    #[test]
    fn words_that_are_no_part_are_refused_with_what_they_could_be() {
        assert_eq!(Shard::parse("3/16").unwrap(), Shard { part: 3, parts: 16 });
        assert_eq!(Shard::parse("1/1").unwrap().to_string(), "1/1");
        let cases = [
            ("0/4", "of 4 parts there is none with number 0", "1/4 to 4/4"),
            ("5/4", "of 4 parts there is none with number 5", "1/4 to 4/4"),
            ("1/0", "in 1 to 100000 parts", "3/16"),
            ("1/100001", "in 1 to 100000 parts", "3/16"),
            ("x", "`x` is not PART/PARTS", "3/16"),
            ("+1/4", "is not PART/PARTS", "3/16"),
            ("1/4/4", "is not PART/PARTS", "3/16"),
            ("-1/4", "is not PART/PARTS", "3/16"),
            ("1/\u{1b}", "`1/\\u{1b}` is not", "3/16"),
            ("", "`` is not", "3/16"),
            ("4294967296/4294967297", "is not PART/PARTS", "3/16"),
        ];
        for (text, message, hint) in cases {
            let wrong = Shard::parse(text).unwrap_err();
            assert!(wrong.message.contains(message), "{text}: {}", wrong.message);
            assert!(wrong.hint.contains(hint), "{text}: {}", wrong.hint);
        }
    }

    /// A plan with `works` works, and a variant for each kernel.
    fn plan(rounds: u32, works: usize, kernels: &[u8]) -> Plan {
        let measure = format!(
            r#"{{"rounds":{rounds},"duration_ns":1,"warmup_ns":1,"window_ns":1,"seed":1,"budget_ns":null,"grace_ns":1}}"#
        );
        let text = format!(
            r#"{{"title":"","measure":{measure},"variants":[],"works":[],"placement":{{"cpus":null}}}}"#
        );
        let mut plan: Plan = serde_json::from_str(&text).unwrap();
        let variant = |kernel: &u8| Variant {
            name: String::new(),
            knobs: [("kernel".to_string(), Value::Int(i64::from(*kernel)))].into(),
        };
        plan.variants = kernels.iter().map(variant).collect();
        plan.works = vec![Work::default(); works];
        plan
    }

    fn division(plan: &Plan, parts: u32, cut: Cut) -> Division {
        let sharding = Sharding { plan: "0".repeat(64), parts, part: None, cut };
        assert!(sharding.is_sound());
        sharding.division(plan)
    }

    proptest! {
        #[test]
        fn each_run_is_in_one_part(
            rounds in 1_u32..30,
            works in 1_usize..5,
            kernels in proptest::collection::vec(0_u8..3, 1..5),
            parts in 1_u32..70,
        ) {
            let plan = plan(rounds, works, &kernels);
            let cells = (works * kernels.len()) as u32;
            let all: BTreeSet<RunKey> = (0..rounds)
                .flat_map(|round| (0..cells).map(move |cell| RunKey { round, cell }))
                .collect();
            for cut in [Cut::Rounds, Cut::Boots] {
                let division = division(&plan, parts, cut);
                let mut seen = BTreeSet::new();
                for part in 1..=parts {
                    let own: Vec<RunKey> = match cut {
                        Cut::Boots => division.runs_from(part, 0).collect(),
                        Cut::Rounds => (0..division.rounds_of(part))
                            .map(|own| division.round(part, own))
                            .flat_map(|round| (0..cells).map(move |cell| RunKey { round, cell }))
                            .collect(),
                    };
                    prop_assert_eq!(own.len() as u64, division.runs_of(part));
                    for key in own {
                        prop_assert_eq!(division.part_of(key), Some(part));
                        prop_assert!(seen.insert(key), "{:?} is in two parts", key);
                    }
                }
                prop_assert_eq!(&seen, &all);
                let sizes: Vec<u64> = (1..=parts).map(|part| division.runs_of(part)).collect();
                let unit = if cut == Cut::Rounds { u64::from(cells) } else { 1 };
                prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= unit);
            }
        }
    }

    #[test]
    fn a_part_of_the_lab_boots_few_machines_and_one_of_a_host_has_whole_rounds() {
        // Variants 0 and 2 have one kernel, and so one boot.
        let plan = plan(4, 3, &[6, 5, 6]);
        let boots = division(&plan, 3, Cut::Boots);
        let kernels = |part| {
            let cells = boots.runs_from(part, 0).map(|key| [6, 5, 6][key.cell as usize % 3]);
            cells.collect::<BTreeSet<u8>>().into_iter().collect::<Vec<_>>()
        };
        assert_eq!([1, 2, 3].map(kernels), [vec![6], vec![6], vec![5]]);
        assert_eq!(boots.runs_from(3, 10).count(), 2);
        let rounds = division(&plan, 3, Cut::Rounds);
        for cell in 0..9 {
            let part = |round| rounds.part_of(RunKey { round, cell });
            // Rounds that are measured again have parts, too.
            assert_eq!([0, 3, 4, 9].map(part), [Some(1), Some(1), Some(2), Some(1)]);
        }
        assert_eq!(rounds.part_of(RunKey { round: 0, cell: 9 }), None);
        assert_eq!(boots.part_of(RunKey { round: 4, cell: 0 }), None);
        let own = [1, 2, 3, 4, 5].map(|part| division(&plan, 5, Cut::Rounds).rounds_of(part));
        assert_eq!(own, [1, 1, 1, 1, 0], "more parts than rounds");
    }

    #[test]
    fn ids_are_those_of_the_whole_with_the_part() {
        let digest = "0123456789abcdef".repeat(4);
        let whole = Sharding { plan: digest, parts: 16, part: None, cut: Cut::Rounds };
        let part = Sharding { part: Some(3), ..whole.clone() };
        assert_eq!((whole.id(), part.id()), (part.whole_id(), "parts-0123456789ab-3of16".into()));
        let json = serde_json::to_string(&whole).unwrap();
        assert!(!json.contains("\"part\""), "{json}");
        assert_eq!(serde_json::from_str::<Sharding>(&json).unwrap(), whole);
        let wrong = [
            Sharding { plan: "0".to_string(), ..part.clone() },
            Sharding { plan: "G".repeat(64), ..part.clone() },
            Sharding { parts: 2, ..part.clone() },
            Sharding { part: Some(0), ..part.clone() },
            Sharding { parts: 0, part: None, ..part.clone() },
        ];
        assert!(part.is_sound() && wrong.iter().all(|wrong| !wrong.is_sound()));
    }
}
