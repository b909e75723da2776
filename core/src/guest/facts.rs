//! Finds out the facts about an agent's machine.

use crate::model::{CodeRange, GUEST_WIRE, GuestFacts, Reading};
use crate::sys::{self, Host, clock, environment, topology};

pub fn facts(host: &Host, capacity: Reading<f64>, sched_code: Vec<CodeRange>) -> GuestFacts {
    let system = environment::Identity::here();
    GuestFacts {
        wire: GUEST_WIRE,
        kernel_release: system.kernel_release,
        kernel_version: system.kernel_version,
        scheduler: sys::scheduler(host),
        topology: topology::topology(host, system.affinity),
        sockets: topology::sockets(host),
        node_distance: topology::node_distance(host),
        quiet_at_ns: clock::monotonic_ns(),
        capacity,
        timer_resolution_ns: clock::timer_resolution_ns(),
        sched_code,
    }
}
