//! Command lines as people and scripts write them, through a `clap::Command`.

use clap::{Command, FromArgMatches};

use crate::model::Value;

use super::*;
use crate::compat::Whose;

fn parsed(line: &str) -> Result<SchbenchArgs, String> {
    let words = std::iter::once("schbench").chain(line.split_whitespace());
    let words = words.map(|word| word.trim_matches('\''));
    let command = SchbenchArgs::augment_args(Command::new("schbench"));
    let matches = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
    SchbenchArgs::from_arg_matches(&matches).map_err(|error| error.to_string())
}

fn machine(allowed: &str) -> Machine {
    Machine { allowed: allowed.parse().expect("CPUs"), online: 4, nodes: 2 }
}

fn ordered(line: &str) -> Result<RunConfig, CompatError> {
    parsed(line).expect(line).config(&machine("0-3"))
}

fn config(line: &str) -> RunConfig {
    ordered(line).expect(line)
}

fn shown(config: &RunConfig, names: &[&str]) -> String {
    let show = |name: &&str| config.params.get(*name).map_or("unset".to_string(), Value::to_string);
    names.iter().map(show).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_command_is_sound() {
    SchbenchArgs::augment_args(Command::new("schbench")).debug_assert();
}

#[test]
fn without_options_it_is_schbench_without_options() {
    let config = config("");
    let names = ["message-threads", "threads", "cache-footprint", "operations", "sleep"];
    assert_eq!(shown(&config, &names), "1 4 256KiB 5 100us");
    let names = ["no-locking", "calibrate", "rps", "auto-rps", "split", "pipe", "message-cpus"];
    assert_eq!(shown(&config, &names), "false false 0 unset unset unset unset");
    assert_eq!(shown(&config, &["worker-cpus", "arrivals", "numa"]), "unset burst false");
    let expected = RunConfig {
        params: config.params.clone(),
        runtime_s: Some(30),
        warmup_s: 0,
        interval_s: 10,
        zero_s: None,
        json: None,
        jobname: None,
        mode: Mode::Requests,
        auto_rps: false,
        notes: vec!["setting worker threads to 4".to_string()],
    };
    assert_eq!(config, expected);
}

#[test]
fn every_way_to_write_an_option_means_the_same() {
    let cases: &[(&str, &[&str])] = &[
        ("-C", &["--calibrate", "--cal", "-C -C"]),
        ("-L", &["--no-locking", "--no_locking", "--no", "--n"]),
        ("-C -L", &["-CL", "-LC", "--cali --no-l"]),
        (
            "-m 2",
            &["-m2", "--message-threads 2", "--message_threads=2", "--message-t 2", "-m 7 -m 2"],
        ),
        ("-t 3", &["-t3", "--threads 3", "--t 3", "-t 0 -t 3", "-t=3"]),
        ("-r 3", &["-r3", "--runtime 3", "--run 3", "--runtime=3", "-r 30 --run 3", "-r 03"]),
        ("-F 128", &["-F128", "--cache-footprint 128", "--cache_footprint 128", "--cac=128"]),
        ("-n 9", &["-n9", "--operations 9", "--o 9"]),
        ("-s 7", &["-s7", "--sleep-usec 7", "--sleep_usec 7", "--sl 7", "--sleep_u=7"]),
        ("-A 50", &["-A50", "--auto-rps 50", "--auto_rps 50", "--a 50"]),
        ("-p 64", &["-p64", "--pipe 64", "--p 64"]),
        ("-R 99", &["-R99", "--rps 99", "--rp 99"]),
        ("-w 5 -r 60", &["-w5 -r60", "--warmuptime 5 --runtime 60", "--wa 5 --ru 60"]),
        ("-i 2", &["-i2", "--intervaltime 2", "--i 2"]),
        ("-z 4", &["-z4", "--zerotime 4", "--z 4"]),
        ("-j out.json", &["-jout.json", "--json out.json", "--js out.json"]),
        ("-J night", &["-Jnight", "--jobname night", "--jo night"]),
        ("-M 1 -W 2-3", &["-M1 -W2,3", "--message-cpus 1 --worker-cpus 2-3"]),
        ("-M 1 -W 2-3", &["--message_cpus=1 --worker_cpus=2,3", "--message-c 1 --wo 2-3"]),
        ("--split 30", &["--sp 30", "--split=30"]),
        ("-R 4 --arrivals uniform", &["--rps 4 --arr=uniform"]),
        ("--numa", &["--nu"]),
        ("-CLF128 -n1", &["-C -L -F 128 -n 1"]),
    ];
    let plain = config("");
    for (first, others) in cases {
        let meant = config(first);
        assert_ne!(meant, plain, "{first} changes nothing");
        for other in *others {
            assert_eq!(config(other), meant, "{other} against {first}");
        }
    }
}

/// Every abbreviation that getopt_long takes for schbench is taken here: no option of ours is in the way.
#[test]
fn every_abbreviation_that_schbench_takes_is_taken() {
    let all = "pipe message-threads message-cpus worker-cpus threads runtime rps auto-rps \
        cache_footprint calibrate no-locking operations sleep_usec warmuptime intervaltime \
        zerotime json jobname split help";
    let all: Vec<&str> = all.split_whitespace().collect();
    for name in &all[..all.len() - 1] {
        for end in 1..=name.len() {
            let short = &name[..end];
            let meant = all.iter().filter(|other| other.starts_with(short)).count();
            let value = match *name {
                "calibrate" | "no-locking" => "",
                _ => "=1",
            };
            let found = parsed(&format!("--{short}{value}"));
            assert_eq!(found.is_ok(), meant == 1, "--{short}: {found:?}");
            if meant == 1 {
                let whole = parsed(&format!("--{name}{value}"));
                assert_eq!(format!("{found:?}"), format!("{whole:?}"), "--{short}");
            }
        }
    }
}

#[test]
fn a_wrong_value_is_reported_with_its_option() {
    let cases = [
        ("-r", "--runtime <SECONDS>", "required"),
        ("-F -n 1", "--cache-footprint <KB>", "required"),
        ("-r -5", "'-5' for '--runtime <SECONDS>'", "below 0"),
        ("-m -1", "'-1' for '--message-threads <N>'", "below 0"),
        ("--split -3", "'-3' for '--split <PERCENT>'", "below 0"),
        ("-n 12x", "'12x' for '--operations <N>'", "not a whole number"),
        ("-n 1.5", "'1.5' for '--operations <N>'", "not a whole number"),
        ("-s=+1", "'+1' for '--sleep-usec <USEC>'", "not a whole number"),
        ("-t ''", "'' for '--threads <N>'", "empty"),
        ("--rps=", "'' for '--rps <N>'", "empty"),
        ("-i 2147483648", "'2147483648' for '--intervaltime <SECONDS>'", "above 2147483647"),
        ("-z 99999999999999999999", "for '--zerotime <SECONDS>'", "above 2147483647"),
        ("-M x", "'x' for '--message-cpus <CPUS>'", "not a CPU number; or write `auto`"),
        ("-M -1", "'-1' for '--message-cpus <CPUS>'", "not a CPU number"),
        ("-W 3-1", "'3-1' for '--worker-cpus <CPUS>'", "runs backwards"),
        ("-W ''", "'' for '--worker-cpus <CPUS>'", "not a CPU number"),
        ("-j ''", "--json <FILE>", "value"),
        ("--arrivals late", "'late' for '--arrivals <HOW>'", "poisson"),
        ("--m 2", "'--m'", "unexpected"),
        ("-r 3 extra", "'extra'", "unexpected"),
        ("-q", "'-q'", "unexpected"),
    ];
    for (line, option, why) in cases {
        let error = parsed(line).expect_err(line);
        assert!(error.contains(option) && error.contains(why), "{line}: {error}");
    }
}

#[test]
fn a_value_that_the_workload_refuses_is_reported_with_its_option_and_range() {
    let usage = |line: &str| match ordered(line) {
        Err(why) => why.text(Whose::User),
        Ok(_) => panic!("{line}: accepted"),
    };
    let cases = [
        (
            "-m 0",
            "--message-threads 0: 0 is below the least that is accepted\nhint: from 1 to 4096",
        ),
        ("-m 0 -M auto", "--message-threads 0: "),
        ("-t 65537", "--threads 65537: "),
        ("-F 1048577", "\nhint: from 0 to 1048576 (KB)"),
        (
            "--split 101",
            "--split 101: 101% is above the most that is accepted\nhint: from 0 to 100 (percent)",
        ),
        ("-A 101", "--auto-rps 101: 101% is above"),
        ("-m 4 -R 3", "-R 3 leaves some of 4 message threads"),
        ("-p 64 -R 9", "-p passes bytes"),
        ("-p 64 -A 9", "-p passes bytes"),
        ("--numa -W 1", "--numa chooses CPUs by node"),
        ("--numa -m 1", "--numa: -m 1 leaves some of 2 NUMA nodes without one"),
        ("--arrivals poisson", "--arrivals poisson needs a rate: -R or -A"),
    ];
    for (line, expected) in cases {
        let text = usage(line);
        assert!(text.contains(expected) && text.contains("\nhint: "), "{line}: {text}");
    }
    for fits in ["-n 0", "-s 0", "-F 0", "-t 0", "-r 0", "-i 0", "-z 0", "-R 0", "-A 0", "-p 0"] {
        assert!(ordered(fits).is_ok(), "{fits}");
    }
    assert_eq!(
        shown(&config("-n 0 -s 0 -F 0"), &["operations", "sleep", "cache-footprint"]),
        "0 0ns 0B"
    );
}

#[test]
fn a_0_turns_off() {
    for off in ["-t 0", "-R 0", "-A 0", "-p 0", "-z 0", "-w 0"] {
        assert_eq!(config(off), config(""), "{off}");
    }
    assert_eq!((config("-r 0").runtime_s, config("-i 0").interval_s), (None, 1));
}

#[test]
fn warm_up_is_only_where_schbench_has_one() {
    let cases = [
        ("-w 5", 5),
        ("-w 5 -r 30", 5),
        ("-w 5 -r 29", 0),
        ("-w 5 -r 0", 5),
        ("-w 5 -R 10", 0),
        ("-w 5 -A 50", 0),
        ("-w 5 -A 0", 5),
        ("-w 5 -p 64", 0),
        ("-r 60", 0),
    ];
    for (line, expected) in cases {
        assert_eq!(config(line).warmup_s, expected, "{line}");
    }
}

#[test]
fn with_numa_each_node_has_a_message_thread_unless_m_is_given() {
    let names = ["numa", "message-threads", "threads"];
    for (line, expected) in [("--numa", "true 2 2"), ("--numa -m 4", "true 4 1"), ("", "false 1 4")]
    {
        assert_eq!(shown(&config(line), &names), expected, "{line}");
    }
}

#[test]
fn modes_are_distinguished() {
    let cases = [
        ("-R 50", "50 unset unset", Mode::Requests, false),
        ("-A 50", "10 50% unset", Mode::Requests, true),
        ("-A 50 -m 16", "16 50% unset", Mode::Requests, true),
        ("-A 50 -R 300", "300 50% unset", Mode::Requests, true),
        ("-R 300 -A 50", "300 50% unset", Mode::Requests, true),
        ("-A 0", "0 unset unset", Mode::Requests, false),
        ("-p 64", "0 unset 64B", Mode::Pipe { bytes: 64 }, false),
        ("-p 1048576", "0 unset 1MiB", Mode::Pipe { bytes: 1 << 20 }, false),
    ];
    for (line, params, mode, auto) in cases {
        let config = config(line);
        assert_eq!(shown(&config, &["rps", "auto-rps", "pipe"]), params, "{line}");
        assert_eq!((config.mode, config.auto_rps), (mode, auto), "{line}");
    }
    let pipe = config("-p 64");
    assert_eq!(config("-p 64 -C --split 30").params, pipe.params);
    assert_eq!(config("-j -").json, Some("-".into()));
    assert_eq!(config("-j ./-").json, Some("./-".into()));
    assert_eq!(config("-J -x").jobname.as_deref(), Some("-x"));
}

/// Line by line as recorded of schbench, in its order.
#[test]
fn notes_are_schbenchs() {
    let cases: &[(&str, &[&str])] = &[
        ("-t 1", &[]),
        ("-m 3", &["setting worker threads to 2"]),
        ("-m 9", &["setting worker threads to 1"]),
        ("-p 1048576 -t 1", &[]),
        ("-p 2000000 -t 1", &["pipe size too big, using 1048576"]),
        (
            "-m 2 -M auto --split 30 -F 16",
            &[
                "auto pinning message and worker threads",
                "setting worker threads to 2",
                "split mode: 30% private (4 KB per thread), 70% shared (11 KB total)",
                "matrix sizes: private=13, shared=21",
                "Pinning to message thread index 0 cpu 0",
                "Pinning to message thread index 1 cpu 1",
            ],
        ),
        (
            "--split 100 -t 1",
            &[
                "split mode: 100% private (256 KB per thread), 0% shared (0 KB total)",
                "matrix sizes: private=104, shared=0",
            ],
        ),
        (
            "-M 3,1 -m 3 -t 1",
            &[
                "Pinning to message thread index 0 cpu 1",
                "Pinning to message thread index 1 cpu 3",
                "Pinning to message thread index 2 cpu 1",
            ],
        ),
        ("-W 0-1 -t 1", &[]),
    ];
    for (line, expected) in cases {
        assert_eq!(config(line).notes, *expected, "{line}");
    }
}

#[test]
fn cpus_are_those_that_are_there() {
    let on = |allowed: &str, line: &str| {
        let config = parsed(line).expect(line).config(&machine(allowed));
        config
            .map(|config| shown(&config, &["message-cpus", "worker-cpus"]))
            .map_err(|why| why.text(Whose::Machine))
    };
    let pinned = [
        ("0-3", "-M 1 -W 2-3", "1 2-3"),
        ("0-3", "-M 1", "1 unset"),
        ("0-3", "-M auto", "0 1-3"),
        ("0-3", "-W auto -m 2", "0-1 2-3"),
        ("0-3", "-M 3 -W auto", "0 1-3"),
        ("2,5-6", "-M auto", "2 5-6"),
    ];
    for (allowed, line, expected) in pinned {
        assert_eq!(on(allowed, line).as_deref(), Ok(expected), "{line} on {allowed}");
    }
    let refused = [
        ("0-1", "-M 5", "-M asks for CPUs 5: 5 cannot be used; there are CPUs 0-1\nhint: lscpu -e"),
        ("0-1", "-W 1-3", "-W asks for CPUs 1-3: 2-3 cannot be used; there are CPUs 0-1\nhint: "),
        ("0-1", "-M auto -m 2", "workers are 3 CPUs; there are 2, CPUs 0-1\nhint: lscpu -e"),
        ("0", "-W auto", "workers are 2 CPUs; there are 1, CPUs 0\nhint: lscpu -e"),
    ];
    for (allowed, line, expected) in refused {
        let text = on(allowed, line).expect_err(line);
        assert!(text.contains(expected), "{line} on {allowed}: {text}");
    }
}

#[test]
fn arrivals_are_the_workloads() {
    let spec = workload::find("schbench").expect("schbench").spec();
    let field = spec.params.iter().find(|field| field.name == "arrivals").expect("arrivals");
    let Kind::Choice(words) = field.kind else { panic!("{field:?}") };
    for word in words {
        assert_eq!(shown(&config(&format!("-R 9 --arrivals {word}")), &["arrivals"]), *word);
    }
}
