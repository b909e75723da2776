//! How hot the machine is, by its thermal zones.

use super::Host;
use super::input;

const ZONES: &str = "/sys/class/thermal";

/// The temperature of the hottest zone; `None` where none is known.
pub fn hottest_celsius(host: &Host) -> Option<f64> {
    let zones = std::fs::read_dir(host.path(ZONES)).ok()?.flatten();
    let zones = zones.filter(|zone| zone.file_name().to_string_lossy().starts_with("thermal_zone"));
    let temperature = |zone: std::fs::DirEntry| {
        let text = input::kernel_text(zone.path().join("temp")).ok()?;
        text.trim().parse::<f64>().ok().map(|milli| milli / 1000.0)
    };
    zones.filter_map(temperature).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::testing::Tree;

    #[test]
    fn the_hottest_zone_counts() {
        let tree = Tree::with_files(&[
            ("/sys/class/thermal/thermal_zone0/temp", "27800\n"),
            ("/sys/class/thermal/thermal_zone1/temp", "61500\n"),
            ("/sys/class/thermal/thermal_zone2/type", "acpitz\n"),
            ("/sys/class/thermal/cooling_device0/temp", "99000\n"),
        ]);
        assert_eq!(hottest_celsius(&tree.host()), Some(61.5));
        assert_eq!(hottest_celsius(&Tree::with_files(&[("/etc/nothing", "")]).host()), None);
    }
}
