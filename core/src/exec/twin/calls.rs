//! The time of system calls, of switches on one CPU, and of an instruction.

use std::os::unix::process::parent_id;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::exec::ExecError;
use crate::model::{Cost, Reading};
use crate::sys::clock;
use crate::sys::futex::{self, Scope};
use crate::sys::host::error_text;
use crate::sys::perf::{Countable, Counter, Place};

use super::pinned::{self, joined, pin};
use super::samples::{Costs, spread};

/// Calls, or rounds of two switches, of a batch: reading a clock is then a small part of it.
const CALLS: u64 = 1_000;
const ROUNDS: u64 = 100;

/// The thread whose turn it is, in a ping-pong of two.
const FIRST: u32 = 0;
const SECOND: u32 = 1;
const OUT: u32 = 2;

pub fn measure(cpu: u32, batches: usize, costs: &mut Costs) -> Result<(), ExecError> {
    std::thread::scope(|threads| {
        joined(threads.spawn(|| {
            pin(cpu)?;
            let calls = system_calls(batches);
            costs
                .insert(Cost::SystemCall, spread(calls.iter().map(|ns| *ns as f64 / CALLS as f64)));
            switches(cpu, batches, costs)
        }))
    })
}

/// Batches, in nanoseconds.
fn system_calls(count: usize) -> Vec<u64> {
    let mut batches = Vec::with_capacity(count);
    for _ in 0..count {
        let began_ns = clock::monotonic_ns();
        (0..CALLS).for_each(|_| _ = std::hint::black_box(parent_id()));
        batches.push(clock::monotonic_ns() - began_ns);
    }
    batches
}

fn switches(cpu: u32, count: usize, costs: &mut Costs) -> Result<(), ExecError> {
    let ball = AtomicU32::new(FIRST);
    // Threads that are made from now on are counted with this one.
    let counter = Counter::open(Countable::INSTRUCTIONS, Place::Task(0));
    let counted = || Some(counter.as_ref().ok()?.read().ok()?.value);
    let (mut batches, mut counts) = (Vec::with_capacity(count), Vec::with_capacity(count));
    std::thread::scope(|threads| {
        let other = threads.spawn(|| {
            let played = pin(cpu).map(|()| while pass(&ball, SECOND, FIRST) {});
            end(&ball);
            played
        });
        for _ in pinned::samples(count) {
            let before = counted();
            let began_ns = clock::monotonic_ns();
            (0..ROUNDS).for_each(|_| _ = pass(&ball, FIRST, SECOND));
            batches.push(clock::monotonic_ns() - began_ns);
            counts.push(before.zip(counted()).map(|(before, after)| after - before));
        }
        end(&ball);
        joined(other)
    })?;
    // The first batch has the start of the other thread.
    let (batches, counts) = (batches.iter().skip(1), counts.iter().skip(1));
    let switches = 2 * ROUNDS;
    costs.insert(Cost::Switch, spread(batches.clone().map(|ns| *ns as f64 / switches as f64)));
    let of_each = batches.zip(counts).filter_map(|(ns, count)| {
        count.filter(|count| *count > 0).map(|count| *ns as f64 / count as f64)
    });
    let instruction = match &counter {
        Err(error) => {
            Reading::Unknown(format!("no counter of instructions: {}", error_text(error)))
        }
        Ok(_) => spread(of_each).map_unknown(|_| "the CPU counted no instruction".to_string()),
    };
    costs.insert(Cost::Instruction, instruction);
    Ok(())
}

/// Nobody waits any more.
fn end(ball: &AtomicU32) {
    ball.store(OUT, SeqCst);
    futex::wake(ball, 1, Scope::Private);
}

/// Waits for the ball, and passes it on. Whether the game goes on.
fn pass(ball: &AtomicU32, own: u32, other: u32) -> bool {
    loop {
        match ball.load(SeqCst) {
            OUT => return false,
            turn if turn == own => break,
            turn => _ = futex::wait(ball, turn, None, Scope::Private),
        }
    }
    ball.store(other, SeqCst);
    futex::wake(ball, 1, Scope::Private);
    true
}
