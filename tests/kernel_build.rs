//! `schedlab kernel build`, on a machine whose apt, `make` and compiler are stubs. tests/lab.rs has
//! a real build.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::kernels::{Machine, bzimage, on_amd64};
use crate::support::{done, ended, signal, stderr, stdout};

/// `$F` is the folder of the machine; a file `on-NAME` there is run first.
const MAKE: &str = r#"while [ $# -gt 1 ]; do
    case $1 in -C) cd "$2"; shift;; O=*) O=${1#O=};; esac
    shift
done
[ ! -e "$F/on-$1" ] || . "$F/on-$1"
case $1 in
allnoconfig) grep -v NONESUCH "$KCONFIG_ALLCONFIG" >"$O/.config";;
bzImage)
    mkdir -p "$O/kernel" "$O/arch/x86/boot"
    for source in kernel/*.c; do
        object=$O/${source%.c}.o
        [ ! -e "$object" ] || [ "$source" -nt "$object" ] || continue
        echo "  CC      ${source%.c}.o"
        if grep -q SYNTAX "$source"; then
            echo "../$source:1:5: error: expected ';' before 'SYNTAX'"
            echo "../$source:2:1: error: and so on"
            echo "make[1]: *** [Makefile:1: ${source%.c}.o] Error 1"
            exit 2
        fi
        cp "$source" "$object"
    done
    cat "$F/image" "$O"/kernel/*.o >"$O/arch/x86/boot/bzImage";;
esac"#;
/// The real program, after what `on-NAME` does.
const REAL: &str = r#"[ ! -e "$F/on-NAME" ] || . "$F/on-NAME"
PATH=/usr/bin:/bin exec NAME "$@""#;
/// Reports that it has begun, and waits until it is ended or `never` is opened for writing.
const WAITS: &str = r#"exec 3>"$F/alive"; echo begun >&3; read -r x <"$F/never""#;
const VERSION: &str = "6.12.1-1";
const PATCH: &str =
    "--- a/kernel/fair.c\n+++ b/kernel/fair.c\n@@ -1 +1 @@\n-int slice = 1;\n+int slice = 2;\n";
const BUILD: [&str; 4] = ["build", "debian-source:6.12", "--name", "mine"];

/// A machine that can build, with a patch in a file.
pub struct Site {
    pub machine: Machine,
}

impl Site {
    pub fn new() -> Site {
        let machine = Machine::new();
        machine.stub("make", MAKE);
        for name in ["gcc", "ld", "flex", "bison", "bc", "perl", "xz"] {
            machine.stub(name, "exit 0");
        }
        for name in ["tar", "patch", "cp"] {
            machine.stub(name, &REAL.replace("NAME", name));
        }
        for name in ["alive", "never"] {
            assert!(Command::new("mkfifo").arg(machine.path(name)).status().unwrap().success());
        }
        fs::write(machine.path("image"), bzimage("6.12.1 (x) #1")).unwrap();
        let sources = machine.path("linux-source-6.12");
        write_sources(&sources);
        let archive = machine.path("archive");
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(&archive).arg("-C").arg(machine.path("")).arg("linux-source-6.12");
        assert!(tar.status().unwrap().success());
        let file = ("usr/src/linux-source-6.12.tar.xz".to_string(), fs::read(archive).unwrap());
        machine.package("linux-source-6.12", VERSION, "", &[file]);
        let site = Site { machine };
        site.file("my.patch", PATCH);
        site
    }

    pub fn file(&self, name: &str, text: &str) {
        fs::write(self.machine.path("home").join(name), text).unwrap();
    }

    /// Makes a stub run this script first.
    fn on(&self, name: &str, script: &str) {
        fs::write(self.machine.path(&format!("on-{name}")), script).unwrap();
    }

    fn off(&self, name: &str) {
        fs::remove_file(self.machine.path(&format!("on-{name}"))).unwrap();
    }

    fn build(&self, more: &[&str]) -> Output {
        self.machine.kernel(&[&BUILD, more].concat())
    }

    fn builds(&self, more: &[&str]) -> String {
        self.machine.output(&[&BUILD, more].concat())
    }

    /// The message of a build that fails, and leaves no kernel and no half tree.
    fn fails(&self, more: &[&str], code: i32) -> String {
        let output = self.build(more);
        assert_eq!(output.status.code(), Some(code), "{more:?}: {output:?}");
        self.has_no_kernel();
        let left = fs::read_dir(self.machine.path("home/.cache/schedlab/builds"));
        for entry in left.into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let is_whole = [".lock", ".store"].contains(&name.as_str()) || !name.starts_with('.');
            assert!(is_whole, "{name}");
        }
        stderr(&output)
    }

    fn has_no_kernel(&self) {
        let listed = self.machine.kernel(&["list"]);
        assert!(stderr(&listed).starts_with("no kernel is cached\n"), "{listed:?}");
    }

    /// Starts a build that waits in a stub; the reader reaches its end when the stub ends.
    fn waiting(&self, more: &[&str]) -> (Child, BufReader<fs::File>) {
        let mut command = self.machine.command(&[&BUILD, more].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut alive = BufReader::new(fs::File::open(self.machine.path("alive")).unwrap());
        let mut line = String::new();
        alive.read_line(&mut line).unwrap();
        assert_eq!(line, "begun\n");
        (child, alive)
    }

    fn digest(&self) -> String {
        let list = self.machine.output(&["list", "mine", "--format", "json"]);
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        list["kernels"][0]["digest"].as_str().unwrap().to_string()
    }
}

fn write_sources(folder: &Path) {
    fs::create_dir_all(folder.join("kernel")).unwrap();
    for (name, text) in [
        ("Makefile", "all:\n"),
        ("Kconfig", "config X\n"),
        (".gitignore", "*.o\n.config\n"),
        ("kernel/core.c", "int core;\n"),
        ("kernel/fair.c", "int slice = 1;\n"),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
}

#[test]
fn a_base_is_fetched_once_and_a_patch_compiles_what_it_changes() {
    let Some(site) = on_amd64(Site::new) else { return };
    let said = site.builds(&[]);
    assert!(said.starts_with("mine: 6.12.1, "), "{said}");
    let base = site.digest();
    let said = site.builds(&["--patch", "my.patch", "--set", "CONFIG_X=y"]);
    assert!(
        said.contains("debian-source:6.12.1-1, patch my.patch ") && said.contains("CONFIG_X=y")
    );
    let patched = site.digest();
    assert_ne!(base, patched);
    assert_eq!(site.machine.calls().matches(" download ").count(), 1);

    // Only the patched file is compiled again, and the base's own stays unchanged.
    site.on("bzImage", "touch \"$F/before\"");
    site.builds(&["--patch", "my.patch"]);
    site.builds(&[]);
    assert_eq!(site.digest(), base);
    let logs = site.machine.path("home/.cache/schedlab/builds");
    let steps = |path: PathBuf| {
        fs::read_to_string(path.join("build.log")).unwrap().matches("  CC ").count()
    };
    let mut steps: Vec<usize> = fs::read_dir(&logs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("build.log").is_file())
        .map(steps)
        .collect();
    steps.sort();
    assert_eq!(steps.first(), Some(&0), "{steps:?}");
    assert!(steps.contains(&1), "{steps:?}");

    site.machine.output(&["rm", "--builds"]);
    site.builds(&["--patch", "my.patch", "--set", "CONFIG_X=y"]);
    assert_eq!(site.digest(), patched, "from nothing the same bits");
}

#[test]
fn what_cannot_be_built_is_named_and_leaves_nothing() {
    let Some(site) = on_amd64(Site::new) else { return };
    site.file("other.patch", &PATCH.replace("slice = 1", "other = 1"));
    site.file("broken.patch", &PATCH.replace("slice = 2;", "SYNTAX"));
    site.file("outside.patch", &PATCH.replace("b/kernel", "b/../../kernel"));
    site.file("words", "Not a patch.\n");
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["--patch", "other.patch"],
            2,
            "other.patch does not apply to debian-source:6.12.1-1\n  kernel/fair.c: hunk 1 does not \
             fit at line 1 (line 3 of the patch)\n    @@ -1 +1 @@\n    -int other = 1;\n",
        ),
        (
            &["--patch", "broken.patch"],
            3,
            "the build of debian-source:6.12.1-1 with broken.patch failed\n  kernel/fair.c:1: \
             error: expected ';' before 'SYNTAX'\n",
        ),
        (&["--patch", "outside.patch"], 2, "it names `b/../../kernel/fair.c`, which is outside"),
        (&["--patch", "words"], 2, "the patch words cannot be used: it has no diff\n"),
        (&["--patch", "-"], 2, "the patch standard input cannot be used: it is empty\n"),
        (&["--patch", "nonesuch"], 2, "cannot read the patch nonesuch: "),
        (&["--set", "CONFIG_NONESUCH=y"], 2, "CONFIG_NONESUCH=y: the tree has no such symbol"),
        (&["--patch", "my.patch", "--set", "HZ=1"], 2, "a symbol is `CONFIG_`"),
    ];
    for (more, code, words) in cases {
        let message = site.fails(more, *code);
        assert!(message.contains(words) && message.contains("\nhint: "), "{more:?}: {message}");
    }
    site.on("bzImage", "echo 'as: BFD: x.o: No space left on device'; exit 2");
    let message = site.fails(&[], 3);
    assert!(message.contains("x.o: No space left on device\nhint: make room"), "{message}");
    site.off("bzImage");
    site.builds(&["--patch", "my.patch"]);
}

#[test]
fn a_build_that_the_disk_cannot_hold_does_not_begin() {
    let Some(site) = on_amd64(Site::new) else { return };
    let stanza = site.machine.path("stanzas/linux-source-6.12");
    let text = fs::read_to_string(&stanza).unwrap();
    fs::write(&stanza, text.replace("Size: ", "Size: 9000000000")).unwrap();
    let message = site.fails(&[], 3);
    assert!(message.contains("error: a build needs ") && message.contains(" GB of free space in "));
    assert!(
        message.contains("hint: make room, or set XDG_CACHE_HOME to a folder with "),
        "{message}"
    );
    assert_eq!(site.machine.calls().matches(" download ").count(), 0);
}

/// Ways to end a build, and its exit codes.
const ENDS: [(&str, Option<i32>); 3] = [("-INT", Some(130)), ("-TERM", Some(130)), ("-KILL", None)];

#[test]
fn a_build_that_is_ended_leaves_no_kernel_and_no_compiler_and_goes_on() {
    let Some(site) = on_amd64(Site::new) else { return };
    let unpacking = format!("case \" $* \" in *' --strip-components=1 '*) {WAITS};; esac");
    let patched = format!("[ ! -e objects/kernel/core.o ] || {{ {WAITS}; }}");
    let stages = [
        ("download", WAITS),
        ("tar", &unpacking),
        ("allnoconfig", WAITS),
        ("patch", WAITS),
        ("bzImage", WAITS),
        ("bzImage", &patched),
    ];
    for (name, script) in stages {
        for (end, code) in ENDS {
            site.machine.output(&["rm", "--all"]);
            site.on(name, script);
            let (mut child, mut alive) = site.waiting(&["--patch", "my.patch"]);
            signal(child.id(), end);
            assert_eq!(child.wait().unwrap().code(), code, "{name} {end}");
            // The pipe ends when its last writer is gone.
            assert_eq!(alive.read_line(&mut String::new()).unwrap(), 0, "{name} {end}");
            site.has_no_kernel();
            site.off(name);
            let output = site.build(&["--patch", "my.patch"]);
            assert!(output.status.success(), "{name} {end}: {output:?}");
        }
    }
}

#[test]
fn two_builds_at_once_fetch_the_base_once() {
    let Some(site) = on_amd64(Site::new) else { return };
    let start = || {
        let mut command = site.machine.command(&BUILD);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start(), start()].map(|child| child.wait_with_output().unwrap());
    assert!(both.iter().all(|output| output.status.success()), "{both:?}");
    assert_eq!(site.machine.calls().matches(" download ").count(), 1);
}

#[test]
fn what_is_missing_for_a_build_is_named_with_its_package() {
    let Some(site) = on_amd64(Site::new) else { return };
    let few = site.machine.path("few");
    fs::create_dir(&few).unwrap();
    for name in ["gcc", "make", "perl", "patch", "cp", "tar", "xz", "bc", "ld", "gzip"] {
        std::os::unix::fs::symlink(site.machine.path("bin/gcc"), few.join(name)).unwrap();
    }
    let mut command = site.machine.command(&BUILD);
    let output = ended(command.env("PATH", &few), 3);
    let message = stderr(&output);
    assert!(message.starts_with("error: cannot build kernels here: there is no flex, no bison"));
    assert!(message.contains("flex bison"), "{message}");
    assert_eq!(site.machine.calls().matches("apt").count(), 0, "nothing was fetched");
}

/// A repository of a tree; git's own settings are not the machine's.
pub fn git(folder: &Path, words: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@example.org", "-C"]).arg(folder).args(words);
    let output = git.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    stdout(&output)
}

/// Everything about a folder's files that a build could change.
/// Path, time of change and text.
pub type FileState = (PathBuf, SystemTime, Vec<u8>);

pub fn state(folder: &Path) -> Vec<FileState> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        let bytes = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if metadata.is_dir() {
            all.extend(state(&path));
        }
        // Git renews the time of an object that it meets again.
        let is_object = path.components().any(|part| part.as_os_str() == "objects");
        let time = if is_object { UNIX_EPOCH } else { metadata.modified().unwrap() };
        all.push((path, time, bytes));
    }
    all.sort();
    all
}

const NOTHING: [&Path; 0] = [];

/// The paths that are not the same in both.
fn differ<'a>(before: &'a [FileState], after: &'a [FileState]) -> Vec<&'a Path> {
    let one = before.iter().filter(|entry| !after.contains(entry));
    let other = after.iter().filter(|entry| !before.contains(entry));
    one.chain(other).map(|(path, ..)| path.as_path()).collect()
}

pub fn tree(site: &Site) -> PathBuf {
    let tree = site.machine.path("home/linux");
    write_sources(&tree);
    git(&tree, &["init", "--quiet"]);
    git(&tree, &["add", "--all"]);
    git(&tree, &["commit", "--quiet", "--message", "one"]);
    git(&tree, &["tag", "v1"]);
    tree
}

fn build_tree(site: &Site, more: &[&str]) -> Output {
    site.machine.kernel(&[&["build", "--name", "mine", "--tree"], more].concat())
}

#[test]
fn a_tree_is_built_as_it_is_and_left_as_it_was() {
    let Some(site) = on_amd64(Site::new) else { return };
    let tree = tree(&site);
    let built = |more: &[&str]| {
        let output = done(build_tree(&site, &[&["./linux"], more].concat()));
        (site.digest(), stderr(&output))
    };
    let (clean, message) = built(&[]);
    assert!(!message.contains("differ"), "{message}");
    // A tree that was built in place, was changed in the second of git's last look, and has one more file.
    fs::write(tree.join(".config"), "CONFIG_X=y\n").unwrap();
    fs::write(tree.join("kernel/core.o"), "of another build").unwrap();
    git(&tree, &["status"]);
    let index = tree.join(".git/index").metadata().unwrap().modified().unwrap();
    fs::write(tree.join("kernel/fair.c"), "int slice = 3;\n").unwrap();
    fs::File::open(tree.join("kernel/fair.c")).unwrap().set_modified(index).unwrap();
    fs::write(tree.join("kernel/new.c"), "int new;\n").unwrap();
    let before = state(&tree);
    let (changed, message) = built(&[]);
    assert_ne!(changed, clean);
    assert!(message.contains("linux: 2 files differ from its commit, and are built as they are"));
    assert_eq!(differ(&before, &state(&tree)), NOTHING);
    assert_eq!(built(&["--rev", "v1"]).0, clean);
    assert_eq!(differ(&before, &state(&tree)), NOTHING);

    let bare = site.machine.path("home/bare");
    git(&tree, &["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    done(build_tree(&site, &["./bare", "--rev", "v1"]));
    assert_eq!(site.digest(), clean);

    // The same without a repository.
    fs::remove_dir_all(tree.join(".git")).unwrap();
    assert_eq!(built(&[]).0, changed);
}

#[test]
fn a_tree_that_cannot_be_built_is_refused() {
    let Some(site) = on_amd64(Site::new) else { return };
    let tree = tree(&site);
    let other = site.machine.path("home/other");
    fs::create_dir(&other).unwrap();
    git(&other, &["init", "--quiet"]);
    git(&other, &["commit", "--quiet", "--allow-empty", "--message", "none"]);
    let cases: &[(&[&str], i32, &str)] = &[
        (&["./linux", "--rev", "v2"], 2, "linux has no revision `v2`"),
        (&["./other"], 2, "other is not a tree of Linux: it has no Makefile"),
        (&["./other", "--rev", "HEAD"], 2, "other@HEAD is not a tree of Linux: it has no Makefile"),
        (&["./nonesuch"], 2, "cannot read ./nonesuch: "),
    ];
    for (more, code, words) in cases {
        let output = build_tree(&site, more);
        let message = stderr(&output);
        assert!(message.contains(words) && message.contains("\nhint: "), "{more:?}: {message}");
        assert_eq!(output.status.code(), Some(*code), "{more:?}: {message}");
    }
    git(&tree, &["status"]);
    site.has_no_kernel();
}
