//! `schedlab plan-power` as a user calls it, on the null backend.

use crate::home::Home;
use crate::support::{stderr, stdout};

const PLAN: &str = "schema = 1\ntitle = \"power\"\n[measure]\nrounds = 12\nduration = \"2s\"\n\
    warmup = \"1s\"\n[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n\
    [[workload]]\nuse = \"spin\"\n";

#[test]
fn what_is_not_known_comes_with_the_command_that_measures_it() {
    let home = Home::with_plan(PLAN);
    let nothing = home.ends(3, "plan-power ./plan.toml --backend null");
    let command = "schedlab run ./plan.toml --backend null --aa --rounds 10";
    assert!(stdout(&nothing).contains("== spin\nnot known: "), "{}", stdout(&nothing));
    assert!(stderr(&nothing).contains(&format!("hint: {command}\n")), "{}", stderr(&nothing));
    // The same plan for longer is other work.
    home.ok("run ./plan.toml --aa --duration 4s --quiet --backend null");
    let nothing = home.ends(3, "plan-power ./plan.toml --backend null");
    assert!(stdout(&nothing).contains("the duration is 2s and 4s"), "{}", stdout(&nothing));
}

#[test]
fn from_aa_runs_follow_rounds_and_time() {
    let home = Home::with_plan(PLAN);
    home.ok("run ./plan.toml --aa --rounds 10 --quiet --backend null");
    let power = "plan-power ./plan.toml --backend null --metric";
    let shown = home.ok(format!("{power} throughput"));
    assert!(shown.contains("10 A/A\n"), "{shown}");
    // Numbers end where their headings do.
    let row = shown.lines().find(|line| line.ends_with("A/A")).unwrap();
    let head = shown.lines().find(|line| line.ends_with("from")).unwrap();
    assert_eq!(row.len(), head.len(), "{shown}");
    assert!(shown.contains("planned   12 rounds, 1 min 12 s: find 3 % in "), "{shown}");
    // The command that it suggests decides all: `plan-power` itself confirms that for its number of rounds.
    let command = shown.rsplit_once("schedlab run ").unwrap().1;
    let rounds = command.split_whitespace().last().unwrap();
    home.write("plan.toml", PLAN.replace("rounds = 12", &format!("rounds = {rounds}")));
    let again = home.ok(format!("{power} throughput"));
    assert!(again.contains("find 3 % in 1 of 1 metric\n"), "{again}");
    // A larger difference takes no more, all metrics no fewer.
    let last = |more: &str| {
        let text = home.ok(format!("{power} {more}"));
        let (_, last) = text.rsplit_once("decided after ").unwrap();
        let digits: String = last.chars().filter(|c| !c.is_whitespace()).collect();
        digits
            .trim_start_matches("morethan")
            .split("rounds")
            .next()
            .unwrap()
            .parse::<u32>()
            .unwrap()
    };
    let least = last("throughput --difference 50% --margin 50%");
    assert!(least < rounds.parse().unwrap(), "{least} {rounds}");
    assert!(last("*") >= rounds.parse().unwrap());
}

#[test]
fn a_budget_says_how_many_rounds_fit_and_the_command_has_one_for_all() {
    let home = Home::with_plan(PLAN.replace("rounds = 12", "rounds = 12\nbudget = \"63s\""));
    home.ok("run ./plan.toml --aa --rounds 8 --quiet --backend null");
    let shown =
        home.ok("plan-power ./plan.toml --backend null --metric throughput --difference 1%");
    let text = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    // A round takes 6 s.
    let run = "schedlab run ./plan.toml --backend null";
    let note = format!("has room for at most 10 of the 12 rounds; hint: {run} --budget 2min");
    assert!(text.contains(&note), "{shown}");
    assert!(text.contains("planned 10 rounds, 1 min: "), "{shown}");
    let (_, command) = text.rsplit_once(&format!("{run} --rounds ")).unwrap();
    let (rounds, budget) = command.split_once(" --budget ").unwrap();
    let minutes: u32 = budget.trim_end_matches("min").parse().unwrap();
    assert!(60 * minutes > 6 * rounds.parse::<u32>().unwrap(), "{command}");
}

#[test]
fn runs_that_differ_from_each_other_alone_are_short_and_many() {
    let plan = PLAN.replace("warmup = \"1s\"", "warmup = \"100ms\"\nwindow = \"200ms\"");
    let home = Home::with_plan(&plan);
    home.ok("run ./plan.toml --rounds 10 --quiet --backend null");
    let shown = home.ok("plan-power ./plan.toml --backend null");
    let line = shown.lines().find(|line| line.starts_with("run length ")).unwrap_or_default();
    assert!(line.starts_with("run length  by the throughput of spin, runs differ by "), "{shown}");
    let text = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("with duration = \"200ms\" in [[workload]], not 2s, intervals"),
        "{shown}"
    );
    let hard = home.ok("plan-power ./plan.toml --backend null --difference 0.001%");
    let text = hard.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.ends_with("or a larger --difference or --margin"), "{hard}");
    // A report needs no such length: the work has it, and is another one then.
    let shorter = plan.replace("use = \"spin\"", "use = \"spin\"\nduration = \"200ms\"");
    home.write("plan.toml", shorter);
    assert!(!home.says(3, "plan-power ./plan.toml --backend null").contains("run length"));
}

#[test]
fn without_an_advice_on_the_length_of_runs_there_is_a_reason() {
    let cases = [
        // The options of the run that is stored, and the plan's window.
        ("--rounds 10", "window = \"2s\"", "no advice: a run of 2s has one window, and noise"),
        ("--rounds 5", "window = \"100ms\"", "no advice: too few stored runs have a throughput"),
        ("--rounds 10", "turns = \"100ms\"", "no advice: variants take turns inside one run"),
    ];
    for (run, window, expected) in cases {
        let live = PLAN.replace("name = \"b\"", "name = \"b\"\nnice = 5");
        let home = Home::with_plan(live.replace("warmup", &format!("{window}\nwarmup")));
        home.ok(format!("run ./plan.toml {run} --quiet --backend null"));
        let shown = home.ok("plan-power ./plan.toml --backend null --difference 0.001%");
        let text = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&format!("run length {expected}")), "{window}: {shown}");
        assert!(text.ends_with("--difference or --margin, or longer runs"), "{window}: {shown}");
    }
}

#[test]
fn the_command_line_is_checked() {
    let home = Home::with_plan(PLAN);
    let cases = [
        ("nonesuch", "there is no built-in plan or file `nonesuch`"),
        ("--difference 3", "`3` is not a percentage from 0.001% to 1000%"),
        ("--power 100%", "`100%` is not a percentage from 1% to 99.9%"),
        ("--margin 1e-300%", "from 0.001% to 100%"),
        ("--metric nonesuch", "names no metric"),
        ("--metric all", "is about metrics that decide"),
    ];
    for (arguments, expected) in cases {
        let said = home.says(2, format!("plan-power {arguments} --backend null"));
        assert!(said.contains(expected), "{arguments}: {said}");
    }
}
