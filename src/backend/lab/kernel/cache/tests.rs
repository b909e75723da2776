//! Caches: whole, broken and shared.

use std::fs;
use std::sync::mpsc;

use super::super::shelf::{Lock, NEVER};
use super::bzimage::testing::bzimage;

use super::*;
use crate::model::Advice;

const CLOUD: &str = "6.18.15+deb13-cloud-amd64";

fn cache() -> (tempfile::TempDir, Cache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    (folder, cache)
}

/// A program that another test is about to start may hold it for a moment.
fn lock(cache: &Cache) -> Lock {
    cache.shelf().lock(&NEVER, &mut || ()).unwrap()
}

/// Puts a kernel into the cache as `get` does.
fn add(cache: &Cache, release: &str, package_version: &str) -> PathBuf {
    let held = lock(cache);
    let scratch = cache.shelf().scratch(&held).unwrap();
    let new = scratch.path().join("kernel");
    fs::create_dir_all(new.join(MODULES)).unwrap();
    fs::write(new.join(IMAGE), bzimage(&format!("{release} (x) #1"), package_version)).unwrap();
    fs::write(new.join(CONFIG), "CONFIG_SCHED_CLASS_EXT=y\n").unwrap();
    fs::write(new.join(MODULES).join("virtio.ko"), "code").unwrap();
    let packaged = Packaged::kernel(release, package_version).unwrap();
    let origin = Provenance::Package {
        package: format!("linux-image-{release}"),
        package_version: package_version.to_string(),
        fetched: Vec::new(),
        fetched_at: super::super::stamp::now(),
    };
    Stamp::write(&new, packaged.name.to_string(), release.to_string(), None, origin).unwrap();
    let folder = cache.folder(&packaged);
    cache.shelf().put(&new, &folder, &held).unwrap();
    folder
}

fn newest(cache: &Cache, name: &str) -> Option<Entry> {
    cache.newest(&CachedName::parse(name).unwrap()).unwrap()
}

fn release_of(entry: &Entry) -> String {
    match &entry.identity {
        Identity::Package(package) => package.release().to_string(),
        Identity::Built(name) => name.to_string(),
    }
}

#[test]
fn the_newest_of_a_series_is_found() {
    let (_folder, cache) = cache();
    assert_eq!(newest(&cache, "debian:6.18"), None, "no folder is an empty cache");
    add(&cache, "6.18.9+deb13-cloud-amd64", "6.18.9-1~bpo13+1");
    add(&cache, CLOUD, "6.18.15-1~bpo13+1");
    add(&cache, "6.18.20+deb13-amd64", "6.18.20-1~bpo13+1");
    add(&cache, "6.1.0-50-cloud-amd64", "6.1.176-1");
    let release = |name| newest(&cache, name).map(|entry| release_of(&entry));
    assert_eq!(release("debian:6.18").as_deref(), Some(CLOUD));
    assert_eq!(release("debian:6.18.9").as_deref(), Some("6.18.9+deb13-cloud-amd64"));
    assert_eq!(release("debian:6.18-amd64").as_deref(), Some("6.18.20+deb13-amd64"));
    assert_eq!(release("debian:6.1").as_deref(), Some("6.1.0-50-cloud-amd64"));
    assert_eq!(release("debian:6.12"), None);

    let kernel = newest(&cache, "debian:6.18").unwrap().kernel().unwrap();
    assert_eq!((kernel.name.as_str(), kernel.release.as_str()), ("debian:6.18.15", CLOUD));
    let package = kernel.package().unwrap();
    assert_eq!(
        (&*package.name, &*package.version),
        (&*format!("linux-image-{CLOUD}"), "6.18.15-1~bpo13+1")
    );
    assert_eq!(modules::few(kernel.modules.as_ref().unwrap()).unwrap().len(), 1);
    assert_eq!(kernel.sched_ext().known(), Some(true));
}

#[test]
fn the_stamp_describes_what_was_written() {
    let (_folder, cache) = cache();
    let folder = add(&cache, CLOUD, "6.18.15-1~bpo13+1");
    let entry = newest(&cache, "debian:6.18").unwrap();
    let stamp = entry.stamp().unwrap();
    assert_eq!(stamp.schema, 1);
    assert_eq!(stamp.name, "debian:6.18.15");
    assert_eq!(stamp.digest, entry.kernel().unwrap().digest);
    let files = [IMAGE, CONFIG, "modules/virtio.ko"].map(|name| folder.join(name));
    let sum: u64 = files.iter().map(|path| path.metadata().unwrap().len()).sum();
    assert_eq!(stamp.size_bytes, sum);
    stamp.origin.at().parse::<jiff::Timestamp>().unwrap();
}

/// A change to a kernel's files, and the error that must follow.
type Fault = (fn(&Path), &'static str);

#[test]
fn a_damaged_kernel_is_reported_and_never_booted() {
    let faults: &[Fault] = &[
        (|folder| fs::remove_file(folder.join(STAMP)).unwrap(), "stamp.json: No such file"),
        (|folder| fs::write(folder.join(STAMP), "{").unwrap(), "stamp.json: EOF"),
        (|folder| fs::write(folder.join(STAMP), "{\"schema\":1}").unwrap(), "missing field"),
        (|folder| fs::write(folder.join(STAMP), "{\"schema\":2}").unwrap(), "has format 2"),
        (|folder| fs::remove_file(folder.join(IMAGE)).unwrap(), "vmlinuz: No such file"),
        (|folder| fs::write(folder.join(IMAGE), "short").unwrap(), "bytes, and had"),
        (|folder| fs::remove_file(folder.join(CONFIG)).unwrap(), "bytes, and had"),
        (|folder| fs::remove_dir_all(folder.join(MODULES)).unwrap(), "bytes, and had"),
        (|folder| turn_a_byte(&folder.join(IMAGE)), "not those that were fetched"),
        (|folder| turn_a_byte(&folder.join(CONFIG)), "not those that were fetched"),
        (|folder| turn_a_byte(&folder.join("modules/virtio.ko")), "not those that were fetched"),
        (
            |folder| {
                let text = fs::read_to_string(folder.join(STAMP)).unwrap();
                let other = text.replace("6.18.15-1~", "6.18.15-2~");
                fs::write(folder.join(STAMP), other).unwrap();
            },
            "is that of",
        ),
    ];
    for (at, (fault, expected)) in faults.iter().enumerate() {
        let (_folder, cache) = cache();
        fault(&add(&cache, CLOUD, "6.18.15-1~bpo13+1"));
        let error = newest(&cache, "debian:6.18").unwrap().kernel().unwrap_err();
        assert!(error.to_string().contains(expected), "{at}: {error}");
        assert!(matches!(error, KernelError::Damaged { .. }), "{at}: {error:?}");
        assert_eq!(error.hint().unwrap(), "schedlab kernel get debian:6.18.15");
    }
}

fn turn_a_byte(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn an_unfinished_folder_is_no_kernel_and_is_removed() {
    let (_folder, cache) = cache();
    add(&cache, CLOUD, "6.18.15-1~bpo13+1");
    let killed = cache.kernels().join(".new");
    fs::create_dir_all(killed.join("kernel")).unwrap();
    for name in ["README", "6.18_1", "no-release_6.18", ".6.18.1-cloud-amd64_6.18.1-1"] {
        fs::create_dir(cache.kernels().join(name)).unwrap();
    }
    let releases = |cache: &Cache| -> Vec<String> {
        cache.entries().unwrap().iter().map(release_of).collect()
    };
    assert_eq!(releases(&cache), [CLOUD]);
    let held = lock(&cache);
    let scratch = cache.shelf().scratch(&held).unwrap();
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "what was left is gone");
    drop(scratch);
    assert!(!killed.exists());
    assert_eq!(releases(&cache), [CLOUD]);
}

#[test]
fn a_kernel_replaces_a_damaged_one() {
    let (_folder, cache) = cache();
    let folder = add(&cache, CLOUD, "6.18.15-1~bpo13+1");
    fs::write(folder.join(STAMP), "").unwrap();
    add(&cache, CLOUD, "6.18.15-1~bpo13+1");
    newest(&cache, "debian:6.18").unwrap().kernel().unwrap();
    assert!(!cache.kernels().join(".old").exists());
}

#[test]
fn the_second_waits_for_the_first() {
    let (_folder, cache) = cache();
    let held = lock(&cache);
    let (sender, receiver) = mpsc::channel();
    let other = Cache::at(&cache.root);
    let second = std::thread::spawn(move || {
        other.shelf().lock(&NEVER, &mut || sender.send("waiting").unwrap()).map(drop).unwrap();
    });
    assert_eq!(receiver.recv(), Ok("waiting"));
    assert!(!second.is_finished());
    drop(held);
    second.join().unwrap();
}

#[test]
fn a_cache_that_cannot_be_made_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kernels"), "a file").unwrap();
    let cache = Cache::at(folder.path());
    let errors = [
        cache.shelf().lock(&NEVER, &mut || ()).map(drop).unwrap_err(),
        cache.entries().unwrap_err(),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(text.starts_with("cannot ") && text.contains("kernels: "), "{text}");
        assert!(
            ["set XDG_CACHE_HOME", "ls -ld /"]
                .iter()
                .any(|hint| error.hint().unwrap().starts_with(hint))
        );
    }
}
