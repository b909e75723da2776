//! Pipe mode: bytes in place of requests, which a message thread and a worker fill in turn.
//!
//! One operation is one transfer. The message thread fills the buffer of each worker on its list and stamps that
//! worker right before its post, so that the filling does not count as latency.

use crate::sys::clock;
use crate::sys::futex::Scope;
use crate::workload::Worker;

use super::buffers::Buffers;
use super::group::{Group, await_post};
use super::spec::WAKEUP;

/// The bytes that the message thread and the worker write.
const SENT: u8 = 1;
const ANSWERED: u8 = 2;

/// The message thread.
pub fn send(group: &Group, buffers: &Buffers, scope: Scope, worker: &Worker) {
    let Group { message, seats, .. } = group;
    worker.start();
    while worker.running() {
        message.block_for_list();
        for index in message.take_list(seats) {
            // SAFETY: the worker enlisted itself after its last use of the buffer, sleeps
            // until it is posted, and uses it only then.
            unsafe { buffers.fill(index, SENT) };
            seats[index].post_at(clock::monotonic_ns(), scope);
        }
        message.wait(scope);
    }
}

/// A worker.
pub fn answer(group: &Group, buffers: &Buffers, index: usize, scope: Scope, worker: &Worker) {
    let Group { message, seats, .. } = group;
    let seat = &seats[index];
    // SAFETY: not enlisted yet, so the message thread does not use it. Takes its page faults.
    unsafe { buffers.fill(index, ANSWERED) };
    let mut waiting_ns = worker.start();
    while worker.running() {
        worker.begin(WAKEUP, waiting_ns);
        // SAFETY: the message thread stopped using it with the post that ended the last wait, and
        // uses it again only when this worker is on its list again.
        unsafe { buffers.fill(index, ANSWERED) };
        seat.block_for_list();
        message.enlist(seats, index);
        message.post(scope);
        let Some(now_ns) = await_post(seat, scope, worker) else { return };
        waiting_ns = now_ns;
        worker.add_ops(1);
    }
}
