//! The scheduler of a kernel, by its version and its configuration. Pure.

use crate::model::Reading;

/// Patches that replace mainline's scheduler, by their options.
const PATCHES: &[(&str, &str)] = &[
    ("CONFIG_SCHED_MUQSS", "MuQSS"),
    ("CONFIG_SCHED_BMQ", "BMQ"),
    ("CONFIG_SCHED_PDS", "PDS"),
    ("CONFIG_SCHED_BORE", "BORE"),
];
/// The first release whose fair class is EEVDF.
const FIRST_EEVDF: (u32, u32) = (6, 6);

/// The scheduler of ordinary tasks: the scheduler of a patch if the configuration shows one, else mainline's.
pub fn family(release: &str, config: Option<&str>) -> Reading<&'static str> {
    let Some(config) = config else {
        // A patch may have replaced it.
        return Reading::Unknown("there is no configuration next to the kernel".to_string());
    };
    if let Some((_, name)) = PATCHES.iter().find(|(option, _)| has(config, option)) {
        return Reading::Known(name);
    }
    match series(release) {
        Some(series) if series >= FIRST_EEVDF => Reading::Known("EEVDF"),
        Some(_) => Reading::Known("CFS"),
        None => Reading::Unknown(format!("the release `{release}` begins with no version")),
    }
}

/// Whether schedulers can be loaded as BPF programs.
pub fn sched_ext(config: Option<&str>) -> Reading<bool> {
    match config {
        Some(text) => Reading::Known(has(text, "CONFIG_SCHED_CLASS_EXT")),
        None => Reading::Unknown("there is no configuration next to the kernel".to_string()),
    }
}

fn has(config: &str, option: &str) -> bool {
    config.lines().any(|line| line.trim_end().strip_prefix(option) == Some("=y"))
}

fn series(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_follows_from_version_and_patches() {
        let cases: &[(&str, Option<&str>, Option<&str>)] = &[
            ("6.1.0-50-cloud-amd64", Some("CONFIG_SMP=y\n"), Some("CFS")),
            ("6.5.13", Some(""), Some("CFS")),
            ("6.6.1", Some(""), Some("EEVDF")),
            ("6.12.107+deb13-cloud-amd64", Some(""), Some("EEVDF")),
            ("7.3.4", Some(""), Some("EEVDF")),
            ("10.0.0", Some(""), Some("EEVDF")),
            ("6.12.1", None, None),
            ("5.10.262", Some("CONFIG_SMP=y\nCONFIG_SCHED_MUQSS=y\n"), Some("MuQSS")),
            ("5.10.262", Some("# CONFIG_SCHED_MUQSS is not set\n"), Some("CFS")),
            ("6.12.1", Some("CONFIG_SCHED_BORE=y"), Some("BORE")),
            ("mine", Some(""), None),
            ("", Some(""), None),
        ];
        for (release, config, expected) in cases {
            assert_eq!(family(release, *config).known(), *expected, "{release}");
        }
    }

    #[test]
    fn sched_ext_is_unknown_without_a_configuration() {
        assert_eq!(sched_ext(None).known(), None);
        let cases = [
            ("CONFIG_SCHED_CLASS_EXT=y\n", true),
            ("# CONFIG_SCHED_CLASS_EXT is not set\n", false),
            ("CONFIG_SCHED_CLASS_EXT_MORE=y\n", false),
            ("", false),
        ];
        for (config, expected) in cases {
            assert_eq!(sched_ext(Some(config)).known(), Some(expected), "{config}");
        }
    }
}
