//! Tables and records for tests. Pure.

use super::{GUEST_WIRE, GuestFacts, Reading, Topology, WorkerResult};

/// A worker that nothing kept from its CPU.
pub fn worker_result(ops: u64, wall_ns: u64, cpu_ns: u64) -> WorkerResult {
    WorkerResult {
        role: "worker".to_string(),
        tid: 7,
        ops,
        wall_ns,
        cpu_ns,
        counted_wall_ns: wall_ns,
        voluntary_switches: Reading::Known(0),
        involuntary_switches: Reading::Known(0),
        migrations: Reading::Known(0),
        run_queue_wait_ns: Reading::Known(0),
    }
}

/// A guest of this kernel, which has its CPUs alone.
pub fn guest_facts(kernel_release: &str) -> GuestFacts {
    GuestFacts {
        wire: GUEST_WIRE,
        kernel_release: kernel_release.to_string(),
        kernel_version: "#1".to_string(),
        scheduler: Reading::Known("EEVDF".to_string()),
        topology: Topology::default(),
        sockets: None,
        node_distance: None,
        quiet_at_ns: 0,
        capacity: Reading::Known(1.0),
        timer_resolution_ns: 1,
        sched_code: Vec::new(),
    }
}

/// The rows of a table: a text, whose lines have ` | ` between them, and all that is expected of it, each behind `=>`. A
/// line that begins with `=>` goes on with the row above it, and one that begins with `# ` is a comment.
pub fn rows(table: &str) -> Vec<(String, Vec<&str>)> {
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    let lines = table.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("# ")) {
        let mut parts = line.split("=>").map(str::trim);
        let text = parts.next().unwrap_or_default();
        if !text.is_empty() {
            rows.push((text.replace(" | ", "\n"), Vec::new()));
        }
        rows.last_mut().expect("a text").1.extend(parts.filter(|part| !part.is_empty()));
    }
    rows
}
