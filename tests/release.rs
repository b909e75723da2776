//! `scripts/release.sh`: what a release offers has the same bytes from any folder, and the .deb installs and is
//! removed without a trace.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use crate::house::documents;
use crate::support::{checkout, done, ended, skip, stderr, stdout, write_script};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn is_there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        skip(program);
    }
    is_there
}

fn script(path: std::path::PathBuf, command: &str) -> std::path::PathBuf {
    write_script(&path, &format!("exec {command} \"$@\""));
    path
}

/// Stands in for the static binary, which takes minutes to build: it starts the one under test.
fn binary(folder: &Path) -> std::path::PathBuf {
    script(folder.join("binary"), env!("CARGO_BIN_EXE_schedlab"))
}

fn release(folder: &Path, version: &str, target: &str) -> Output {
    let mut command = Command::new("bash");
    command.arg(checkout().join("scripts/release.sh")).arg(version);
    command.args([binary(folder), folder.join("out")]).env("SOURCE_DATE_EPOCH", "1700000000");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    command.env("TARGET", target).env("PATH", path).output().unwrap()
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", stderr(&output));
    stdout(&output)
}

fn files(folder: &Path) -> BTreeSet<String> {
    let found = run("find", &[folder.to_str().unwrap(), "-not", "-type", "d", "-printf", "%P\n"]);
    found.lines().map(str::to_string).collect()
}

#[test]
fn a_release_has_the_same_bytes_from_two_folders() {
    if !is_there("dpkg-deb") {
        return;
    }
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let sums = folders.each_ref().map(|folder| {
        let output = done(release(folder.path(), VERSION, ""));
        stdout(&output)
    });
    assert_eq!(sums[0], sums[1]);
    let out = folders[0].path().join("out");
    let name = format!("schedlab-{VERSION}-x86_64-linux");
    let archive = out.join(format!("{name}.tar.gz"));
    let list = run("tar", &["tzf", archive.to_str().unwrap()]);
    for wanted in [
        "schedlab",
        "man/man1/schedlab-compare.1",
        "completions/schedlab.fish",
        "THIRD-PARTY.txt",
        "sbom.cdx.json",
        "LICENSE-MIT",
        "docs/stability.md",
        "docs/ci/schedlab-test.sh",
        "schedlab.html",
    ] {
        assert!(list.lines().any(|line| line == format!("{name}/{wanted}")), "{wanted}: {list}");
    }
    let check =
        Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(&out).output();
    assert!(check.unwrap().status.success());
    let wrong = ended(release(folders[0].path(), "99.0.0", ""), 2);
    assert!(stderr(&wrong).contains(&format!("hint: make release VERSION={VERSION}")), "{wrong:?}");
}

/// Fails where a link of a document leads to no file next to it; returns the number of links.
fn assert_links_hold(folder: &Path) -> usize {
    let paths = files(folder);
    let links = paths.iter().filter(|path| path.ends_with(".md")).map(|path| {
        let text = std::fs::read_to_string(folder.join(path)).unwrap();
        let near = folder.join(path).parent().unwrap().to_path_buf();
        let targets: Vec<&str> = documents::links(&text).into_iter().map(|(_, to)| to).collect();
        for target in &targets {
            assert!(near.join(target).exists(), "{path} leads to {target}, which is not packed");
        }
        targets.len()
    });
    links.sum()
}

#[test]
fn links_of_packed_documents_lead_to_what_is_packed() {
    if !is_there("dpkg-deb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    done(release(folder.path(), VERSION, ""));
    let out = folder.path().join("out");
    let archive = out.join(format!("schedlab-{VERSION}-x86_64-linux.tar.gz"));
    let unpacked = folder.path().join("unpacked");
    std::fs::create_dir(&unpacked).unwrap();
    run("tar", &["xzf", archive.to_str().unwrap(), "-C", unpacked.to_str().unwrap()]);
    assert!(assert_links_hold(&unpacked) > 100, "links between documents stay");
    let glossary = unpacked.join(format!("schedlab-{VERSION}-x86_64-linux/docs/glossary.md"));
    let glossary = std::fs::read_to_string(glossary).unwrap();
    assert!(glossary.contains("`model::Variant`\n"), "the name stays: {glossary}");
    let deb = out.join(format!("schedlab_{VERSION}_amd64.deb"));
    let package = folder.path().join("package");
    run("dpkg-deb", &["-x", deb.to_str().unwrap(), package.to_str().unwrap()]);
    assert_links_hold(&package);
}

#[test]
fn a_release_for_another_architecture_joins_the_first() {
    if !is_there("dpkg-deb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    // The sums of a release are those of all its files.
    std::fs::create_dir(&out).unwrap();
    let first = format!("schedlab_{VERSION}_amd64.deb");
    std::fs::write(out.join(&first), "").unwrap();
    // Somebody has unpacked the first archive, and edited the SBOM.
    std::fs::create_dir(out.join(format!("schedlab-{VERSION}-x86_64-linux"))).unwrap();
    std::fs::write(out.join(format!("schedlab-{VERSION}.cdx.json~")), "").unwrap();
    let started = folder.path().join("started");
    let mark = format!("sh -c 'echo >>{}; exec \"$0\" \"$@\"'", started.display());
    script(folder.path().join("qemu-aarch64"), &mark);
    let output = done(release(folder.path(), VERSION, "aarch64-unknown-linux-gnu"));
    let own = format!("schedlab_{VERSION}_arm64.deb");
    for wanted in [&first, &own, &format!("schedlab-{VERSION}-aarch64-linux.tar.gz")] {
        assert!(stdout(&output).contains(wanted), "{wanted}: {}", stdout(&output));
    }
    assert!(!stdout(&output).contains('~'), "{}", stdout(&output));
    let starts = std::fs::read_to_string(started).unwrap().lines().count();
    assert_eq!(starts, 5, "pages, completions for three shells, and the book");
    let own = out.join(own);
    assert_eq!(
        run("dpkg-deb", &["--field", own.to_str().unwrap(), "Architecture"]).trim(),
        "arm64"
    );
    let other = ended(release(folder.path(), VERSION, "riscv64gc-unknown-linux-gnu"), 2);
    assert!(stderr(&other).contains("`riscv64gc`"), "{other:?}");
}

#[test]
fn the_deb_is_installed_and_removed_without_a_trace() {
    if !is_there("dpkg-deb") {
        return;
    }
    if run("id", &["-u"]).trim() != "0" {
        return skip("privilege: dpkg gives files to root");
    }
    let folder = tempfile::tempdir().unwrap();
    done(release(folder.path(), VERSION, ""));
    let root = folder.path().join("root");
    let database = root.join("var/lib/dpkg");
    std::fs::create_dir_all(database.join("updates")).unwrap();
    std::fs::create_dir_all(database.join("info")).unwrap();
    std::fs::write(database.join("status"), "").unwrap();
    let deb = folder.path().join(format!("out/schedlab_{VERSION}_amd64.deb"));
    let dpkg = |arguments: &[&str]| {
        let own =
            [&format!("--root={}", root.display())[..], "--log=/dev/null", "--force-architecture"];
        run("dpkg", &[&own, arguments].concat())
    };
    let others = |files: BTreeSet<String>| -> BTreeSet<String> {
        files.into_iter().filter(|path| !path.starts_with("var/lib/dpkg/")).collect()
    };
    dpkg(&["--install", deb.to_str().unwrap()]);
    let installed = others(files(&root));
    for wanted in [
        "usr/bin/schedlab",
        "usr/share/man/man1/schedlab.1.gz",
        "usr/share/bash-completion/completions/schedlab",
        "usr/share/doc/schedlab/copyright",
    ] {
        assert!(installed.contains(wanted), "{wanted}: {installed:?}");
    }
    let program = root.join("usr/bin/schedlab");
    let said = run(program.to_str().unwrap(), &["--version"]);
    assert!(said.contains(VERSION), "{said}");
    dpkg(&["--verify", "schedlab"]);
    dpkg(&["--purge", "schedlab"]);
    assert_eq!(others(files(&root)), BTreeSet::new());
    assert!(!root.join("usr").exists(), "folders stay");
}
