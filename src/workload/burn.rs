//! The unit of CPU work: read-modify-write operations over a 64 KiB buffer.
//!
//! Shared by the workloads whose work is told in kilo-operations. The buffer is larger than
//! some first-level caches and fits every second-level cache, so a burn feels a migration
//! and a cold cache, and costs the same each time otherwise.

use bytemuck::Zeroable;

const OPS_PER_KOP: usize = 1_000;
const WORDS: usize = (64 << 10) / size_of::<u32>();

#[derive(Zeroable)]
#[repr(C, align(4096))]
struct Buffer([u32; WORDS]);

/// One worker's buffer and its place in it.
pub struct Burner {
    buffer: Box<Buffer>,
    next: usize,
}

impl Burner {
    /// Allocates the buffer and touches every page of it.
    pub fn new() -> Self {
        let mut buffer: Box<Buffer> = bytemuck::zeroed_box();
        // Not zero: storing zeros into fresh zeroed memory may be left out by the compiler.
        buffer.0.fill(1);
        Burner { buffer, next: 0 }
    }

    /// One kilo-operation: a thousand words, one after the other around the buffer, are each
    /// read, incremented and written back.
    #[inline(never)]
    pub fn burn_kop(&mut self) {
        let words = &mut self.buffer.0;
        let mut next = self.next;
        let mut left = OPS_PER_KOP;
        while left > 0 {
            let word: *mut u32 = &mut words[next % WORDS];
            // SAFETY: `word` comes from a live exclusive reference. Volatile, so that each
            // operation is done, one at a time, whatever the compiler knows of the buffer.
            unsafe { word.write_volatile(word.read_volatile().wrapping_add(1)) };
            next += 1;
            left -= 1;
        }
        self.next = next % WORDS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_done_and_goes_round_the_whole_buffer() {
        let mut burner = Burner::new();
        let kops = 2 * WORDS / 1_000;
        (0..kops).for_each(|_| burner.burn_kop());
        let done: u64 = burner.buffer.0.iter().map(|&word| u64::from(word) - 1).sum();
        assert_eq!(done, 1_000 * kops as u64);
        let (least, most) = (burner.buffer.0.iter().min(), burner.buffer.0.iter().max());
        assert_eq!((least, most), (Some(&2), Some(&3)), "every word had its turn");
    }
}
