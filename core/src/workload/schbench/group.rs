//! The state that one message thread and its workers share, whatever the mode.

use crate::sys::futex::Scope;
use crate::sys::{clock, shared};
use crate::workload::Worker;
use crate::workload::wakeup::{STOPPED, Seat};

use super::arrivals::Inbox;
use super::buffers::Buffers;
use super::shape::{Mode, Shape};
use super::spec::WAKEUP;

/// Shared by one message thread and its workers, in pages of their own: on a machine with
/// several nodes the first touch decides on which node a page is.
pub struct Group {
    /// The seat of the message thread.
    pub message: &'static Seat,
    /// The seats of its workers.
    pub seats: &'static [Seat],
    /// One inbox for each worker, at a rate only.
    pub inboxes: &'static [Inbox],
    /// Buffers, in pipe mode only.
    pub buffers: Option<Buffers>,
}

impl Group {
    pub fn new(shape: &Shape, scope: Scope) -> std::io::Result<Group> {
        let at_a_rate = matches!(shape.mode, Mode::Rate { .. });
        let (message, seats) = shared::leak_slice(1 + shape.threads)?
            .split_first()
            .ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(Group {
            message,
            seats,
            inboxes: shared::leak_slice(if at_a_rate { shape.threads } else { 0 })?,
            buffers: match shape.mode {
                Mode::Pipe { bytes } => Some(Buffers::new(shape.threads, bytes, scope)?),
                _ => None,
            },
        })
    }
}

/// Sleeps until the seat is posted and records how long the wake-up took. Returns the time; `None`:
/// the worker is to stop.
#[inline]
pub fn await_post(seat: &Seat, scope: Scope, worker: &Worker) -> Option<u64> {
    let posted_ns = seat.wait(scope);
    if posted_ns == STOPPED {
        return None;
    }
    let now_ns = clock::monotonic_ns();
    let latency_ns = now_ns.saturating_sub(posted_ns);
    worker.record(WAKEUP, now_ns, latency_ns);
    worker.note_delay(latency_ns);
    Some(now_ns)
}
