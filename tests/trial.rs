//! `schedlab try` and its `--bisect`, on a machine whose apt, `make`, compiler and QEMU are stubs.
//! tests/lab.rs has a real trial.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use schedlab::model::testing::guest_facts;
use schedlab::model::{EXIT_CODE, GuestFacts, GuestMessage, Topology};
use serde_json::{Value, json};

use crate::kernel_build::{Site, git, state, tree};
use crate::kernels::on_amd64;
use crate::support::{done, ended, joined, schedlab, stderr, stdout};

/// A guest's answer depends on the slice in its kernel and the seed of its run; other machines fail.
const QEMU: &str = r#"case "$*" in
--version) echo 'QEMU emulator version 10.0.2'; exit;;
'-L help') exit;;
esac
for word; do
    case $word in
    file,id=results,path=*) results=${word#*path=};;
    name=opt/schedlab/run,file=*) spec=${word#*file=};;
    esac
    [ "$before" != -kernel ] || kernel=$word
    before=$word
done
[ -n "$kernel" ] || exit 1
slice=$(grep -ao 'slice = [0-9]' "$kernel")
seed=$(grep -o '"seed":[0-9]*' "$spec" | head -n 1)
cat "$F/answer-${slice#*= }-${seed#"${seed%?}"}" >"$results"
exit EXIT_CODE"#;
const PLAN: &str = "schema = 1\n[measure]\nduration = \"100ms\"\nwarmup = \"20ms\"\nwindow = \"50ms\"\n\
                    rounds = 10\n[lab]\ncpus = 1\nseeds = 10\n[[workload]]\nuse = \"spin\"\n";
const CASE: &str = "schema = 1\n[measure]\nduration = \"200ms\"\nwarmup = \"0s\"\nwindow = \"100ms\"\n\
                    [lab]\ncpus = 1\nseeds = 1\n[[workload]]\nuse = \"spin\"\n";
/// Throughputs of kernels by their slice, relative to that of slice 1. The last one is halfway.
const EFFECTS: [(u8, f64); 3] = [(1, 1.0), (2, 0.5), (3, std::f64::consts::FRAC_1_SQRT_2)];

/// A site with guests.
struct Lab(Site);

impl Lab {
    fn new() -> Lab {
        let site = Site::new();
        site.machine.stub("qemu-system-x86_64", &QEMU.replace("EXIT_CODE", &EXIT_CODE.to_string()));
        site.file("plan.toml", PLAN);
        let lab = Lab(site);
        let words = ["run", "./plan.toml", "--backend", "null", "--events", "events", "--quiet"];
        assert!(lab.command(&[&words[..], &["--rounds", "30"]].concat()).status.success());
        let events = fs::read_to_string(lab.home().join("events")).unwrap();
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let outcomes = events.filter(|event| event["event"] == "run_ended");
        let mut outcomes = outcomes.map(|mut event| event["outcome"].take());
        for (slice, effect) in EFFECTS {
            for digit in 0..10 {
                let answer = answer(outcomes.next().unwrap(), effect);
                fs::write(lab.0.machine.path(&format!("answer-{slice}-{digit}")), answer).unwrap();
            }
        }
        lab
    }

    fn home(&self) -> PathBuf {
        self.0.machine.path("home")
    }

    fn command(&self, words: &[&str]) -> Output {
        let mut command = schedlab(&self.home(), words);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.0.machine.path("bin").display()));
        command.output().unwrap()
    }

    fn tries(&self, words: &[&str]) -> Output {
        let always = ["--plan", "./plan.toml", "--realtime"];
        self.command(&[&["try"], words, &always].concat())
    }

    /// The message of a trial that is refused before anything is copied or compiled.
    fn refuses(&self, words: &[&str]) -> String {
        let before = self.0.machine.calls();
        let output = self.tries(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        let calls = self.0.machine.calls();
        for call in calls[before.len()..].lines() {
            let is_work = ["make ", "cp "].iter().any(|name| call.starts_with(name));
            assert!(!is_work && !call.contains(" -kernel "), "{call}");
        }
        stderr(&output)
    }
}

/// The lines of a guest, with a throughput as large as this effect makes it.
fn answer(mut outcome: Value, effect: f64) -> String {
    for metric in outcome["result"]["sets"][0]["metrics"].as_array_mut().unwrap() {
        if metric["name"] == "throughput" {
            let value = metric["value"]["known"].as_f64().unwrap();
            metric["value"]["known"] = json!(value * effect);
        }
    }
    let topology = Topology { online: (0..1).collect(), ..Topology::default() };
    let facts = GuestFacts { topology, ..guest_facts("6.12.1") };
    let lines = [GuestMessage::Started, GuestMessage::Ready(Box::new(facts))];
    let lines: String =
        lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
    format!("{lines}{}\n", json!({ "type": "ended", "outcome": outcome }))
}

fn commit(tree: &Path, title: &str, files: &[(&str, &str)]) -> String {
    for (name, text) in files {
        fs::write(tree.join(name), text).unwrap();
    }
    git(tree, &["commit", "--quiet", "--all", "--message", title]);
    git(tree, &["rev-parse", "HEAD"]).trim().to_string()
}

#[test]
fn a_series_as_git_writes_it_is_tried_whole_or_not_at_all() {
    let Some(lab) = on_amd64(Lab::new) else { return };
    let tree = tree(&lab.0);
    let base = git(&tree, &["rev-parse", "HEAD"]).trim().to_string();
    let title = "sched: a longer slice \u{2014} see =20";
    commit(&tree, title, &[("kernel/fair.c", "int slice = 2;\n")]);
    commit(&tree, "sched: the core, too", &[("kernel/core.c", "int core = 2;\n")]);
    let words = ["format-patch", "--quiet", "-v2", "--cover-letter", "--base", &base, "-2"];
    git(&tree, &[&words[..], &["--output-directory", "../series"]].concat());
    let mut files: Vec<String> = fs::read_dir(lab.home().join("series"))
        .unwrap()
        .map(|entry| format!("./series/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    files.sort();
    let [cover, first, second] = [0, 1, 2].map(|at| files[at].as_str());

    for part in [&[cover, first][..], &[first]] {
        let message = lab.refuses(part);
        assert!(message.contains("[PATCH v2 1/2] is there, 2/2 is missing\nhint: "), "{message}");
    }
    let output = done(lab.tries(&[cover, first, second]));
    let (text, message) = (stdout(&output), stderr(&output));
    assert!(message.contains(&format!("was made for the commit {base}, and is applied to")));
    let words = joined(&text);
    assert_eq!(words.matches(", patch v2-000").count(), 2, "{text}");
    assert!(text.contains("WORSE"), "{text}");

    // Now on the tree that they were made for, with one of them already applied.
    let message = lab.refuses(&[cover, first, second, "--base", "./linux"]);
    assert!(message.contains("kernel/fair.c: it is applied already"), "{message}");
    let output = done(lab.tries(&[first, "--allow-part", "--tree", "./linux", "--base", &base]));
    let message = stderr(&output);
    assert!(message.contains("note: a part of a series is applied: [PATCH v2 1/2] is there"));
    assert!(!message.contains("was made for"), "{message}");
}

#[test]
fn a_patch_whose_context_is_not_there_is_refused_before_anything_is_copied() {
    let Some(lab) = on_amd64(Lab::new) else { return };
    let tree = tree(&lab.0);
    let lines = "a\nb\nSCHED_WARN_ON(!se->on_rq)\nint slice = 1;\nc\nd\ne\n";
    fs::write(tree.join("kernel/fair.c"), lines).unwrap();
    let patch = "--- a/kernel/fair.c\n+++ b/kernel/fair.c\n@@ -1,7 +1,7 @@\n a\n b\n \
                 SCHED_WARN_ON(!se->on_rq)\n-int slice = 1;\n+int slice = 2;\n c\n d\n e\n";
    lab.0.file("right.patch", patch);
    for (name, from, to) in [
        ("inner.patch", "on_rq)", "on_rqq)"),
        ("first.patch", "@@\n a\n", "@@\n x\n"),
        ("last.patch", " e\n", " x\n"),
    ] {
        assert!(patch.contains(from));
        lab.0.file(name, &patch.replace(from, to));
        let message = lab.refuses(&[&format!("./{name}"), "--base", "./linux"]);
        assert!(message.contains("hunk 1 does not fit at line 1"), "{name}: {message}");
    }
    fs::write(tree.join("kernel/fair.c"), format!("\n\n{lines}")).unwrap();
    let output = done(lab.tries(&["./right.patch", "--base", "./linux"]));
    let note = "note: right.patch: kernel/fair.c: hunk 1 fits at line 3 (+2 lines)\n";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
    assert!(stdout(&output).contains("1 hunk at other lines than the patch names"), "{output:?}");
}

#[test]
fn a_bisection_names_the_commit_and_skips_what_cannot_be_decided() {
    let Some(lab) = on_amd64(Lab::new) else { return };
    let tree = tree(&lab.0);
    let slice = |text: &str| format!("int slice = {text};\n");
    let history = [
        ("a comment", "1; /* 1 */", "good"),
        ("no compiler takes it", "SYNTAX", "skipped"),
        ("halfway", "3", "skipped"),
        ("a longer slice", "2", "bad"),
        ("another comment", "2; /* 2 */", "bad"),
        ("the last one", "2; /* 3 */", "bad"),
    ];
    let commits =
        history.map(|(title, text, _)| commit(&tree, title, &[("kernel/fair.c", &slice(text))]));
    let before = state(&tree);
    let output = done(lab.tries(&["--bisect", "v1", "HEAD", "--tree", "./linux"]));
    let text = stdout(&output);
    let short = |commit: &str| commit[..12].to_string();
    // The answer needs the first four; the fifth may have been the second half of the first step.
    for ((title, _, is), commit) in history.iter().zip(&commits).take(4) {
        let is_it = |line: &str| line.starts_with(is) && line.contains(&short(commit));
        assert!(text.lines().any(is_it), "{is} {title}: {text}");
    }
    let found = format!("first bad commit: {} a longer slice", short(&commits[3]));
    assert!(text.contains(&found), "{text}");
    assert!(text.contains("2 commits could not be decided"), "{text}");
    assert!(text.contains("throughput -50 %"), "{text}");
    assert!(state(&tree) == before, "the repository is only read");
    let message = stderr(&output);
    assert!(message.contains(" of 80 runs") && !message.contains(" of 160 runs"), "three looks");

    let turned = ended(lab.tries(&["--bisect", "HEAD", "v1", "--tree", "./linux"]), 2);
    assert!(stderr(&turned).contains("hint: the good revision is the older one"), "{turned:?}");
    let same = ended(lab.tries(&["--bisect", "v1", &commits[0], "--tree", "./linux"]), 3);
    assert!(stderr(&same).contains("do not differ in what is judged"), "{same:?}");
}

impl Lab {
    /// With a case: the kernel of slice 2 panics in each run, that of slice 3 in half of them.
    fn with_case() -> Lab {
        let lab = Lab::new();
        lab.0.file("case.toml", CASE);
        let reason = "the guest's kernel gave up: Kernel panic - not syncing: invented";
        let failed =
            json!({ "type": "ended", "outcome": { "status": "failed", "reason": reason } });
        for (slice, digit) in (0..10).flat_map(|digit| [(2, digit), (3, digit)]) {
            if slice == 2 || digit % 2 == 0 {
                let path = lab.0.machine.path(&format!("answer-{slice}-{digit}"));
                let answer = fs::read_to_string(&path).unwrap();
                let ready: String =
                    answer.lines().take(2).map(|line| format!("{line}\n")).collect();
                fs::write(path, format!("{ready}{failed}\n")).unwrap();
            }
        }
        lab
    }

    /// The answer of a trial by the case, which ends with this exit code.
    fn judges(&self, words: &[&str], code: i32) -> (String, String) {
        let case = ["--case", "./case.toml", "--realtime"];
        let output = ended(self.command(&[&["try"], words, &case].concat()), code);
        (joined(&stdout(&output)), stderr(&output))
    }
}

#[test]
fn a_case_is_gone_or_still_holds_or_is_new() {
    let Some(lab) = on_amd64(Lab::with_case) else { return };
    let tree = tree(&lab.0);
    let slice = |number: u32| format!("int slice = {number};\n");
    let commits: Vec<String> = [2, 1, 3]
        .map(|number| commit(&tree, "a slice", &[("kernel/fair.c", &slice(number))]))
        .to_vec();
    let judges = |text: &str, base: &str, code: i32| {
        fs::write(tree.join("kernel/fair.c"), text).unwrap();
        lab.judges(&["--tree", "./linux", "--base", base], code)
    };
    let dry = |base: &str| lab.judges(&["--tree", "./linux", "--base", base, "--dry-run"], 0).0;
    let runs = "./case.toml: 2 kernels with 8 seeds: 16 runs, 3 s of virtual time; where that does \
                not decide, with 32 at most: 64 runs, 13 s of virtual time";
    let said = dry(&commits[0]);
    assert_eq!(said.matches(", to be built").count(), 2, "{said}");
    assert!(said.contains("base: try-") && said.ends_with(runs), "{said}");
    let refused =
        ["try", "--tree", "./linux", "--base", "v9", "--dry-run", "--case", "./case.toml"];
    assert!(stderr(&ended(lab.command(&refused), 2)).contains("v9"));
    // A plan ends after two runs where each of them fails.
    let (text, _) = judges(&slice(1), &commits[0], 0);
    for part in [
        "./case.toml: ",
        "base: kernel words in 2 of 2 runs: the kernel gives up",
        "patched: no rule is broken in 32 runs",
        "the case is gone: chance of error 0.53",
        "pictures: schedlab hunt --confirm ./case.toml --kernel try-",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(dry(&commits[0]).matches(", in the cache;").count(), 2);
    let (text, message) = judges(&slice(2), "v1", 1);
    assert!(text.contains("the case is new: chance of error") && message.contains("is new"));
    let (text, _) = judges("int slice = 2; /* slower */\n", &commits[0], 1);
    assert!(text.contains("the case still holds"), "{text}");
    let (text, message) = judges("int slice = 1; /* slower */\n", "v1", 3);
    assert!(text.contains("the case holds on neither"), "{text}");
    assert!(message.contains("\nhint: more trajectories: --seeds 32"), "{message}");
    // Half of eight runs are too few for one look.
    let (text, message) = judges(&slice(1), &commits[2], 0);
    assert!(message.contains("not decided; now 16 seeds") && text.contains("in 8 of 16 runs"));
    let both = ["--case", "./case.toml", "--plan", "./plan.toml", "--tree", "./linux"];
    let refused = ended(lab.command(&[&["try"], &both[..]].concat()), 2);
    assert!(stderr(&refused).contains("--plan"), "{refused:?}");
    let none = ["try", "--case", "nope", "--tree", "./linux", "--base", "v1"];
    assert!(stderr(&ended(lab.command(&none), 2)).contains("nope"));
}

#[test]
fn a_bisection_names_the_commit_that_brought_a_case_and_the_one_that_removed_it() {
    let Some(lab) = on_amd64(Lab::with_case) else { return };
    let tree = tree(&lab.0);
    let slices = ["1; /* 1 */", "2", "2; /* 2 */", "SYNTAX", "1; /* 2 */", "1; /* 3 */"];
    let commits = slices.map(|text| {
        commit(
            &tree,
            &format!("to {text}"),
            &[("kernel/fair.c", &format!("int slice = {text};\n"))],
        )
    });
    let bisects = |ends: [&str; 2], code| {
        lab.judges(&[&["--bisect"], &ends[..], &["--tree", "./linux"]].concat(), code)
    };
    let words = ["--bisect", "v1", "HEAD", "--tree", "./linux", "--dry-run"];
    let (text, _) = lab.judges(&words, 0);
    for part in [
        "6 commits may be the one: both ends are built, and about 3 between",
        "./case.toml: 5 kernels with 8 seeds: 40 runs, 8 s of virtual time",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let none = ["try", "--bisect", "HEAD", "v1", "--tree", "./linux", "--dry-run"];
    assert!(stderr(&ended(lab.command(&none), 2)).contains("no commit lies between"));
    let (text, _) = bisects(["v1", &commits[2]], 0);
    let head = "kernel words in 0 of 32 runs on good, 2 of 2 runs on bad: ";
    assert!(text.starts_with(head), "{text}");
    let brought = format!("first commit with the case: {} to 2", &commits[1][..12]);
    assert!(text.contains(&brought), "{text}");
    let (text, _) = bisects([&commits[2], "HEAD"], 0);
    let removed = format!("first commit without the case: {} to 1; /* 2 */", &commits[4][..12]);
    for part in [
        removed.as_str(),
        "runs with the case",
        "the chances of error of the ends and of all steps add up to",
        "1 commit could not be decided: it may be the first commit without the case",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("against good") && !text.contains("first bad"), "{text}");
    let (_, message) = bisects(["HEAD", "v1"], 2);
    assert!(message.contains("no commit lies between"), "{message}");
    let (_, message) = bisects(["v1", "HEAD"], 3);
    assert!(
        message.contains("do not differ in the case: no rule is broken in 8 runs"),
        "{message}"
    );
}
