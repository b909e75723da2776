//! The unit of CPU work: read-modify-write operations over a 64 KiB buffer.
//!
//! Shared by the workloads whose work is told in kilo-operations. The buffer is larger than
//! some first-level caches and fits every second-level cache, so a burn feels a migration
//! and a cold cache, and costs the same each time otherwise.
//!
//! All that an operation uses is memory, too: its place, the bound, a counter, what is left. So it
//! is in schedbench's worker, which is built without optimisation, and it is most of what an
//! operation costs. Kept in registers it costs a fifth, and the words of a `.bench` file would ask
//! for another load than they were written for.

use bytemuck::Zeroable;

const OPS_PER_KOP: u32 = 1_000;
const WORDS: usize = (64 << 10) / size_of::<u32>();

#[derive(Zeroable)]
#[repr(C, align(4096))]
struct Buffer([u32; WORDS]);

/// One worker's buffer and what its loop keeps beside it.
pub struct Burner {
    buffer: Box<Buffer>,
    place: Memory<usize>,
    bound: Memory<usize>,
    counter: Memory<u32>,
    left: Memory<u32>,
}

/// A variable that every use reads from memory or writes to it.
struct Memory<T>(T);

impl<T: Copy> Memory<T> {
    #[inline(always)]
    fn get(&self) -> T {
        // SAFETY: a live reference. Volatile, so that the compiler keeps it in no register.
        unsafe { (&raw const self.0).read_volatile() }
    }

    #[inline(always)]
    fn set(&mut self, value: T) {
        // SAFETY: a live exclusive reference. Volatile as in `get`.
        unsafe { (&raw mut self.0).write_volatile(value) }
    }
}

impl Burner {
    /// Allocates the buffer and touches every page of it.
    pub fn new() -> Self {
        let mut buffer: Box<Buffer> = bytemuck::zeroed_box();
        // Not zero: storing zeros into fresh zeroed memory may be left out by the compiler.
        buffer.0.fill(1);
        let (place, bound) = (Memory(0), Memory(WORDS));
        Burner { buffer, place, bound, counter: Memory(0), left: Memory(0) }
    }

    /// One kilo-operation: a thousand words, one after the other around the buffer, are each
    /// read, changed by the counter and written back.
    #[inline(never)]
    pub fn burn_kop(&mut self) {
        self.left.set(OPS_PER_KOP);
        while self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            self.place.set(self.place.get() + 1);
            if self.place.get() >= self.bound.get() {
                self.place.set(0);
            }
            let count = self.counter.get();
            self.counter.set(count.wrapping_add(1));
            // The place is below the bound, which is the number of words: the remainder only spares
            // the check.
            let word: *mut u32 = &mut self.buffer.0[self.place.get() % WORDS];
            // SAFETY: `word` comes from a live exclusive reference. Volatile, so that each
            // operation is done, one at a time, whatever the compiler knows of the buffer.
            unsafe { word.write_volatile(word.read_volatile() ^ count) };
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
