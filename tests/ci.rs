//! `docs/ci/`: the files for GitHub, GitLab and Buildbot call one script, and its exit code says whether a scheduler's
//! expectations hold. The commands of each file run here, with the null backend in place of the lab.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::home::Home;
use crate::support::{checkout, ended, skip, stderr, stdout, write_script};

/// Each file, and a program for Python that prints what it holds as JSON.
const FILES: [(&str, &str); 3] =
    [("github.yml", YAML), ("gitlab.yml", YAML), ("buildbot_schedlab.py", BUILDBOT)];
const YAML: &str = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
/// Steps are the words that they are made with; those of the file's factory.
const BUILDBOT: &str = r#"
import json, runpy, sys, types
sys.dont_write_bytecode = True
class Words:
    def __getattr__(self, name):
        return lambda *words, **named: {"step": name, **named} if named else words[0]
plugins = types.ModuleType("buildbot.plugins")
plugins.steps = plugins.util = Words()
results = types.ModuleType("buildbot.process.results")
results.SUCCESS, results.FAILURE, results.EXCEPTION, results.WARNINGS = "SFXW"
sys.modules.update({name: types.ModuleType(name) for name in ("buildbot", "buildbot.process")})
sys.modules.update({module.__name__: module for module in (plugins, results)})
print(json.dumps(runpy.run_path(sys.argv[1])["factory"]("https://example.org/scheduler.git")))
"#;
const CALL: &str = "sh ci/schedlab-test.sh ci/scheduler.toml";
const PLAN: &str = "schema = 1\n[measure]\nrounds = 12\n[[variant]]\nname = \"default\"\n[[variant]]\n\
    name = \"ours\"\nscx = \"fifo\"\n[[workload]]\nname = \"web\"\nuse = \"schbench\"\n";
const HOLDS: &str = "[[expect]]\nmetric = \"throughput\"\nfrom = \"0.5x\"\nto = \"2x\"\n";
const FAILS: &str = "[[expect]]\nmetric = \"wakeup_p99\"\nfrom = \"3x\"\nwhy = \"*so* in 2019\"\n";
const OPEN: &str = "[[expect]]\nmetric = \"throughput\"\nis = \"better\"\n";

/// A scheduler's repository with the script and this plan.
fn repository(plan: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("ci")).unwrap();
    let script = "schedlab-test.sh";
    let own = checkout().join("docs/ci").join(script);
    fs::copy(own, folder.path().join("ci").join(script)).unwrap();
    fs::write(folder.path().join("ci/scheduler.toml"), plan).unwrap();
    folder
}

/// As CI calls it: in the repository, without a home or an input of a user.
fn shell(repository: &Path, command: &str, environment: &[(&str, &str)]) -> Output {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-e", "-c", command]).current_dir(repository).stdin(Stdio::null());
    shell.env_clear().env("PATH", "/usr/bin:/bin").env("XDG_CACHE_HOME", ".cache");
    shell.env("HOME", repository).envs(environment.iter().copied());
    shell.output().unwrap()
}

/// The content of the file; `None` where Python or its YAML is missing.
fn parsed(file: &str, program: &str) -> Option<Value> {
    let has_yaml = Command::new("python3").args(["-c", "import yaml"]).output();
    has_yaml.ok().filter(|output| output.status.success())?;
    let path = checkout().join("docs/ci").join(file);
    let output = Command::new("python3").args(["-c", program]).arg(path).output().unwrap();
    assert!(output.status.success(), "{file}: {}", stderr(&output));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The commands that CI runs in a shell, and the places that it keeps or shows afterwards.
fn commands(file: &str, value: &Value) -> Vec<String> {
    let words = |value: &Value| {
        let words = value.as_array().into_iter().flatten().map(|word| word.as_str().unwrap());
        words.collect::<Vec<_>>().join(" ")
    };
    match file {
        "github.yml" => {
            let steps = value["jobs"]["schedlab"]["steps"].as_array().expect(file);
            steps.iter().filter_map(|step| step["run"].as_str().map(str::to_string)).collect()
        }
        "gitlab.yml" => {
            let script = value["schedlab"]["script"].as_array().expect(file);
            script.iter().map(|line| line.as_str().unwrap().to_string()).collect()
        }
        _ => {
            let steps = value.as_array().expect(file).iter();
            steps
                .filter(|step| step["step"] == "ShellCommand")
                .map(|step| words(&step["command"]))
                .collect()
        }
    }
}

#[test]
fn the_file_of_each_ci_runs_the_script_and_keeps_its_cache_and_results() {
    let repository = repository(&format!("{PLAN}{HOLDS}"));
    let own = [("SCHEDLAB", env!("CARGO_BIN_EXE_schedlab")), ("SCHEDLAB_BACKEND", "null")];
    for (file, program) in FILES {
        let Some(value) = parsed(file, program) else { return skip("python3-yaml") };
        let commands = commands(file, &value);
        assert_eq!(commands, [CALL], "{file}");
        let results = repository.path().join("schedlab-results");
        let output = shell(repository.path(), &commands[0], &own);
        assert_eq!(output.status.code(), Some(0), "{file}: {}", stderr(&output));
        let kept: Vec<String> = fs::read_dir(&results)
            .unwrap()
            .map(|file| format!("schedlab-results/{}", file.unwrap().file_name().display()))
            .collect();
        let text = value.to_string();
        assert!(kept.contains(&"schedlab-results/results.xml".to_string()), "{kept:?}");
        assert!(
            kept.iter().any(|path| text.contains(path)) || text.contains("\"schedlab-results\""),
            "{file} keeps none of {kept:?}"
        );
        fs::remove_dir_all(&results).unwrap();
    }
    let buildbot = parsed(FILES[2].0, FILES[2].1).expect("Python");
    let ends = serde_json::json!({ "0": "S", "1": "F", "2": "X", "3": "W" });
    assert_eq!(buildbot[1]["decodeRC"], ends, "{buildbot}");
}

#[test]
fn a_job_ends_with_what_its_expectations_come_to() {
    let cases = [
        (format!("{PLAN}{HOLDS}"), "", 0, "| HOLDS | ours throughput is 0.5x to 2x |"),
        (
            format!("{PLAN}{HOLDS}{FAILS}"),
            "",
            1,
            "| **FAILS** | ours wakeup\\_p99 is at least 3x; \\*so\\* in 2019 |",
        ),
        (format!("{PLAN}{OPEN}"), "--rounds 2", 3, "| **OPEN** | ours throughput is better |"),
        (PLAN.to_string(), "", 2, "schedlab test ended with 2 before anything was tested"),
    ];
    for (plan, options, code, line) in cases {
        let repository = repository(&plan);
        let step = repository.path().join("step.md");
        fs::write(&step, "before\n").unwrap();
        let own = [
            ("SCHEDLAB", env!("CARGO_BIN_EXE_schedlab")),
            ("SCHEDLAB_BACKEND", "null"),
            ("SCHEDLAB_OPTIONS", options),
            ("GITHUB_STEP_SUMMARY", step.to_str().unwrap()),
        ];
        let output = shell(repository.path(), CALL, &own);
        let shown = stdout(&output);
        assert_eq!(output.status.code(), Some(code), "{shown} {}", stderr(&output));
        assert!(shown.contains(line), "{line}: {shown}");
        let results = repository.path().join("schedlab-results");
        assert_eq!(fs::read_to_string(results.join("summary.md")).unwrap(), shown);
        assert_eq!(fs::read_to_string(&step).unwrap(), format!("before\n{shown}"));
        assert_eq!(results.join("results.xml").exists(), code != 2, "{shown}");
    }
}

#[test]
fn the_program_comes_from_an_archive_with_the_right_sum_and_fetches_the_kernels_of_the_plan() {
    let plan = "[[variant]]\nkernel = [\"debian:6.12\", \"debian:6.18\"]\n[lab]\nkernel = \"debian:6.12\"\n";
    let repository = repository(plan);
    let path = |name: &str| repository.path().join(name);
    for folder in ["bin", "schedlab-1.2.3"] {
        fs::create_dir(path(folder)).unwrap();
    }
    write_script(&path("bin/qemu-system-x86_64"), "exit 0");
    write_script(&path("schedlab-1.2.3/schedlab"), "echo \"$@\" >>calls; [ $1 != test ] || exit 3");
    let archive =
        "tar -czf archive.tar.gz schedlab-1.2.3 && sha256sum archive.tar.gz | cut -d' ' -f1";
    let sum = stdout(&shell(repository.path(), archive, &[])).trim().to_string();
    let search = format!("{}:/usr/bin:/bin", path("bin").display());
    let job = |sum: &str| {
        let own =
            [("PATH", &*search), ("SCHEDLAB_ARCHIVE", "archive.tar.gz"), ("SCHEDLAB_SHA256", sum)];
        shell(repository.path(), CALL, &own)
    };
    let wrong = ended(job(&sum.replace(|c: char| c.is_ascii_digit(), "0")), 3);
    assert!(stderr(&wrong).contains("error: archive.tar.gz has another SHA-256"), "{wrong:?}");
    assert!(!path("calls").exists(), "another program was started");
    for _ in 0..2 {
        ended(job(&sum), 3);
        let calls = fs::read_to_string(path("calls")).unwrap();
        let calls: Vec<&str> = calls.lines().collect();
        assert_eq!(calls[0], "kernel get debian:6.12 debian:6.18");
        assert!(calls[1].starts_with("test ci/scheduler.toml --backend lab --db "), "{calls:?}");
        assert_eq!(calls[2..], ["cache rm stale"], "{calls:?}");
        // It is in the cache now.
        for used in ["archive.tar.gz", "calls"] {
            _ = fs::remove_file(path(used));
        }
    }
    let none = shell(repository.path(), CALL, &[]);
    assert!(stderr(&none).contains("hint: set SCHEDLAB_ARCHIVE and SCHEDLAB_SHA256"), "{none:?}");
    let absent = ended(shell(repository.path(), CALL, &[("SCHEDLAB", "/nonexistent")]), 3);
    assert!(stderr(&absent).contains("\nhint: set SCHEDLAB "), "{absent:?}");
    assert_eq!(stderr(&absent).lines().count(), 2, "{absent:?}");
}

#[test]
fn the_default_kernel_is_fetched_only_for_a_plan_that_may_boot_it() {
    for (plan, fetched) in [
        ("[lab]\ncpus = 2\nkernel = \"./bzImage\"\n[[variant]]\nname = \"a\"\n", None),
        ("[lab]\ncpus = 2\n[[variant]]\nkernel = \"./bzImage\"\n", Some("debian:6.18")),
        ("[lab]\nkernel = \"debian:6.1\"\n", Some("debian:6.1")),
    ] {
        let repository = repository(plan);
        let path = |name: &str| repository.path().join(name);
        fs::create_dir(path("bin")).unwrap();
        write_script(&path("bin/qemu-system-x86_64"), "exit 0");
        write_script(&path("bin/schedlab"), "echo \"$@\" >>calls");
        let search = format!("{}:/usr/bin:/bin", path("bin").display());
        ended(shell(repository.path(), CALL, &[("PATH", &search)]), 0);
        let calls = fs::read_to_string(path("calls")).unwrap();
        let got = calls.lines().find_map(|line| line.strip_prefix("kernel get "));
        assert_eq!(got, fetched, "{plan}");
    }
}

#[test]
fn the_plan_of_the_example_is_one_for_the_lab() {
    let home = Home::new();
    let plan = checkout().join("docs/ci/scheduler.toml");
    let words = ["test", plan.to_str().unwrap(), "--dry-run", "--backend", "null"];
    home.ok(&words);
    let text = fs::read_to_string(plan).unwrap();
    assert!(
        text.contains("scx ") && text.contains("[lab]") && text.contains("[[expect]]"),
        "{text}"
    );
}
