//! A disk that is full, breaks or is slow at random moments of commands that write: a command that succeeds has done all,
//! one that fails says why, and what was there before is there. `SCHEDLAB_CAMPAIGN` says how often.
//!
//! strace makes system calls fail; a small file system of its own in memory is full by itself.

use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::strace::{self, Call};
use crate::support::{campaign, skip, stderr, with_mounts};
use crate::writers::{Home, Trial};

struct Fault {
    name: &'static str,
    /// It is injected into one of these.
    calls: &'static [&'static str],
    /// As strace has it.
    action: &'static str,
    /// A command that it meets does what it does all the same.
    is_harmless: bool,
}

const FAULTS: &[Fault] = &[
    Fault {
        name: "no space",
        calls: &["write", "pwrite64", "ftruncate", "fallocate", "mkdir", "rename"],
        action: "error=ENOSPC",
        is_harmless: false,
    },
    Fault {
        name: "I/O error",
        calls: &[
            "write",
            "pwrite64",
            "pread64",
            "fsync",
            "fdatasync",
            "ftruncate",
            "rename",
            "unlink",
        ],
        action: "error=EIO",
        is_harmless: false,
    },
    Fault {
        name: "slow",
        calls: &["pwrite64", "fsync", "fdatasync", "rename"],
        action: "delay_enter=100ms",
        is_harmless: true,
    },
];
/// KiB of the file system beyond what is there before.
const MAX_ROOM_KIB: u64 = 600;

#[test]
fn a_command_whose_disk_fails_is_done_or_says_why() {
    if !strace::works() {
        return;
    }
    let trials = Trial::all();
    let rounds = campaign(trials.len() as u32).div_ceil(trials.len() as u32);
    let mut random = ChaCha8Rng::seed_from_u64(42);
    let mut met: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let names: Vec<&str> = FAULTS.iter().flat_map(|fault| fault.calls).copied().collect();
    for trial in &trials {
        let calls = strace::calls(trial, &names);
        for _ in 0..rounds {
            let fault = FAULTS.choose(&mut random).unwrap();
            let possible: Vec<&Call> =
                calls.iter().filter(|call| fault.calls.contains(&&*call.name)).collect();
            let Some(call) = possible.choose(&mut random) else { continue };
            let is_met = fail(trial, fault, call);
            *met.entry((fault.name, trial.writer.name)).or_default() += u32::from(is_met);
        }
        println!("faults: {met:?}");
    }
    assert!(!met.is_empty(), "no fault met a command");
}

/// Reads of `run`, many of which are those of the check at its end: one that fails is not said to be another program's
/// doing, and the results stay in the store.
#[test]
fn a_read_that_fails_is_not_called_damage_by_another_program() {
    if !strace::works() {
        return;
    }
    let trial = Trial::named("run");
    let calls = strace::calls(&trial, &["pread64"]);
    let mut failed = 0;
    for call in calls.iter().rev().step_by(6) {
        let (home, _) = trial.home();
        let (output, log) = strace::inject(&trial, &home, call, "error=EIO");
        failed += u32::from(log.contains("(INJECTED)"));
        let said = stderr(&output);
        assert!(!said.contains("another program wrote to"), "{call}: {said}");
        assert!(!said.contains(".kept-"), "{call}: {said}");
        assert!(!said.contains("malformed") && !said.contains("damaged"), "{call}: {said}");
    }
    assert!(failed > 10, "{failed} reads failed");
}

#[test]
fn a_command_whose_disk_is_full_is_done_or_says_why() {
    let trials = Trial::all();
    let mut mounts = with_mounts("mount -t tmpfs none /mnt", &Command::new("true"));
    if !mounts.output().is_ok_and(|tried| tried.status.success()) {
        return skip("privilege to mount a file system");
    }
    let rounds = campaign(trials.len() as u32).div_ceil(trials.len() as u32);
    let mut random = ChaCha8Rng::seed_from_u64(43);
    let mut met: BTreeMap<&str, u32> = BTreeMap::new();
    for trial in &trials {
        for _ in 0..rounds {
            let is_full = fill(trial, random.random_range(0..MAX_ROOM_KIB));
            *met.entry(trial.writer.name).or_default() += u32::from(is_full);
        }
        println!("full: {met:?}");
    }
    assert!(met.values().sum::<u32>() > 0, "the disk was never full");
}

/// Lets a call of a command fail. Returns whether it was made.
fn fail(trial: &Trial, fault: &Fault, call: &Call) -> bool {
    let (home, mut facts) = trial.home();
    let (output, log) = strace::inject(trial, &home, call, fault.action);
    let is_met = log.contains("(INJECTED)") || log.contains("(DELAYED)");
    let place = format!("{}: {} at {call}: {}", trial.writer.name, fault.name, stderr(&output));
    // Messages are written, too.
    check(trial, &home, &mut facts, &output, &place, call.name == "write");
    assert!(output.status.success() || !fault.is_harmless, "{place}");
    trial.finish(&home, facts);
    is_met
}

/// Runs a command on a file system with little room. Returns whether it failed.
fn fill(trial: &Trial, room_kib: u64) -> bool {
    let (home, mut facts) = trial.home();
    let folder = trial.folder(&home);
    let disk = tempfile::tempdir().unwrap();
    // Lazy: a program that the command has started may still be there.
    let script = format!(
        "set -e; D='{disk}' H='{home}'; mount -t tmpfs none \"$D\"; cp -a \"$H/.\" \"$D\"
         used=$(df -k --output=used \"$D\" | tail -n 1)
         mount -o remount,size=$((used + {room_kib}))k \"$D\"; mount --bind \"$D\" \"$H\"; cd \"$H\"
         code=0; \"$0\" \"$@\" || code=$?
         cd /; umount --lazy \"$H\"; find \"$H\" -mindepth 1 -delete; cp -a \"$D/.\" \"$H\"; exit $code",
        disk = disk.path().display(),
        home = folder.display(),
    );
    let output = with_mounts(&script, &trial.command(&home)).stdin(Stdio::null()).output().unwrap();
    let place = format!("{}: {room_kib} KiB: {}", trial.writer.name, stderr(&output));
    check(trial, &home, &mut facts, &output, &place, false);
    trial.finish(&home, facts);
    !output.status.success()
}

/// A success has done all; a failure is one of ours, with its reason.
fn check(
    trial: &Trial,
    home: &Home,
    facts: &mut Vec<String>,
    output: &Output,
    place: &str,
    may_be_silent: bool,
) {
    let said = stderr(output);
    let is_done = trial.check(home, facts, &said);
    match output.status.code() {
        Some(0) => assert!(is_done, "{place}"),
        Some(1..=3) => assert!(may_be_silent || said.contains("error: "), "{place}"),
        // The loader of a program that is not static could not read a library.
        Some(127) if said.contains("error while loading shared libraries") => {}
        _ => panic!("{place}: {:?}", output.status),
    }
}
