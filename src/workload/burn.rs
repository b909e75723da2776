//! The unit of CPU work: read-modify-write operations over a 64 KiB buffer.
//!
//! Shared by the workloads whose work is given in kilo-operations. The buffer is larger than
//! some first-level caches and fits every second-level cache, so a burn feels a migration
//! and a cold cache, and costs the same each time otherwise.
//!
//! An operation keeps its variables in memory, too: place, bound, counter, what is left.
//! schedbench's worker, built without optimisation, does the same, and most of an operation's
//! time goes there. In registers an operation takes a fifth of the time, and a `.bench` file would
//! run another load than it was written for.

use std::arch::asm;

use bytemuck::Zeroable;

const OPS_PER_KOP: u32 = 1_000;
const WORDS: usize = (64 << 10) / size_of::<u32>();

#[derive(Zeroable)]
#[repr(C, align(4096))]
struct Buffer([u32; WORDS]);

/// One worker's buffer and the variables of its loop.
pub struct Burner {
    buffer: Box<Buffer>,
    place: usize,
    bound: usize,
    counter: u32,
    left: u32,
}

impl Burner {
    /// Allocates the buffer and touches every page of it.
    pub fn new() -> Self {
        let mut buffer: Box<Buffer> = bytemuck::zeroed_box();
        // Not zero: storing zeros into fresh zeroed memory may be left out by the compiler.
        buffer.0.fill(1);
        Burner { buffer, place: 0, bound: WORDS, counter: 0, left: 0 }
    }

    /// One kilo-operation: a thousand words, one after the other around the buffer, are each
    /// read, changed by the counter and written back.
    #[inline(never)]
    pub fn burn_kop(&mut self) {
        self.left = OPS_PER_KOP;
        loop {
            self.spill();
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            self.place += 1;
            self.spill();
            if self.place >= self.bound {
                self.place = 0;
            }
            let count = self.counter;
            self.counter = count.wrapping_add(1);
            self.spill();
            // The place is below the bound, which is the number of words: the remainder only spares
            // the check.
            self.buffer.0[self.place % WORDS] ^= count;
        }
    }

    /// Forces all variables and the whole buffer into memory.
    #[inline(always)]
    fn spill(&mut self) {
        // SAFETY: there is no instruction; the compiler only has to assume that the memory behind
        // the reference was read and written.
        unsafe {
            asm!("/* {0} */", in(reg) &raw mut *self, options(nostack, preserves_flags));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_done_and_goes_round_the_whole_buffer() {
        let mut burner = Burner::new();
        let kops = 2 * WORDS / 1_000;
        let mut expected = vec![1u32; WORDS];
        for count in 0..1_000 * kops {
            expected[(count + 1) % WORDS] ^= count as u32;
        }
        (0..kops).for_each(|_| burner.burn_kop());
        assert!(burner.buffer.0[..] == expected[..]);
        let untouched = expected.iter().filter(|&&word| word == 1).count();
        assert!(untouched <= 1, "{untouched} words had no turn");
    }
}
