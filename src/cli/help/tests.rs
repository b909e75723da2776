//! Help of all commands, and errors of the command line.

use clap::CommandFactory;

use super::*;
use crate::cli::Cli;
use crate::model::testing::rows;

const MAX_OPTIONS: usize = 212;

fn is_topic(name: &str) -> bool {
    name == "score"
}

#[test]
fn help_of_a_command_is_its_own_unless_it_is_a_topic_too() {
    let cases: [(&[&str], &[&str]); 6] = [
        (&["help"], &["--help"]),
        (&["help", "run"], &["run", "--help"]),
        (&["help", "--all", "run"], &["run", "--help"]),
        (&["help", "--all", "score"], &["help", "--all", "score"]),
        (&["help", "score"], &["help", "score"]),
        (&["help", "nothing"], &["help", "nothing"]),
    ];
    for (words, expected) in cases {
        let words = ["schedlab"].iter().chain(words).map(OsString::from);
        let (_, words) = asked(Cli::command(), words, is_topic);
        assert_eq!(words[1..], *expected);
    }
}

#[test]
fn a_wrong_command_line_has_the_form_of_all_errors() {
    let table = r#"
        reprot => unrecognized subcommand 'reprot' => did you mean `report`?
        # The commonest slip.
        run sleep 1 => unexpected argument '1' found => a program of yours stands behind --: schedlab run -- sleep 1
        # It is a selection's elsewhere.
        run -n 5 => unexpected argument '-n' found => a program of yours stands behind --: schedlab run -- sleep 1
        run mine.toml --duration -1s => invalid value '-1s' for '--duration <TIME>': it is negative
          => schedlab run --help
        list runs --db -1 => unexpected argument '-1' found => schedlab list --help
        rum => unrecognized subcommand 'rum' => did you mean `run`?
        rn => unrecognized subcommand 'rn' => did you mean `run`?
        kernel --db x => 'kernel' takes a subcommand: get, list, build, compare, rm => schedlab kernel --help
        run --roundz 3 => unexpected argument '--roundz' found => did you mean `--rounds`?
        tag => the following required arguments were not provided: <SELECT>, <NAME> => schedlab tag --help
        run --seed x => invalid value 'x' for '--seed <N>': not a whole number
          => a number without a sign or a unit, as 3
        run --warmup 0s -- true => invalid value '0s' for '--warmup <N>': not a whole number
          => a number without a sign or a unit, as 3
        try x.patch --seeds 99999999999999999999
          => invalid value '99999999999999999999' for '--seeds <N>': too large
          => a smaller number
        # The cause has a hint of its own.
        report --margin 2 => invalid value '2' for '--margin <PERCENT>': `2` is not a margin
          => 2% or throughput=1%, from 0.001% to 100%
        compare --over host => invalid value 'host' for '--over <WHAT>': none of hosts => did you mean `hosts`?
        run mine.toml --aa --variant x:nice=1 => the argument '--aa' cannot be used with --variant <VARIANT>
          => schedlab run --help
        run --until-decided --rounds 3 => the argument '--until-decided' cannot be used with --rounds <N>
          => schedlab run --help
        run --seed 1 --seed 2 => the argument '--seed <N>' cannot be used multiple times => schedlab run --help
        run --html x => unexpected argument '--html' found => -o page.html: the ending says the format
        list runs a b => unexpected argument 'b' found => schedlab list --help
    "#;
    let problem = |words: &[&str]| {
        let words: Vec<OsString> = ["schedlab"].iter().chain(words).map(OsString::from).collect();
        let error = Cli::command().try_get_matches_from(&words).unwrap_err();
        as_problem(&error, &Cli::command(), &words).to_string()
    };
    for (words, expected) in rows(table) {
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(problem(&words), expected.join("\nhint: "));
    }
    let names = problem(&["--db", "x"]);
    assert!(names.contains(" score, ") && !names.contains("fleet-task"), "{names}");
}

fn help(words: &[&str]) -> String {
    let words = ["schedlab"].iter().chain(words).map(OsString::from);
    let (command, words) = asked(Cli::command(), words, is_topic);
    command.term_width(80).try_get_matches_from(words).unwrap_err().to_string()
}

#[test]
fn all_commands_are_on_one_screen_each_in_one_line() {
    let text = help(&["--help"]);
    assert!(text.lines().count() <= 40, "{text}");
    for line in text.lines() {
        assert!(line.len() <= 80, "{line}");
    }
    let mut named: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
    named.sort_unstable();
    let cli = Cli::command();
    let shown = cli.get_subcommands().filter(|command| !command.is_hide_set());
    let mut all: Vec<&str> = shown.map(Command::get_name).collect();
    all.sort_unstable();
    assert_eq!(named, all);
}

#[test]
fn no_line_of_a_command_is_wider_than_a_narrow_terminal() {
    let text = overview(&Cli::command(), 50);
    let (_, groups) = text.split_once("\nMeasure\n").unwrap();
    let lines = groups.lines().take_while(|line| !line.starts_with("Options:"));
    let lines: Vec<&str> = lines.collect();
    assert!(lines.len() > 30 && lines.iter().all(|line| line.len() <= 50), "{text}");
}

/// A new option has to be worth one that goes; one for all commands counts once.
#[test]
fn there_are_no_more_options_than_people_can_know() {
    fn count(command: &Command) -> usize {
        let is_shown = |arg: &&Arg| !arg.is_hide_set() || arg.is_global_set();
        let own = command.get_arguments().filter(|arg| arg.get_long().is_some());
        let own = own.filter(is_shown);
        let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        own.count() + shown.map(count).sum::<usize>()
    }
    let options = count(&Cli::command());
    assert!(options <= MAX_OPTIONS, "{options} options");
}

fn renamed_in(words: &[&str]) -> Option<&'static str> {
    let words: Vec<OsString> = ["schedlab"].iter().chain(words).map(OsString::from).collect();
    let error = Cli::command().try_get_matches_from(&words).unwrap_err();
    renamed(&error, called(&Cli::command(), &words).0)
}

#[test]
fn spellings_of_before_are_none_of_today_and_are_answered() {
    for (words, now) in [
        (&["report", "--width", "80"][..], "COLUMNS=100"),
        (&["list", "runs", "--since=7d"], "since=7d"),
        (&["list", "runs", "-n", "3"], "last:3"),
        (&["run", "--html", "x"], "-o page.html"),
        (&["run", "--fleet", "slurm", "--exclusive"], "slurm,exclusive"),
        (&["score", "--for", "1s"], "--duration"),
        (&["watch", "-o", "x", "true"], "--command-output"),
        (&["try", "x.patch", "--print"], "--dry-run"),
        (&["show", "--output"], "--program-output"),
    ] {
        let hint = renamed_in(words);
        assert!(hint.is_some_and(|hint| hint.contains(now)), "{now}: {hint:?}");
    }
    // Not a spelling of before, and spellings of other commands.
    for words in [
        &["run", "--rouns", "3"][..],
        &["score", "-n", "3"],
        &["run", "--tag", "x"],
        &["doctor", "-o", "x"],
        &["kernel", "list", "--clear"],
    ] {
        assert_eq!(renamed_in(words), None, "{words:?}");
    }
}

#[test]
fn all_commands_have_one_layout_and_many_options_have_headings() {
    fn paths(command: &Command, path: &[String]) -> Vec<Vec<String>> {
        let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let of_sub = |sub: &Command| {
            let path = [path, &[sub.get_name().to_string()]].concat();
            [vec![path.clone()], paths(sub, &path)].concat()
        };
        shown.flat_map(of_sub).collect()
    }
    let paths = paths(&Cli::command(), &[]);
    assert!(paths.len() > 30, "{paths:?}");
    for path in paths {
        for ask in ["--help", ALL] {
            let words: Vec<&str> = path.iter().map(String::as_str).chain([ask]).collect();
            let text = help(&words);
            // clap's long form puts the text below the option, and a blank line between two.
            assert!(
                text.contains("-h, --help  ") && !text.contains("with '-h'"),
                "{path:?}: {text}"
            );
        }
    }
    let headings = ["Options:", "How much:", "Verdicts:", "Output:"];
    for (command, expected) in [("run", true), ("report", false)] {
        let text = help(&[command, "--help"]);
        let found = headings[1..].iter().all(|heading| text.contains(heading));
        assert_eq!((text.contains(headings[0]), found), (true, expected), "{text}");
    }
    let text = help(&["list", "--help"]);
    assert!(text.contains("Things to list [default: workloads]\n          workloads\n"), "{text}");
}

#[test]
fn what_few_people_use_is_in_the_whole_help_alone() {
    let short = help(&["run", "--help"]);
    assert!(short.lines().count() <= 60, "{} lines: {short}", short.lines().count());
    let whole = help(&["run", ALL]);
    for (option, is_short) in
        [("--rounds", true), ("--output", true), ("--shard", false), ("--verify", false)]
    {
        assert_eq!((short.contains(option), whole.contains(option)), (is_short, true), "{option}");
    }
    assert!(short.contains("schedlab run --help-all"), "{short}");
    assert!(!whole.contains("--help-all"), "{whole}");
    // Words behind `--` are a command's.
    let (_, words) =
        asked(Cli::command(), ["run", "--", "x", ALL].map(OsString::from).into_iter(), is_topic);
    assert_eq!(words[3], ALL);
}
