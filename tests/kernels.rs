//! `schedlab kernel`, against an apt made of stubs. tests/lab.rs has the machine's own mirror.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::home::Home;
use crate::support::{joined, schedlab, skip, stderr, stdout, write_script};

/// Each notes how it was called. `$F` is the folder of the machine.
const STUBS: &[(&str, &str)] = &[
    ("apt-config", "echo \"LIST='$F/sources.list'\"; echo \"PARTS='$F/parts'\""),
    (
        "apt-get",
        r#"for word in "$@"; do
    case $word in Dir::Etc::sourcelist=*) list=${word#*=};; esac
done
case " $* " in
*' update '*)
    cat "$list" >>"$F/calls"
    suite=$(sed -n 's/^Suites: //p' "$list")
    [ -e "$F/suites/$suite" ] && exit 0
    printf "W: old\nE: The repository of '%s' \033[2Jhas no Release file\n" "$suite" >&2
    exit 100;;
*' download '*)
    [ -e "$F/on-download" ] && . "$F/on-download"
    echo dlstatus:1:50.0:Retrieving
    package=${word%%=*}
    cp "$F/pool/$package" "${package}_1_amd64.deb";;
esac"#,
    ),
    (
        "apt-cache",
        r#"case " $* " in
*' pkgnames '*) ls "$F/stanzas";;
*) while [ "$1" != show ]; do shift; done; shift
    for name in "$@"; do cat "$F/stanzas/$name"; echo; done;;
esac"#,
    ),
    ("dpkg-deb", r#"tar -xf "$2" -C "$3""#),
];

pub struct Machine {
    folder: TempDir,
}

impl Machine {
    /// A machine with a mirror of three empty suites.
    pub fn new() -> Machine {
        let machine = Machine { folder: TempDir::new().unwrap() };
        for folder in ["bin", "stanzas", "pool", "suites", "home", "tree", "parts"] {
            fs::create_dir(machine.path(folder)).unwrap();
        }
        for suite in ["bookworm", "trixie", "trixie-backports"] {
            fs::write(machine.path("suites").join(suite), "").unwrap();
        }
        STUBS.iter().for_each(|(name, body)| machine.stub(name, body));
        let keys = machine.path("debian-archive-keyring.gpg");
        fs::write(&keys, "keys").unwrap();
        let list = format!(
            "deb https://example.org/third-party nodistro main\n\
             deb [signed-by={}] http://example.org/debian bookworm main\n",
            keys.display()
        );
        fs::write(machine.path("sources.list"), list).unwrap();
        machine
    }

    /// A machine whose mirror has `debian:6.18`.
    pub fn with_one_kernel() -> Machine {
        Machine::new().offering(R6, V6)
    }

    /// A program that notes how it was called.
    pub fn stub(&self, name: &str, body: &str) {
        let folder = self.folder.path().display();
        let note = format!("echo \"{name} $*\" >>\"$F/calls\"");
        write_script(&self.path("bin").join(name), &format!("F='{folder}'\n{note}\n{body}"));
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    fn kernels(&self) -> PathBuf {
        self.path("home/.cache/schedlab/kernels")
    }

    /// Offers this release, in a package of this version; in parts from 7.0 on.
    fn offering(self, release: &str, version: &str) -> Machine {
        let modules = format!("usr/lib/modules/{release}");
        let image = bzimage(&format!("{release} (x@example.org) #1 {version}"));
        let virtio = (format!("{modules}/kernel/virtio.ko"), b"code".to_vec());
        let big = (format!("{modules}/kernel/big.ko"), b"not needed".to_vec());
        let config = b"CONFIG_SCHED_CLASS_EXT=y\n".to_vec();
        if !release.starts_with('7') {
            let boot = |name: &str| format!("boot/{name}-{release}");
            let files = [(boot("vmlinuz"), image), (boot("config"), config), virtio, big];
            self.package(&format!("linux-image-{release}"), version, "kmod", &files);
            return self;
        }
        let part = |kind: &str| format!("linux-{kind}-{release}");
        let needs =
            ["base", "binary", "modules"].map(|kind| format!("{} (= {version})", part(kind)));
        let readme = ("usr/share/doc/x".to_string(), b"empty".to_vec());
        self.package(&format!("linux-image-{release}"), version, &needs.join(", "), &[readme]);
        self.package(&part("binary"), version, "", &[(format!("{modules}/vmlinuz"), image)]);
        self.package(&part("base"), version, "", &[(format!("{modules}/config"), config)]);
        self.package(&part("modules"), version, "", &[virtio, big]);
        self
    }

    pub fn package(
        &self,
        package: &str,
        version: &str,
        depends: &str,
        files: &[(String, Vec<u8>)],
    ) {
        let tree = self.path("tree").join(package);
        for (name, bytes) in files {
            let path = tree.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let deb = self.path("pool").join(package);
        let packed =
            Command::new("tar").arg("-cf").arg(&deb).arg("-C").arg(&tree).arg(".").status();
        assert!(packed.unwrap().success());
        let bytes = fs::read(&deb).unwrap();
        let digest: String =
            Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let size = bytes.len();
        let stanza = format!(
            "Package: {package}\nVersion: {version}\nDepends: {depends}\nSize: {size}\nSHA256: {digest}\n"
        );
        fs::write(self.path("stanzas").join(package), stanza).unwrap();
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = schedlab(&self.path("home"), &[&["kernel"], arguments].concat());
        command.env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()));
        command.stdin(Stdio::null());
        command
    }

    pub fn kernel(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The output of a command that succeeds.
    pub fn output(&self, arguments: &[&str]) -> String {
        let output = self.kernel(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// The message of a command that fails and leaves nothing behind.
    fn fails(&self, arguments: &[&str], code: i32) -> String {
        let output = self.kernel(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        assert!(self.cached().is_empty(), "{:?}", self.cached());
        stderr(&output)
    }

    /// All files in the folder of kernels but the lock.
    fn cached(&self) -> Vec<String> {
        let entries = fs::read_dir(self.kernels()).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name != ".lock").collect();
        names.sort();
        names
    }

    pub fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }

    fn on_download(&self, script: &str) {
        fs::write(self.path("on-download"), script).unwrap();
    }
}

pub fn bzimage(version: &str) -> Vec<u8> {
    let mut bytes = vec![0; 0x400];
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
    bytes[0x20e..0x210].copy_from_slice(&0x200_u16.to_le_bytes());
    bytes[0x236] = 1;
    bytes.extend(version.bytes().chain([0]));
    bytes
}

/// Debian's kernels are fetched on amd64 alone.
pub fn is_amd64() -> bool {
    let is = std::env::consts::ARCH == "x86_64";
    if !is {
        skip("hardware: an x86-64 machine");
    }
    is
}

/// `None`: the test is skipped.
pub fn on_amd64<T>(new: impl FnOnce() -> T) -> Option<T> {
    is_amd64().then(new)
}

/// Only a failing test waits this long.
const MAX_WAIT: Duration = Duration::from_secs(60);
const R6: &str = "6.18.15+deb13-cloud-amd64";
const V6: &str = "6.18.15-1~bpo13+1";

#[test]
fn the_newest_is_fetched_once() {
    let Some(machine) = on_amd64(Machine::with_one_kernel) else { return };
    let machine = machine.offering("6.18.9+deb13-cloud-amd64", "6.18.9-1~bpo13+1");
    let machine = machine.offering("6.18.20+deb13-amd64", "6.18.20-1~bpo13+1");
    let output = machine.kernel(&["get", "debian:6.18"]);
    let message = stdout(&output);
    assert!(
        message.starts_with(&format!("debian:6.18 is debian:6.18.15: fetched: {R6}, ")),
        "{message}"
    );
    let warned = stderr(&output);
    let left_out = "warning: bookworm-backports is left out: apt-get ended with exit status: 100: \
                    The repository of 'bookworm-backports' \\u{1b}[2Jhas no Release file\n";
    assert!(warned.contains(left_out), "{warned}");
    assert!(!warned.contains('\u{1b}'), "{warned:?}");

    let folder = format!("{R6}_{V6}");
    assert_eq!(machine.cached(), [&*folder]);
    let mut kept: Vec<String> = fs::read_dir(machine.kernels().join(&folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.sort();
    assert_eq!(kept, ["config", "modules", "stamp.json", "vmlinuz"]);
    let modules = fs::read_dir(machine.kernels().join(&folder).join("modules")).unwrap();
    assert_eq!(modules.count(), 1, "big.ko is of no use to a guest");
    let calls = machine.calls();
    assert!(!calls.contains("install") && !calls.contains("third"), "{calls}");
    assert_eq!(calls.matches(" download ").count(), 1, "{calls}");

    let again = machine.output(&["get", "debian:6.18"]);
    assert!(again.contains("is debian:6.18.15: is in the cache already"), "{again}");
    assert_eq!(machine.calls().matches(" download ").count(), 1);
    let before = machine.calls();
    let exact = machine.output(&["get", "debian:6.18.15"]);
    assert!(exact.starts_with("debian:6.18.15: is in the cache already"), "{exact}");
    assert_eq!(machine.calls(), before, "a version that is here needs no mirror");

    let machine = machine.offering("6.18.16+deb13-cloud-amd64", "6.18.16-1~bpo13+1");
    assert!(machine.output(&["get", "debian:6.18"]).contains("6.18.16: fetched"));
    assert_eq!(machine.cached().len(), 2, "older ones stay");
}

#[test]
fn an_image_in_parts_is_assembled() {
    let Some(machine) = on_amd64(Machine::new) else { return };
    let machine = machine.offering("7.3.4+deb13-cloud-amd64", "7.3.4-1");
    machine.output(&["get", "debian:7.3"]);
    assert_eq!(machine.calls().matches(" download ").count(), 3, "{}", machine.calls());
    let list: serde_json::Value =
        serde_json::from_str(&machine.output(&["list", "--format", "json"])).unwrap();
    let kernel = &list["kernels"][0];
    assert_eq!((&kernel["name"], &kernel["scheduler"]), (&"debian:7.3.4".into(), &"EEVDF".into()));
    assert_eq!(kernel["sched_ext"], true);
    assert_eq!(kernel["digest"].as_str().unwrap().len(), 64);
}

#[test]
fn a_failure_leaves_nothing_behind() {
    let Some(machine) = on_amd64(Machine::with_one_kernel) else { return };
    machine.on_download("printf 'E: Failed to fetch: No space left on device\\n' >&2; exit 100");
    let message = machine.fails(&["get", "debian:6.18"], 3);
    assert!(message.contains("No space left on device\nhint: make room"), "{message}");

    machine.on_download("echo more >>\"$F/pool/${word%%=*}\"");
    let message = machine.fails(&["get", "debian:6.18"], 3);
    assert!(
        message.contains("its SHA-256 is ") && message.contains("and the list says"),
        "{message}"
    );

    machine.on_download("exit 0");
    let message = machine.fails(&["get", "debian:6.18"], 3);
    assert!(message.contains("apt reports success, and there is no file"), "{message}");
    fs::remove_file(machine.path("on-download")).unwrap();

    let message = machine.fails(&["get", "debian:6.12"], 3);
    assert!(
        message.contains("no suite (bookworm, trixie, trixie-backports) has the kernel"),
        "{message}"
    );
    assert!(message.contains("of the flavour cloud there are 6.18"), "{message}");
    for (name, code) in [("debian:6", 2), ("6.18", 2), ("/", 2)] {
        assert!(machine.fails(&["get", name], code).contains("names no kernel"), "{name}");
    }

    let other = bzimage("6.6.6 (x) #1");
    machine.package(&format!("linux-image-{R6}"), V6, "", &[(format!("boot/vmlinuz-{R6}"), other)]);
    let message = machine.fails(&["get", "debian:6.18"], 3);
    assert!(message.contains("its image calls itself 6.6.6"), "{message}");
}

#[test]
fn a_kill_leaves_no_kernel() {
    let Some(machine) = on_amd64(Machine::with_one_kernel) else { return };
    machine.on_download("kill -9 $PPID; exit 1");
    assert_eq!(machine.kernel(&["get", "debian:6.18"]).status.code(), None);
    assert_eq!(machine.cached(), [".new"]);
    let listed = machine.kernel(&["list"]);
    assert!(stderr(&listed).starts_with("no kernel is cached\nhint: "), "{listed:?}");
    fs::remove_file(machine.path("on-download")).unwrap();
    machine.output(&["get", "debian:6.18"]);
    assert_eq!(machine.cached(), [format!("{R6}_{V6}")]);
}

/// An apt that outlived a killed schedlab would keep its lists locked against the next one.
#[test]
fn a_kill_ends_apt_too() {
    let Some(machine) = on_amd64(Machine::with_one_kernel) else { return };
    let fifo = machine.path("alive");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    machine.on_download("exec 3>\"$F/alive\"; echo begun >&3; read -r x <\"$F/never\"");
    assert!(Command::new("mkfifo").arg(machine.path("never")).status().unwrap().success());
    let mut child = machine.command(&["get", "debian:6.18"]).stderr(Stdio::null()).spawn().unwrap();
    let mut alive = BufReader::new(fs::File::open(&fifo).unwrap());
    let mut line = String::new();
    alive.read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    child.kill().unwrap();
    child.wait().unwrap();
    // The pipe ends when its last writer is gone.
    let (sender, ends) = mpsc::channel();
    std::thread::spawn(move || sender.send(alive.read_line(&mut String::new()).unwrap()));
    assert_eq!(ends.recv_timeout(MAX_WAIT), Ok(0), "apt-get goes on");
}

#[test]
fn a_pipe_gets_each_line_once() {
    let Some(machine) = on_amd64(Machine::with_one_kernel) else { return };
    machine.on_download("for n in 0 0 0; do echo dlstatus:1:$n:Retrieving; done");
    let output = machine.kernel(&["get", "debian:6.18"]);
    let message = stderr(&output);
    let mut lines: Vec<&str> = message.lines().collect();
    lines.retain(|line| !line.starts_with("warning: "));
    assert_eq!(lines.len(), 2, "{message}");
    assert_eq!(lines[0], "reading Debian's suites");
    assert!(lines[1].starts_with(&format!("linux-image-{R6}: ")), "{message}");
}

#[test]
fn two_at_a_time_fetch_once() {
    let Some(machine) = on_amd64(Machine::with_one_kernel) else { return };
    let start = || {
        let mut command = machine.command(&["get", "debian:6.18"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start(), start()];
    let mut message: Vec<String> = both
        .map(|child| child.wait_with_output().unwrap())
        .map(|output| stdout(&output).split(": ").nth(1).unwrap_or_default().to_string())
        .into();
    message.sort();
    assert_eq!(message, ["fetched", "is in the cache already"]);
    assert_eq!(machine.calls().matches(" download ").count(), 1);
}

#[test]
fn machines_without_apt_or_debian_get_a_hint() {
    let Some(machine) = on_amd64(Machine::new) else { return };
    let mut command = machine.command(&["get", "debian:6.18"]);
    let output = command.env("PATH", machine.path("tree")).output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        message.contains("there is no `apt-config` on this machine\nhint: fetch on a"),
        "{message}"
    );

    for suite in ["bookworm", "trixie", "trixie-backports"] {
        fs::remove_file(machine.path("suites").join(suite)).unwrap();
    }
    let message = machine.fails(&["get", "debian:6.18"], 3);
    assert!(
        message.contains("error: cannot fetch kernels: no suite could be read; apt-get"),
        "{message}"
    );
    fs::write(machine.path("sources.list"), "deb http://example.org/ubuntu noble main\n").unwrap();
    let message = machine.fails(&["get", "debian:6.18"], 3);
    assert!(message.contains("apt has no Debian archive among its sources"), "{message}");
}

#[test]
fn kernels_are_listed_repaired_and_removed() {
    let Some(machine) = on_amd64(Machine::with_one_kernel) else { return };
    let machine = machine.offering("6.1.0-50-cloud-amd64", "6.1.176-1");
    let offered = machine.output(&["list", "--available"]);
    assert!(offered.contains("debian:6.1.176") && offered.contains("debian:6.18.15"), "{offered}");
    machine.output(&["get", "debian:6.1", "debian:6.18"]);
    let listed = machine.output(&["list"]);
    for words in ["debian:6.1.176", "CFS", "EEVDF", R6, "yes"] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
    let image = machine.kernels().join(format!("{R6}_{V6}/vmlinuz"));
    fs::write(&image, "gone bad").unwrap();
    let listed = machine.output(&["list"]);
    assert!(
        listed.contains("\n  damaged: its files have ")
            && listed.contains("hint: schedlab kernel get"),
        "{listed}"
    );
    let repaired = machine.output(&["get", "debian:6.18.15"]);
    assert!(repaired.contains("was damaged, fetched again"), "{repaired}");

    let of_ones_own = machine.path("home/bzImage");
    fs::write(&of_ones_own, bzimage("5.10.262-ck1 (me) #1")).unwrap();
    let listed = machine.output(&["list", "./bzImage"]);
    assert!(listed.contains("5.10.262-ck1") && listed.contains("unknown"), "{listed}");

    assert!(machine.output(&["rm", "debian:6.18"]).contains("debian:6.18.15: removed"));
    assert_eq!(machine.cached(), ["6.1.0-50-cloud-amd64_6.1.176-1"]);
    let missing = machine.kernel(&["rm", "debian:6.18"]);
    let message = stderr(&missing);
    assert!(
        message.contains("is not in the cache") && message.contains("hint: schedlab kernel list")
    );
    assert_eq!(missing.status.code(), Some(3));
    machine.output(&["rm", "--all"]);
    assert_eq!(machine.cached(), [""; 0]);
    assert!(!machine.path("home/.cache/schedlab/apt").exists());
}

#[test]
fn an_image_that_is_too_large_is_called_that() {
    let home = Home::new();
    let image = home.at("bzImage");
    fs::File::create(&image).unwrap().set_len(3 << 30).unwrap();
    let plan = format!(
        "schema = 1\ntitle = \"x\"\n[measure]\nrounds = 1\nduration = \"1s\"\n[[variant]]\n\
         name = \"big\"\nkernel = \"{}\"\n[[workload]]\nuse = \"spin\"\n",
        image.display()
    );
    home.write("plan.toml", plan);
    for more in [&["--dry-run"][..], &[]] {
        let words = [&["run", "plan.toml", "--backend", "lab"], more].concat();
        let output = home.call(&words);
        let said = stderr(&output);
        if said.contains("qemu-system") {
            return skip("package qemu-system-x86");
        }
        assert_eq!(output.status.code(), Some(2), "{more:?}: {said}");
        let all = joined(&said);
        assert!(all.contains("it has more than 1024 MiB"), "{more:?}: {said}");
        let hint = format!("hint: is it the right file? ls -ld {}", image.display());
        assert!(all.contains(&hint) && !all.contains("XDG_CACHE_HOME"), "{more:?}: {said}");
    }
}
