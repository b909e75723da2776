//! Finding kernels: by path, in a cache, and not at all.

use std::fs;

use super::bzimage::testing::bzimage;
use super::*;
use crate::model::Advice;

const VERSION: &str = "5.10.262-ck1+ (me@example.org) #1 SMP PREEMPT";

fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("arch/x86/boot")).unwrap();
    fs::write(folder.path().join("arch/x86/boot/bzImage"), bzimage(VERSION, "code")).unwrap();
    folder
}

#[test]
fn a_kernel_of_ones_own_is_found_by_its_path() {
    let folder = tree();
    let path = folder.path().join("arch/x86/boot/bzImage");
    let bare = find(path.to_str().unwrap()).unwrap();
    assert_eq!((bare.release.as_str(), bare.version.as_str()), ("5.10.262-ck1+", VERSION));
    assert_eq!((&bare.config, &bare.modules, &bare.origin), (&None, &None, &Origin::File));
    assert_eq!(bare.name, path.to_string_lossy());
    assert_eq!(bare.scheduler().known(), None);
    assert_eq!(bare.sched_ext().known(), None);

    fs::write(folder.path().join(".config"), "CONFIG_SCHED_MUQSS=y\n").unwrap();
    let configured = find(path.to_str().unwrap()).unwrap();
    assert_eq!(configured.scheduler().known(), Some("MuQSS"));
    assert_eq!(configured.sched_ext().known(), Some(false));
    assert_ne!(configured.digest, bare.digest, "the configuration counts");
    assert_eq!(find(path.to_str().unwrap()).unwrap(), configured);
}

#[test]
fn given_files_win_over_those_next_to_the_kernel() {
    let folder = tree();
    let boot = folder.path().join("arch/x86/boot");
    let image_path = boot.join("bzImage");
    let config = |name: &str| {
        fs::write(boot.join(name), format!("# {name}")).unwrap();
        image(&image_path, None, None).unwrap().config.unwrap()
    };
    // Each wins over those before it.
    for name in ["config", "config-5.10.262-ck1+", ".config"] {
        assert_eq!(config(name), boot.join(name));
    }
    let given = folder.path().join("mine");
    fs::write(&given, "# mine").unwrap();
    assert_eq!(image(&image_path, Some(&given), None).unwrap().config, Some(given));

    fs::create_dir(boot.join("modules")).unwrap();
    let without = image(&image_path, None, None).unwrap();
    assert!(modules::few(without.modules.as_ref().unwrap()).unwrap().is_empty());
    fs::write(boot.join("modules/virtio.ko"), "code").unwrap();
    let with = image(&image_path, None, None).unwrap();
    assert_eq!(modules::few(&with.modules.unwrap()).unwrap(), [boot.join("modules/virtio.ko")]);
    assert_ne!(with.digest, without.digest);
}

#[test]
fn given_files_that_are_missing_are_errors() {
    let folder = tree();
    let path = folder.path().join("arch/x86/boot/bzImage");
    let missing = folder.path().join("nonesuch");
    let errors = [
        image(&missing, None, None).unwrap_err(),
        image(&path, Some(&missing), None).unwrap_err(),
        image(&path, None, Some(&missing)).unwrap_err(),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(text.starts_with("cannot read ") && text.contains("nonesuch"), "{text}");
        assert!(error.is_usage(), "{text}");
    }
    fs::write(&path, "not a kernel").unwrap();
    let error = find(path.to_str().unwrap()).unwrap_err();
    assert!(error.to_string().contains("no `HdrS`"), "{error}");
}

#[test]
fn a_text_that_is_no_name_is_a_usage_error() {
    for name in ["debian:6", "6.18", "debian", "nonesuch", ""] {
        let error = find(name).unwrap_err();
        assert!(error.is_usage(), "{name}: {error}");
        assert!(error.hint().unwrap().contains("schedlab kernel list --available"), "{error}");
    }
}

#[test]
fn a_kernel_that_is_not_cached_can_be_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let name = CachedName::parse("debian:6.18").unwrap();
    let error = find_in(&Cache::at(folder.path()), &name).unwrap_err();
    assert_eq!(error.hint().unwrap(), "schedlab kernel get debian:6.18");
    assert!(error.to_string().contains("`debian:6.18` is not in the cache"), "{error}");
}
