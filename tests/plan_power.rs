//! `schedlab plan-power` as a user calls it, on the null backend.

use super::support::{done, ended, schedlab, stderr, stdout};

const PLAN: &str = "schema = 1\ntitle = \"power\"\n[measure]\nrounds = 12\nduration = \"2s\"\n\
    warmup = \"1s\"\n[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n\
    [[workload]]\nuse = \"spin\"\n";

fn run(home: &tempfile::TempDir, arguments: &[&str]) -> std::process::Output {
    schedlab(home.path(), &[arguments, &["--backend", "null"]].concat()).output().unwrap()
}

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("plan.toml"), PLAN).unwrap();
    home
}

#[test]
fn what_is_not_known_comes_with_the_command_that_measures_it() {
    let home = home();
    let nothing = ended(run(&home, &["plan-power", "./plan.toml"]), 3);
    let command = "schedlab run ./plan.toml --backend null --aa --rounds 10";
    assert!(stdout(&nothing).contains("== spin\nnot known: "), "{}", stdout(&nothing));
    assert!(stderr(&nothing).contains(&format!("hint: {command}\n")), "{}", stderr(&nothing));
    // The same plan for longer is other work.
    done(run(&home, &["run", "./plan.toml", "--aa", "--duration", "4s", "--quiet"]));
    let nothing = ended(run(&home, &["plan-power", "./plan.toml"]), 3);
    assert!(stdout(&nothing).contains("the duration is 2s and 4s"), "{}", stdout(&nothing));
}

#[test]
fn from_aa_runs_follow_rounds_and_time() {
    let home = home();
    done(run(&home, &["run", "./plan.toml", "--aa", "--rounds", "10", "--quiet"]));
    let metric = ["--metric", "throughput"];
    let power = done(run(&home, &[&["plan-power", "./plan.toml"], &metric[..]].concat()));
    let shown = stdout(&power);
    assert!(shown.contains("10 A/A\n"), "{shown}");
    // Numbers end where their headings do.
    let row = shown.lines().find(|line| line.ends_with("A/A")).unwrap();
    let head = shown.lines().find(|line| line.ends_with("from")).unwrap();
    assert_eq!(row.len(), head.len(), "{shown}");
    assert!(shown.contains("planned   12 rounds, 1 min 12 s: find 3 % in "), "{shown}");
    // The command that it suggests decides all: `plan-power` itself confirms that for its number of rounds.
    let command = shown.rsplit_once("schedlab run ").unwrap().1;
    let rounds = command.split_whitespace().last().unwrap();
    let enough = std::fs::read_to_string(home.path().join("plan.toml")).unwrap();
    let enough = enough.replace("rounds = 12", &format!("rounds = {rounds}"));
    std::fs::write(home.path().join("plan.toml"), enough).unwrap();
    let again = stdout(&run(&home, &[&["plan-power", "./plan.toml"], &metric[..]].concat()));
    assert!(again.contains("find 3 % in 1 of 1 metric\n"), "{again}");
    // A larger difference takes no more, all metrics no fewer.
    let last = |more: &[&str]| {
        let output = run(&home, &[&["plan-power", "./plan.toml"], more].concat());
        let text = stdout(&output);
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
    let least = last(&["--metric", "throughput", "--difference", "50%", "--margin", "50%"]);
    assert!(least < rounds.parse().unwrap(), "{least} {rounds}");
    assert!(last(&["--metric", "*"]) >= rounds.parse().unwrap());
}

#[test]
fn the_command_line_is_checked() {
    let home = home();
    let cases: &[(&[&str], &str)] = &[
        (&["plan-power", "nonesuch"], "there is no built-in plan or file `nonesuch`"),
        (&["plan-power", "--difference", "3"], "`3` is not a percentage from 0.001% to 1000%"),
        (&["plan-power", "--power", "100%"], "`100%` is not a percentage from 1% to 99.9%"),
        (&["plan-power", "--margin", "1e-300%"], "from 0.001% to 100%"),
        (&["plan-power", "--metric", "nonesuch"], "names no metric"),
        (&["plan-power", "--metric", "all"], "is about metrics that decide"),
    ];
    for (arguments, expected) in cases {
        let output = run(&home, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
}
