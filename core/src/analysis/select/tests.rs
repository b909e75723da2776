//! Tests of the sides: their words, what they mean, and what means nothing.

use super::*;
use crate::model::testing::rows;
use crate::model::{EnvironmentHead, Reading, RunCounts};

const DAY_NS: u64 = 86_400_000_000_000;
/// Noon of the sixth day.
const NOW_NS: u64 = 5 * DAY_NS + DAY_NS / 2;

fn head(id: &str, day: u64, variants: &[&str], environments: &[(&str, &str)]) -> PlanHead {
    let environments = environments.iter().map(|(kernel, machine)| EnvironmentHead {
        hostname: machine.to_string(),
        kernel_release: kernel.to_string(),
        boot_id: Reading::Unknown("invented".to_string()),
    });
    PlanHead {
        id: id.to_string(),
        backend: if id.starts_with('n') { "null" } else { "local" }.to_string(),
        started_unix_ns: day * DAY_NS,
        environments: environments.collect(),
        variants: variants.iter().map(|name| name.to_string()).collect(),
        runs: RunCounts { done: u64::from(!id.starts_with('u')), ..RunCounts::default() },
        ..PlanHead::default()
    }
}

/// Five plans, newest first, of days 5 to 1 of January 1970, counted from 0.
fn heads() -> Vec<PlanHead> {
    let mut heads = vec![
        head("p5", 5, &["default"], &[("6.12.1", "big")]),
        head("n4", 4, &["default", "batch"], &[("null", "null")]),
        head("p3", 3, &["default", "batch"], &[("6.1.7", "big"), ("6.12.0", "big")]),
        head("p2", 2, &["default", "short slice"], &[("6.1.7", "small")]),
        head("p1", 1, &["default", "batch"], &[("6.1.6", "big")]),
    ];
    heads[0].title = "Plan five".to_string();
    for at in [1, 4] {
        heads[at].tags.push("before".to_string());
    }
    heads
}

fn selections(texts: &[&str]) -> Result<Vec<Selection>, ValueError> {
    let texts: Vec<String> = texts.iter().map(|text| text.to_string()).collect();
    select(&texts, &heads(), NOW_NS)
}

/// The plans of one side.
fn plans(text: &str) -> Vec<String> {
    let mut sides = selections(&[text]).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
    assert_eq!(sides.len(), 1, "{text}");
    sides.remove(0).plans
}

fn one(text: &str, heads: &[PlanHead]) -> Result<String, ValueError> {
    plan(text, heads, NOW_NS).map(|(_, head)| head.id.clone())
}

fn wrong_of(text: &str) -> (String, String) {
    let wrong = selections(&[text]).expect_err(text);
    (wrong.message, wrong.hint)
}

#[test]
fn plans_of_one_variant_each_are_compared_by_these() {
    let imported = |id: &str, day, variants: &[&str]| PlanHead {
        backend: SampledPlan::IMPORTED.to_string(),
        ..head(id, day, variants, &[("6.1.0", "x")])
    };
    let heads = [
        imported("i4", 9, &["6.18"]),
        imported("i3", 8, &["6.12", "6.18"]),
        imported("i2", 7, &["6.18"]),
        imported("i1", 6, &["6.12"]),
        head("p1", 1, &["default"], &[("6.1.6", "big")]),
    ];
    let of = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| text.to_string()).collect();
        let sides = select(&texts, &heads, NOW_NS).unwrap();
        let side = |side: Selection| format!("{}: {}", side.label, side.words(&heads));
        sides.into_iter().map(side).collect::<Vec<_>>()
    };
    let named = ["6.12: plan=i1,variant=6.12", "6.18: plan=i2,variant=6.18"];
    assert_eq!(of(&["i1", "i2"]), named);
    assert_eq!(of(&["plan=i1,variant=6.12", "i2"])[1], "i2: plan=i2", "one names its variant");
    assert_eq!(of(&["i2", "i4"]), ["i2: plan=i2", "i4: plan=i4"], "the same variant");
    assert_eq!(of(&["i1", "i3"]), ["i1: plan=i1", "i3: plan=i3"], "several variants");
    let three =
        ["6.12: plan=i1,variant=6.12", "i2: plan=i2,variant=6.18", "i4: plan=i4,variant=6.18"];
    assert_eq!(of(&["i1", "i2", "i4"]), three);
    // By their names: of one plan where there is such a one, else each of the newest file.
    assert_eq!(of(&["6.12", "6.18"])[0], "6.12: plan=i3,variant=6.12");
    let without = [heads[0].clone(), heads[3].clone(), heads[4].clone()];
    let texts = ["6.12", "6.18"].map(str::to_string);
    let sides = select(&texts, &without, NOW_NS).unwrap();
    assert_eq!([&sides[0].plans[0], &sides[1].plans[0]], ["i1", "i4"]);
    let texts = ["6.12", "default"].map(str::to_string);
    assert!(select(&texts, &without, NOW_NS).is_err(), "what was measured is of one plan");
}

#[test]
fn a_side_is_written_by_words_and_terms() {
    let cases: &[(&str, &[&str])] = &[
        ("last", &["p5"]),
        ("last:1", &["p5"]),
        ("last:2", &["p3", "p5"]),
        ("last:99", &["p1", "p2", "p3", "p5"]),
        ("all", &["p1", "p2", "p3", "p5"]),
        ("plan=last:2", &["p3", "p5"]),
        ("plan=all", &["p1", "p2", "p3", "p5"]),
        // Plans of the null backend where they are asked for.
        ("last,backend=null", &["n4"]),
        ("n4", &["n4"]),
        ("plan=p", &["p1", "p2", "p3", "p5"]),
        ("plan=*3", &["p3"]),
        ("p3", &["p3"]),
        ("before", &["p1", "n4"]),
        ("before,last,backend=null", &["n4"]),
        ("title=FIVE", &["p5"]),
        ("p", &["p1", "p2", "p3", "p5"]),
        ("6.1.7", &["p2", "p3"]),
        ("6.1.*", &["p1", "p2", "p3"]),
        ("kernel=6.1*", &["p1", "p2", "p3", "p5"]),
        ("small", &["p2"]),
        ("machine=big", &["p1", "p3", "p5"]),
        ("backend=null", &["n4"]),
        ("backend=l*", &["p1", "p2", "p3", "p5"]),
        // Newest of what the other terms leave, whichever stands first.
        ("last,batch", &["p3"]),
        ("variant=batch , last:2", &["p1", "p3"]),
        ("tag=before", &["p1", "n4"]),
        ("tag=b*,machine=big", &["p1"]),
        ("last,tag=before", &["p1"]),
        ("kernel=6.1.*,last", &["p3"]),
        ("variant=short slice,all", &["p2"]),
        // Since includes its moment, until does not; both in UTC.
        ("since=1970-01-04", &["p3", "n4", "p5"]),
        ("until=1970-01-04", &["p1", "p2"]),
        ("since=1970-01-03T00:00:00,until=1970-01-05T00:00:01", &["p2", "p3", "n4"]),
        ("since=1970-01-03T00:00:01,until=1970-01-05", &["p3"]),
        // Relative to noon of 1970-01-06.
        ("since=today", &["p5"]),
        ("until=today", &["p1", "p2", "p3", "n4"]),
        ("since=yesterday", &["n4", "p5"]),
        ("since=13h", &["p5"]),
        ("since=780min", &["p5"]),
        ("since=2d", &["n4", "p5"]),
        ("since=1w", &["p1", "p2", "p3", "n4", "p5"]),
        // Kernel and machine hold for one and the same environment.
        ("kernel=6.12.*,machine=big", &["p3", "p5"]),
    ];
    for (text, expected) in cases {
        assert_eq!(plans(text), *expected, "{text}");
    }
}

#[test]
fn terms_of_several_plans_are_known_as_such() {
    for (text, expected) in [
        ("last", false),
        ("p5", false),
        ("default", false),
        ("variant=default,kernel=*", false),
        ("tag=before,variant=default", true),
        ("before", true),
        ("title=FIVE", true),
        ("since=1970-01-04", true),
        ("last,until=now", true),
    ] {
        assert_eq!(selections(&[text]).unwrap()[0].names_several, expected, "{text}");
    }
}

#[test]
fn a_variant_that_a_plan_names_is_no_pattern() {
    let named = Selection::of_variant("p1", "b*");
    let written = selections(&["variant=b*"]).unwrap().remove(0);
    for (name, by_name, by_pattern) in [("b*", true, true), ("batch", false, true)] {
        assert_eq!(named.takes_variant(name), by_name, "{name}");
        assert_eq!(written.takes_variant(name), by_pattern, "{name}");
    }
    assert!(Selection::of_plan("p1").takes_variant("anything"));
}

#[test]
fn a_side_says_what_its_runs_must_be_like() {
    let side = selections(&["variant=b*,kernel=6.1.*,machine=big"]).unwrap().remove(0);
    assert_eq!(side.label, "variant=b*,kernel=6.1.*,machine=big");
    assert_eq!(side.variant, Some(Wanted::Like("b*".to_string())));
    assert_eq!(side.plans, ["p1", "p3"]);
    for (kernel, machine, expected) in [
        ("6.1.7", "big", true),
        ("6.12.0", "big", false),
        ("6.1.7", "small", false),
        ("6.1", "big", false),
    ] {
        assert_eq!(side.takes(&[kernel], machine), expected, "{kernel} {machine}");
    }
    let anything = selections(&["last"]).unwrap().remove(0);
    assert!(anything.variant.is_none() && anything.takes(&["any"], "where"));
}

#[test]
fn a_word_is_a_whole_id_a_variant_a_kernel_a_machine_or_the_beginning_of_an_id() {
    let of_word = |word: &str, heads: &[PlanHead]| {
        let side = select(&[format!("{word},all")], heads, NOW_NS).unwrap().remove(0);
        (side.variant.is_some(), side.kernel.is_some(), side.machine.is_some())
    };
    let mut heads = vec![
        head("x-new", 4, &["x"], &[("x", "x")]),
        head("b", 3, &["b"], &[("x", "x")]),
        head("c", 2, &["c"], &[("c", "x")]),
        head("x-id", 1, &["d"], &[("d", "d")]),
    ];
    assert_eq!(of_word("x", &heads), (true, false, false));
    heads[0].variants[0] = "a".to_string();
    assert_eq!(of_word("x", &heads), (false, true, false));
    for head in &mut heads {
        head.environments[0].kernel_release = "k".to_string();
    }
    assert_eq!(of_word("x", &heads), (false, false, true));
    for head in &mut heads {
        head.environments[0].hostname = "m".to_string();
    }
    assert_eq!(of_word("x", &heads), (false, false, false));
    let plans = |text: &str| {
        select(&[text.to_string()], &heads, NOW_NS).map(|mut sides| sides.remove(0).plans)
    };
    assert_eq!(plans("plan=x*").unwrap(), ["x-id", "x-new"]);
    // A key means what it says.
    assert!(plans("kernel=x").is_err());
    heads[0].id = "x".to_string();
    heads[1].variants = ["x", "plan=x"].map(str::to_string).to_vec();
    heads[1].tags = vec!["x".to_string()];
    let plans = |text: &str| select(&[text.to_string()], &heads, NOW_NS).unwrap().remove(0).plans;
    assert_eq!((plans("x"), plans("plan=x")), (vec!["x".to_string()], vec!["x".to_string()]));
    assert_eq!(plans("variant=plan=x"), ["b"]);
}

#[test]
fn variants_alone_are_of_the_newest_plan_that_has_them_all() {
    for (texts, expected) in [
        (&["default"][..], "p5"),
        (&["default", "batch"], "p3"),
        (&["variant=batch", "default"], "p3"),
        (&["default", "short slice"], "p2"),
        (&["default", "short*"], "p2"),
        // Sides that say more than a variant do not take part in it.
        (&["default", "last,default"], "p5"),
        (&["default", "batch,kernel=6.1.6"], "p5"),
    ] {
        assert_eq!(selections(texts).unwrap()[0].plans, [expected], "{texts:?}");
    }
    let sides = selections(&["default", "batch"]).unwrap();
    assert_eq!(sides[0].plans, sides[1].plans);
    let wrong = selections(&["batch", "short slice"]).unwrap_err();
    assert_eq!(wrong.message, "no stored plan has `batch` together with the other variants");
    assert!(wrong.hint.ends_with("schedlab compare A,all B,all"), "{}", wrong.hint);
    assert_eq!(selections(&["batch,all", "short slice,all"]).unwrap().len(), 2);
}

#[test]
fn what_means_nothing_is_refused_with_a_hint() {
    let none = "no stored plan has a variant, kernel, machine, tag or id";
    let known = "variant, kernel, machine, plan, backend, tag, title, since, until";
    let dates = "today, yesterday, 10min, 2h, 7d, 2w, 2026-11-01 or 2026-11-01T12:00:00: \
                 schedlab list runs since=7d";
    let newest = "`last:1` is the newest: schedlab list runs last:10";
    let there = "stored: variant default, batch, short slice; kernel 6.12.1, null, 6.1.7, \
                 6.12.0, 6.1.6; schedlab list runs";
    let table = r#"
        nonesuch => NONE `nonesuch` => THERE
        lst => NONE `lst` => did you mean `last`? schedlab list runs
        lats:3 => NONE `lats:3` => did you mean `last:3`? schedlab list runs
        tags => NONE `tags` => THERE
        btach => NONE `btach` => did you mean `batch`? schedlab list runs
        last, => NONE `` => THERE
        z* => NONE `z*` => THERE
        last:0 => `last:0` names no number of plans => NEWEST
        last: => `last:` names no number of plans => NEWEST
        last:-1 => `last:-1` names no number of plans => NEWEST
        plan=last:x => `last:x` names no number of plans => NEWEST
        score=last => `score=last` is a score, and stored plans are wanted => schedlab show 'score=last'
        since=3000-01-01 => `since=3000-01-01` lies in the future => it is 1970-01-06T12:00:00 UTC: schedlab list runs
        since=1970-01-06T12:00:00 => nothing stored is `since=1970-01-06T12:00:00` => schedlab list runs
        since=7 => `since=7` is not a date => DATES
        since=10m => `since=10m` is not a date => minutes are `since=10min`, months dates; DATES
        variant=btach => nothing stored is `variant=btach` => did you mean `variant=batch`? schedlab list runs
        since=1d ago => `since=1d ago` is not a date => DATES
        since=9999999999999w => `since=9999999999999w` is not a date => DATES
        until=2026-02-30 => `until=2026-02-30` is not a date => DATES
        since=1970-01-02,until=1970-01-02
          => `since=1970-01-02,until=1970-01-02` leaves no time: since 1970-01-02T00:00:00, until 1970-01-02T00:00:00 UTC
          => `until` has to be the later one: schedlab list runs
        until=2d,since=1d
          => `until=2d,since=1d` leaves no time: since 1970-01-05T12:00:00, until 1970-01-04T12:00:00 UTC
          => `until` has to be the later one: schedlab list runs
        kernel= => `kernel=` names nothing => schedlab list runs
        tag=after => nothing stored is `tag=after` => stored: tag before; schedlab list runs
        title=six => nothing stored is `title=six` => stored: title Plan five; schedlab list runs
        backend=nul => nothing stored is `backend=nul` => did you mean `backend=null`? schedlab list runs
        seed=1 => `seed` is none of KNOWN => schedlab list runs
        plna=x => `plna` is none of KNOWN => did you mean `plan=x`? schedlab list runs
        kernel=6.99 => nothing stored is `kernel=6.99`
          => stored: kernel 6.12.1, null, 6.1.7, 6.12.0, 6.1.6; schedlab list runs
        kernel=6.21.0 => nothing stored is `kernel=6.21.0` => did you mean `kernel=6.12.0`? schedlab list runs
        kernel=6.12.0,machine=small => nothing stored is `kernel=6.12.0,machine=small` => schedlab list runs
        default,batch => `default,batch` names its variant twice
          => name it once, or separate sides: schedlab list runs
        kernel=6.1.6,6.1.7 => `kernel=6.1.6,6.1.7` names its kernel twice
          => name it once, or separate sides: schedlab list runs
        last,plan=last:2 => `last,plan=last:2` names its plans twice
          => name it once, or separate sides: schedlab list runs
        since=1970-01-02,since=1970-01-03 => `since=1970-01-02,since=1970-01-03` names its since twice
          => name it once, or separate sides: schedlab list runs
    "#;
    let words =
        [("NONE", none), ("THERE", there), ("KNOWN", known), ("DATES", dates), ("NEWEST", newest)];
    let table =
        words.iter().fold(table.to_string(), |table, (name, word)| table.replace(name, word));
    for (text, expected) in rows(&table) {
        let (message, hint) = wrong_of(&text);
        assert_eq!([message, hint], expected[..], "{text:?}");
    }
    assert_eq!(wrong_of(""), (format!("{none} ``"), there.to_string()));
    let late = select(&["since=3000-01-01".to_string()], &heads(), NOW_NS + 7).unwrap_err();
    assert_eq!(late.hint, "it is 1970-01-06T12:00:00 UTC: schedlab list runs");
    let nothing = select(&["last".to_string()], &[], NOW_NS).unwrap_err();
    assert_eq!(
        (nothing.message.as_str(), nothing.hint.as_str()),
        ("nothing is stored yet", "schedlab run quick")
    );
}

#[test]
fn hostile_text_is_escaped_in_errors() {
    let evil = "\u{1b}[2J\n\u{202e}`";
    for text in [
        evil.to_string(),
        format!("last:{evil}"),
        format!("since={evil}"),
        format!("{evil}=x"),
        format!("{evil}="),
        format!("kernel={evil}"),
        format!("variant={evil}"),
        format!("backend={evil},{evil}"),
        format!("kernel={evil},kernel={evil}"),
    ] {
        let (message, hint) = wrong_of(&text);
        let acts = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!message.contains(acts) && !hint.contains(acts), "{message:?}");
        assert!(message.contains("\\u{1b}[2J"), "{message:?}");
    }
}

#[test]
fn a_star_stands_for_anything_and_nothing_else_does() {
    for (pattern, text, expected) in [
        ("", "", true),
        ("", "a", false),
        ("a", "a", true),
        ("a", "ab", false),
        ("*", "", true),
        ("*", "a/b c", true),
        ("a*", "a", true),
        ("a*", "ba", false),
        ("*a", "a", true),
        ("*a", "aba", true),
        ("*a", "ab", false),
        ("a*a", "a", false),
        ("a*a", "aa", true),
        ("a*b*c", "axbxbc", true),
        ("a*b*c", "acb", false),
        ("*ab*ab*", "aab", false),
        ("*ab*ab*", "xabyabz", true),
        ("**", "x", true),
        ("é*", "éa", true),
        ("*é", "aé", true),
        ("a.c", "abc", false),
        ("a?c", "abc", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern:?} {text:?}");
    }
}

/// By trying every way it would take longer than there is time.
#[test]
fn many_stars_are_no_burden() {
    let (pattern, text) = ("*a".repeat(40) + "b", "a".repeat(400));
    assert!(!matches(&pattern, &text));
    assert!(matches(&pattern, &(text + "b")));
}

#[test]
fn the_last_plan_is_one_that_measured_something_on_a_real_backend() {
    let mut heads = vec![
        head("u7", 7, &["default"], &[("6.12.1", "big")]),
        head("n6", 6, &["default"], &[("null", "null")]),
    ];
    let none = "no stored plan has measured anything on a real backend, so none is `last`";
    assert_eq!(select(&["last".to_string()], &heads, NOW_NS).unwrap_err().message, none);
    assert_eq!(one("u7", &heads).unwrap(), "u7", "by its id it is there");
    // An import may have a backend that nobody here knows.
    heads.push(head("p6", 6, &["default"], &[("6.12.1", "big")]));
    heads[2].backend = "other".to_string();
    let all = select(&["all".to_string()], &heads, NOW_NS).unwrap_err();
    let stored = "1 of backend `local` without a measured run, 1 of backend `null`, 1 of backend \
                  `other`";
    assert!(all.message.ends_with(stored), "{}", all.message);
    assert_eq!(all.hint, "schedlab report all,backend=null");
    let last = |text: &str, heads: &[PlanHead]| {
        select(&[text.to_string()], heads, NOW_NS).unwrap().remove(0)
    };
    let named = |text: &str| last(text, &heads).plans;
    assert_eq!(named("all,backend=null"), ["n6"]);
    assert_eq!((named("p6"), named("last,backend=o*")), (vec!["p6".to_string()], named("p6")));
    let mut of_none = head("n7", 7, &["default"], &[("null", "null")]);
    of_none.runs.done = 0;
    let newest = [&[of_none], &heads[..]].concat();
    assert_eq!(last("last,backend=null", &newest).plans, ["n6"], "another one has no run");
    heads.push(head("p5", 5, &["default"], &[("6.12.1", "big")]));
    let without_runs: Vec<String> = heads.iter().take(3).map(|head| head.id.clone()).collect();
    let [newest, all] = ["last", "all"].map(|text| last(text, &heads));
    assert_eq!((newest.plans, &newest.passed_over), (vec!["p5".to_string()], &without_runs));
    assert_eq!(
        last("last,backend=null", &heads).passed_over,
        ["u7"; 0],
        "it is the newest of these"
    );
    assert_eq!(all.passed_over, without_runs);
    let variant = last("default", &heads);
    assert_eq!((variant.plans, variant.passed_over), (vec!["p5".to_string()], without_runs));
}

#[test]
fn only_plans_that_a_choice_could_have_taken_are_passed_over() {
    let head = |id: &str, variants: &[&str]| head(id, 1, variants, &[("6.12.1", "big")]);
    let passed_over = |texts: &[&str], heads: &[PlanHead]| {
        let texts: Vec<String> = texts.iter().map(|text| text.to_string()).collect();
        select(&texts, heads, NOW_NS).unwrap().remove(0).passed_over
    };
    let both = ["default", "batch"];
    let measured = head("p5", &both);
    let older = [measured.clone(), head("u4", &both)];
    assert_eq!(passed_over(&["last"], &older), ["u4"; 0]);
    assert_eq!(passed_over(&["all"], &older), ["u4"]);
    // Both sides are variants of one plan.
    assert_eq!(passed_over(&both, &[head("u6", &both), measured.clone()]), ["u6"]);
    assert_eq!(passed_over(&both, &[head("u6", &["default"]), measured]), ["u6"; 0]);
}

#[test]
fn one_plan_is_named_by_an_id_or_the_beginning_of_one_alone() {
    let ids = ["20261122-0519-aa", "20261122-0519", "20261121-1200-bb"];
    let heads = ids.map(|id| head(id, 1, &["default"], &[("6.12.1", "big")]));
    for (text, expected) in [
        ("last", "20261122-0519-aa"),
        ("20261122-0519", "20261122-0519"),
        ("20261122-0519-", "20261122-0519-aa"),
        ("20261121", "20261121-1200-bb"),
    ] {
        assert_eq!(one(text, &heads).unwrap(), expected, "{text}");
    }
    for (text, message) in [
        (
            "2026",
            "`2026` is 3 stored plans, and one is wanted: 20261122-0519-aa, 20261122-0519, \
             20261121-1200-bb",
        ),
        ("", "no stored plan has a variant, kernel, machine, tag or id ``"),
        ("1999", "no stored plan has a variant, kernel, machine, tag or id `1999`"),
    ] {
        assert_eq!(one(text, &heads).unwrap_err().message, message);
    }
    let near = one("20261121-1200-bx", &heads).unwrap_err().hint;
    assert_eq!(near, "did you mean `20261121-1200-bb`? schedlab list runs");
}

#[test]
fn a_relative_date_is_written_back_as_the_moment_that_it_was() {
    let side = selections(&["since=4d,until=1970-01-05"]).unwrap().remove(0);
    assert_eq!(side.words(&heads()), "since=1970-01-02T12:00:00,until=1970-01-05");
}

#[test]
fn names_of_points_are_variants() {
    let points = ["e", "e slice=1ms", "pinned affinity=0,2"];
    let heads = vec![head("p6", 5, &points, &[("6.12.1", "big")])];
    let side = |text: &str| {
        let sides = select(&[text.to_string()], &heads, NOW_NS);
        sides.unwrap_or_else(|wrong| panic!("{text}: {wrong:?}")).remove(0)
    };
    let names = |side: &Selection| points.map(|name| side.takes_variant(name));
    for (text, takes) in [
        ("e", [true, false, false]),
        ("e slice=1ms", [false, true, false]),
        ("variant=e slice=*", [false, true, false]),
        ("pinned affinity=0,2", [false, false, true]),
        ("last, pinned affinity=0,2", [false, false, true]),
        ("kernel=6.12.*,variant=pinned affinity=0,2", [false, false, true]),
    ] {
        let side = side(text);
        assert_eq!(names(&side), takes, "{text}");
        assert_eq!(names(&self::select(&[side.words(&heads)], &heads, NOW_NS).unwrap()[0]), takes);
    }
    for (text, says) in [("e slice=2ms", "is none of"), ("e,e slice=1ms", "twice")] {
        let wrong = select(&[text.to_string()], &heads, NOW_NS).unwrap_err();
        assert!(wrong.message.contains(says), "{text}: {wrong:?}");
    }
}

#[test]
fn scores_are_selected_as_plans_are() {
    let head = |id: &str, day: u64, tags: &[&str]| ScoreHead {
        id: id.to_string(),
        title: format!("make {id}"),
        started_unix_ns: day * DAY_NS,
        hostname: "big".to_string(),
        kernel_release: "6.12.1".to_string(),
        source: None,
        wall_ns: 0,
        tags: tags.iter().map(|tag| tag.to_string()).collect(),
    };
    let heads =
        [head("2026-c", 5, &["new"]), head("2026-b", 3, &["old", "new"]), head("2025-a", 1, &[])];
    let ids = |text: &str| {
        let found = scores(text, &heads, NOW_NS);
        let ids = found.map(|found| found.iter().map(|head| head.id.clone()).collect::<Vec<_>>());
        ids.map_err(|wrong| (wrong.message, wrong.hint))
    };
    for (text, expected) in [
        ("last", &["2026-c"][..]),
        ("last:2", &["2026-c", "2026-b"]),
        ("new", &["2026-c", "2026-b"]),
        ("new,last", &["2026-c"]),
        ("tag=old", &["2026-b"]),
        ("2025", &["2025-a"]),
        ("2026-b", &["2026-b"]),
        ("since=2d", &["2026-c"]),
        ("title=MAKE,until=2d,kernel=6.*,machine=big", &["2026-b", "2025-a"]),
    ] {
        assert_eq!(ids(text).unwrap(), expected, "{text}");
    }
    let near = "did you mean `old`? schedlab list scores";
    let none = "no stored score has a kernel, machine, tag or id `olt`";
    assert_eq!(ids("olt").unwrap_err(), (none.to_string(), near.to_string()));
    assert_eq!(score("old", &heads, NOW_NS).unwrap().id, "2026-b");
    let several = score("new", &heads, NOW_NS).unwrap_err();
    let expected = "`score=new` is 2 stored scores, and one is wanted: 2026-c, 2026-b";
    assert_eq!(several.message, expected);
    assert_eq!(several.hint, "name one by its id: schedlab list scores");
    assert_eq!(scores("last", &[], NOW_NS).unwrap_err().message, "no score is stored yet");
}

#[test]
fn what_begins_as_a_selection_is_no_name_of_a_plan() {
    for (text, expected) in [
        ("last", true),
        ("last:2", true),
        ("plan=x", true),
        ("tag=a,last", true),
        ("all", true),
        ("quick", false),
        ("tga=a", false),
        ("./tag=a.toml", false),
    ] {
        assert_eq!(is_selection(text), expected, "{text}");
    }
}

#[test]
fn where_nothing_is_stored_runs_are_what_would_be_listed() {
    assert!(!is_of_scores(&[]));
    assert_eq!(list(&[]), "schedlab list runs");
    let mut heads = heads();
    assert_eq!(list(&heads), "schedlab list runs");
    heads[0].backend = SCORE.to_string();
    assert_eq!(list(&heads), "schedlab list scores");
}
