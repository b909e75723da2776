//! Saturating: a worker enlists with its message thread, wakes it and sleeps; the message
//! thread posts all that are enlisted, on behalf of the start of that pass, and sleeps.

use crate::sys::clock;
use crate::sys::futex::Scope;
use crate::workload::Worker;

use super::group::{Group, await_post};
use super::request::Job;
use super::spec::WAKEUP;

/// The message thread.
pub fn hand_out(group: &Group, scope: Scope, worker: &Worker) {
    let Group { message, seats, .. } = group;
    worker.start();
    while worker.running() {
        message.block_for_list();
        message.post_list(seats, scope, clock::monotonic_ns);
        message.wait(scope);
    }
}

/// A worker: asks for a turn, sleeps until it has it, does a request.
pub fn take(group: &Group, index: usize, scope: Scope, job: &mut Job, worker: &Worker) {
    let Group { message, seats, .. } = group;
    let seat = &seats[index];
    let mut waiting_ns = worker.start();
    while worker.running() {
        worker.begin(WAKEUP, waiting_ns);
        seat.block_for_list();
        message.enlist(seats, index);
        message.post(scope);
        if await_post(seat, scope, worker).is_none() {
            return;
        }
        waiting_ns = job.request(worker);
    }
}
