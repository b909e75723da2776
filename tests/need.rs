//! `scripts/need.sh` and `make help`, on machines made of stubs: a folder of programs that
//! stands in for the whole PATH, where `apt-get` and `sudo` only note how they were called.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::{checkout, skip, write_script};

/// Tools that the script itself uses, taken from the real machine.
const TOOLS: &[&str] =
    &["sh", "chmod", "cut", "dirname", "env", "mkdir", "mktemp", "rm", "sed", "cp"];
const COMPLETE: &[&str] = &[
    "cargo",
    "rustc",
    "cc",
    "git",
    "patch",
    "parallel",
    "python3",
    "mmdebstrap",
    "strace",
    "readelf",
    "make",
    "pkg-config",
    "clang-19",
    "llvm-strip-19",
    "qemu-system-x86_64",
    "flex",
    "bison",
    "bc",
    "nginx",
    "openssl",
    "apt-get",
];

const QEMU_10: &str = "echo 'QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)'";

struct Machine {
    folder: TempDir,
}

/// The outcome of one call of the script.
#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    said: String,
    /// Calls of `apt-get`, `sudo` and `dnf`, in order.
    calls: Vec<String>,
}

impl Machine {
    /// A machine with these programs, where uid says who calls.
    fn new(programs: &[&str], uid: u32) -> Machine {
        let machine = Machine { folder: TempDir::new().expect("a folder") };
        for folder in ["bin", "packages"] {
            fs::create_dir(machine.path(folder)).expect(folder);
        }
        fs::write(machine.path("certificates"), "some").expect("certificates");
        for tool in TOOLS {
            symlink(real(tool), machine.path("bin").join(tool)).expect(tool);
        }
        machine.stub("bin/id", &format!("echo {uid}"));
        for program in programs {
            machine.stub(&format!("bin/{program}"), &machine.body(program));
        }
        machine
    }

    /// Every installation brings this program, for any package.
    fn packaging(self, program: &str) -> Machine {
        self.stub(&format!("packages/{program}"), "exit 0");
        self
    }

    fn with(self, program: &str, body: &str) -> Machine {
        self.stub(&format!("bin/{program}"), body);
        self
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    fn body(&self, program: &str) -> String {
        let folder = self.folder.path().display();
        let note = format!("echo \"{program} $*\" >>'{folder}/calls'");
        match program {
            "rustc" => "echo 'rustc 1.95.0 (59807616e 2026-04-14)'".to_string(),
            "apt-get" => {
                let install = format!("cp '{folder}'/packages/* '{folder}/bin'");
                format!("{note}\ncase $1 in install) {install} 2>&1;; esac; exit 0")
            }
            "qemu-system-x86_64" => QEMU_10.to_string(),
            "sudo" => format!("{note}\nexec \"$@\""),
            "dnf" | "pacman" => note,
            _ => "exit 0".to_string(),
        }
    }

    fn stub(&self, path: &str, body: &str) {
        write_script(&self.path(path), body);
    }

    fn need(&self, purposes: &[&str], environment: &[(&str, &str)]) -> Outcome {
        let output = Command::new(self.path("bin/sh"))
            .arg(checkout().join("scripts/need.sh"))
            .args(purposes)
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("SSL_CERT_FILE", self.path("certificates"))
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .output()
            .expect("need.sh");
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        Outcome {
            code: output.status.code(),
            said: String::from_utf8(output.stderr).expect("UTF-8"),
            calls: calls.lines().map(str::to_string).collect(),
        }
    }
}

fn real(tool: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("PATH");
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(tool));
    places.find(|place| place.is_file()).unwrap_or_else(|| panic!("no {tool} on the PATH"))
}

fn without(program: &str) -> Vec<&'static str> {
    COMPLETE.iter().copied().filter(|name| *name != program).collect()
}

const INSTALL_GCC: &str = "apt-get install -q -y --no-install-recommends gcc libc6-dev";

#[test]
fn a_complete_machine_is_left_alone_in_silence() {
    for uid in [0, 1000] {
        let outcome =
            Machine::new(COMPLETE, uid).need(&["build", "test", "lab", "dist", "ci"], &[]);
        assert_eq!((outcome.code, outcome.said.as_str()), (Some(0), ""));
        assert!(outcome.calls.is_empty(), "{outcome:?}");
    }
}

#[test]
fn root_gets_what_is_missing_and_nothing_else() {
    let machine = Machine::new(&without("cc"), 0).packaging("cc");
    let outcome = machine.need(&["build", "test"], &[]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(outcome.calls, ["apt-get update -q", INSTALL_GCC]);
    assert_eq!(machine.need(&["build", "test"], &[]).calls, outcome.calls, "once is enough");

    let machine = Machine::new(&without("git"), 0).packaging("git");
    assert_eq!(machine.need(&["build"], &[]).calls, [""; 0], "git is for tests");
    let outcome = machine.need(&["build", "test"], &[]);
    assert_eq!(outcome.calls[1], "apt-get install -q -y --no-install-recommends git");

    let dynamic_only = "case \" $* \" in *' -static '*) exit 1;; esac";
    let machine = Machine::new(COMPLETE, 0).with("cc", dynamic_only).packaging("cc");
    assert_eq!(machine.need(&["build"], &[]).calls, [""; 0]);
    assert_eq!(machine.need(&["dist"], &[]).calls[1], INSTALL_GCC);
}

/// The body of an `apt-get` on a machine with these sources, whose installation from
/// `bookworm-backports`, and no other, brings QEMU 10.
fn apt_with_sources(machine: &Machine, sources: &str) -> String {
    let folder = machine.folder.path().display();
    format!(
        "[ $1 = indextargets ] && {{ echo '{sources}'; exit 0; }}\n\
         echo \"apt-get $*\" >>'{folder}/calls'\n\
         case $* in *sourceparts=*) \
             parts=${{*#*sourceparts=}}; cp \"${{parts%% *}}/backports.list\" '{folder}';; esac\n\
         case $* in *'-t bookworm-backports '*install*) cp '{folder}'/packages/* '{folder}/bin';; esac"
    )
}

#[test]
fn an_old_qemu_is_replaced_from_backports_where_the_release_has_no_other() {
    const OLD: &str = "echo 'QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)'";
    const INSTALL: &str = "install -q -y --no-install-recommends qemu-system-x86";
    let with_sources = |sources: &str| {
        let machine = Machine::new(&without("git"), 0).with("qemu-system-x86_64", OLD);
        machine.stub("packages/qemu-system-x86_64", QEMU_10);
        let apt = apt_with_sources(&machine, sources);
        machine.with("apt-get", &apt)
    };
    let own = "bookworm http://example.org/debian/\nbookworm-security http://example.org/security/";
    let machine = with_sources(own);
    let outcome = machine.need(&["lab"], &[]);
    assert_eq!((outcome.code, outcome.calls.len()), (Some(0), 2), "{outcome:?}");
    for (call, end) in outcome.calls.iter().zip([" update -q", INSTALL]) {
        assert!(
            call.starts_with("apt-get -t bookworm-backports -o Dir::Etc::sourcelist="),
            "{call}"
        );
        assert!(call.contains(" -o Dir::State::lists=") && call.ends_with(end), "{call}");
    }
    let source = fs::read_to_string(machine.path("backports.list")).expect("a private source");
    assert!(source.ends_with("] http://example.org/debian/ bookworm-backports main\n"), "{source}");
    let private = outcome.calls[0].split("lists=").nth(1).and_then(|rest| rest.split(' ').next());
    assert!(!PathBuf::from(private.expect("a folder")).exists(), "it goes away again");

    let outcome = with_sources(&format!("{own}\nbookworm-backports http://example.org/debian/"))
        .need(&["lab"], &[]);
    assert_eq!(outcome.calls[1], format!("apt-get -t bookworm-backports {INSTALL}"));

    // Other packages come from the release itself, and another release already has a newer QEMU.
    let outcome = with_sources(own).need(&["test", "lab"], &[]);
    assert_eq!(outcome.calls[3], "apt-get install -q -y --no-install-recommends git");
    let outcome = with_sources("trixie http://example.org/debian/").need(&["lab"], &[]);
    assert_eq!(outcome.calls, ["apt-get update -q".to_string(), format!("apt-get {INSTALL}")]);
    assert!(outcome.said.contains("error: still missing after the installation: QEMU"));
}

#[test]
fn a_user_is_asked_before_sudo() {
    let programs = [&without("cc")[..], &["sudo"]].concat();
    let refused = Machine::new(&programs, 1000).packaging("cc").need(&["build"], &[]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.calls.is_empty(), "no consent was given: {refused:?}");
    let command = "hint: sudo apt-get install --no-install-recommends gcc libc6-dev";
    assert!(refused.said.contains(command), "{refused:?}");

    let yes = [("ASSUME_YES", "1")];
    let granted = Machine::new(&programs, 1000).packaging("cc").need(&["build"], &yes);
    assert_eq!(granted.code, Some(0), "{granted:?}");
    assert_eq!(granted.calls[..2], ["sudo apt-get update -q", "apt-get update -q"]);

    let alone = Machine::new(&without("cc"), 1000).packaging("cc").need(&["build"], &yes);
    assert_eq!((alone.code, alone.calls.len()), (Some(1), 0), "there is no sudo here");
    assert!(alone.said.contains("hint: as root: apt-get install"), "{alone:?}");
}

#[test]
fn an_installation_that_does_not_help_is_reported() {
    let outcome = Machine::new(&without("cc"), 0).packaging("other").need(&["build"], &[]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.said.contains("error: still missing after the installation: a C compiler"));

    let broken_list = "case $1 in update) exit 100;; esac; exit 0";
    let machine = Machine::new(&without("git"), 0).with("apt-get", broken_list);
    let outcome = machine.need(&["test"], &[]);
    assert!(outcome.said.contains("warning: apt-get update failed"), "{outcome:?}");
    assert!(outcome.said.contains("error: still missing after the installation: git"));
}

#[test]
fn other_package_managers_are_named_and_not_called() {
    let cases: &[(&[&str], &str)] = &[
        (&["dnf", "sudo"], "hint: sudo dnf install gcc glibc-devel"),
        (&["pacman", "sudo"], "hint: sudo pacman -S --needed gcc"),
        (&[], "hint: install them with this system's package manager; Debian calls them: gcc"),
    ];
    for (manager, hint) in cases {
        let outcome =
            Machine::new(&[&["cargo", "rustc"], *manager].concat(), 0).need(&["build"], &[]);
        assert_eq!((outcome.code, outcome.calls.len()), (Some(1), 0), "{outcome:?}");
        assert!(outcome.said.starts_with("missing: a C compiler"), "{outcome:?}");
        assert!(outcome.said.contains(hint), "{outcome:?}");
    }
}

#[test]
fn a_missing_toolchain_is_reported_before_anything_is_installed() {
    let none = Machine::new(&["apt-get"], 0).need(&["build"], &[]);
    let old = Machine::new(&without("cc"), 0).with("rustc", "echo 'rustc 1.63.0'");
    let old = old.need(&["build"], &[]);
    let rustup = Machine::new(COMPLETE, 0).with("rustc", "echo 'rustc 1.80.1'");
    let rustup = rustup.with("rustup", "exit 0").need(&["build"], &[]);
    let cases = [
        (&none, "error: no Rust toolchain: `cargo` and `rustc` are not both on the PATH"),
        (&none, "hint: install one with https://rustup.rs, or: apt-get install rustup"),
        (&old, "error: rustc is version 1.63.0, and 1."),
        (&old, "hint: install one with"),
        (&rustup, "hint: rustup update stable"),
    ];
    for (outcome, words) in cases {
        assert!(outcome.said.contains(words), "{words}: {outcome:?}");
        assert_eq!((outcome.code, outcome.calls.len()), (Some(1), 0), "{outcome:?}");
    }
}

#[test]
fn missing_certificates_and_unknown_purposes() {
    let machine = Machine::new(COMPLETE, 0);
    let outcome = machine.need(&["build"], &[("SSL_CERT_FILE", "/nonexistent")]);
    assert_eq!(outcome.calls[1], "apt-get install -q -y --no-install-recommends ca-certificates");
    let outcome = Machine::new(COMPLETE, 0).need(&["fame"], &[]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.said.starts_with("error: unknown purpose `fame`\nhint: "), "{outcome:?}");
}

/// The output of `make` with these words; `None` without make. It does not inherit the flags of a `make test`
/// around it.
fn make(words: &[&str]) -> Option<String> {
    let mut make = Command::new("make");
    make.args(words).env_remove("MAKEFLAGS").env_remove("MAKELEVEL").current_dir(checkout());
    Some(String::from_utf8(make.output().ok()?.stdout).expect("UTF-8"))
}

#[test]
fn make_alone_lists_every_public_target() {
    let Some(said) = make(&[]) else {
        return skip("make");
    };
    let listed: Vec<&str> =
        said.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(
        listed,
        ["help", "run", "test", "test-quick", "bench", "bpf", "dist", "release", "sbom", "clean"],
        "{said}"
    );
}

/// A target names its programs, so that some can run in parallel: none may be missing.
#[test]
fn make_test_runs_every_test_program() {
    let Some(said) = make(&["--dry-run", "test-lab", "test-rest"]) else {
        return skip("make");
    };
    let manifest = fs::read_to_string(checkout().join("Cargo.toml")).expect("Cargo.toml");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let programs = manifest["test"].as_array().expect("[[test]]").iter();
    let programs = programs.map(|program| format!("--test {} ", program["name"].as_str().unwrap()));
    for program in programs.chain(["--lib ".to_string()]) {
        assert!(said.contains(&program), "{program}: {said}");
    }
}
