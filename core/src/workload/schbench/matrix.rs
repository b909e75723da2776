//! The work of a request: naive multiplication of square matrices of 64-bit integers.
//!
//! One operation computes `c = a * b`, each `width` wide and the three in a row, and writes
//! the running sum of each element of `c` to memory at every inner step: load, multiply by a
//! load, add, store. That store is part of the benchmark (schbench's loop compiles to it); a
//! sum kept in a register until the end makes another one.
//!
//! Two more things are part of it, each found by its effect on the time of an operation (on a
//! Zen 5):
//!
//! - Nothing ever writes `a` and `b`. Their pages, only read, are the kernel's one page of
//!   zeroes, as in schbench, which has them from malloc and does not fill them; except the
//!   first, on which malloc keeps its header. At 256 KiB filled matrices take 20 to 30 % less.
//!   They begin where malloc puts them in their page: 16 bytes into a mapping of their own
//!   from 128 KiB on, otherwise (at a footprint of 128 KiB, too: widths are rounded down) 2928
//!   bytes into the heap of a thread. At 64 KiB the difference is 2 %.
//! - The loops, down to the order of their instructions and where they lie: those of
//!   schbench's makefile with Debian 12's gcc. There a step, the innermost loop, begins 48
//!   bytes into a cache line of code and goes on in the next; no other place takes that long
//!   at 256 KiB. Among four builds of schbench with the step 0, 16, 32 and 48 bytes into a line,
//!   those at 0 and 32 took 0.96 of the last there, that at 16 took 0.98; at 0 an operation
//!   takes 28 % more at 32 KiB and 13 % more at 128 KiB. Here the alignment is in the code, so the linker
//!   cannot move it. schbench itself, built elsewhere, may differ by as much.
//!
//! In the median of 15 pairs of runs an operation took 1.00 of schbench's time at 32, 64, 128 and
//! 256 KiB; the quartiles of the pairs are between 0.99 and 1.01. Runs of one program differ by
//! up to 2.5 % either way, so one pair proves little. At 64 KiB, 52 wide, both programs
//! have two levels that differ by 20 % and switch between them while they run, wherever their
//! memory lies: about 4.7 ns for each cell, as if the processor failed to foresee the end of
//! its column. Nothing like it was seen at 50, 51 and 53 to 56 wide.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::sys::{private, shared};

/// The size from which malloc makes a mapping, in glibc. Smaller pieces come from the heap of the message thread.
const MAPPED_BYTES: usize = 128 << 10;
/// The end of malloc's header in a mapping of its own: columns keep schbench's cache lines.
const MAPPED_AT: usize = 2;
/// The beginning of the first piece of a thread's heap in its page, after malloc's own data (glibc 2.36): the place
/// of the first worker; that of the next ones depends on the sizes.
const IN_HEAP_AT: usize = 366;
const PAGE_WORDS: usize = 4096 / size_of::<u64>();

/// Three square matrices in a row.
#[derive(Clone, Copy)]
pub struct Matrices {
    words: &'static [AtomicU64],
    width: usize,
}

/// The width of each of three matrices that together fill `footprint_bytes` at most.
pub fn width(footprint_bytes: u64) -> usize {
    (footprint_bytes / 3 / size_of::<u64>() as u64).isqrt() as usize
}

impl Matrices {
    /// Matrices for one worker, in memory of its process.
    pub fn private(width: usize) -> io::Result<Matrices> {
        let words: &'static [AtomicU64] = private::leak_slice(words(width))?;
        words[0].store(1, Relaxed);
        Ok(Matrices { words: &words[header_words(width)..], width })
    }

    /// For workers in several processes. Such memory has no page of zeroes: `a` and `b` take
    /// pages of their own, too.
    pub fn shared(width: usize) -> io::Result<Matrices> {
        let words = shared::leak_slice(words(width))?;
        Ok(Matrices { words: &words[header_words(width)..], width })
    }

    /// Takes the page faults of the first operation: reads `a` and `b`, writes `c`.
    pub fn prefault(&self) {
        let (factors, product) = self.words.split_at(2 * self.width * self.width);
        for word in factors.iter().step_by(PAGE_WORDS).chain(factors.last()) {
            std::hint::black_box(word.load(Relaxed));
        }
        for word in product.iter().step_by(PAGE_WORDS).chain(product.last()) {
            word.store(0, Relaxed);
        }
    }

    /// Executes one operation.
    #[inline(never)]
    pub fn multiply(&self) {
        if self.width == 0 {
            return;
        }
        let (a, rest) = self.words.split_at(self.width * self.width);
        let (b, c) = rest.split_at(self.width * self.width);
        product(a, b, c, self.width);
    }
}

fn words(width: usize) -> usize {
    header_words(width) + 3 * width * width
}

fn header_words(width: usize) -> usize {
    let mapped = 3 * width * width * size_of::<u64>() >= MAPPED_BYTES;
    if mapped { MAPPED_AT } else { IN_HEAP_AT }
}

#[cfg(target_arch = "x86_64")]
use product_in_asm as product;
#[cfg(not(target_arch = "x86_64"))]
use product_in_rust as product;

/// `c` = `a` times `b`, all three `width` wide.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn product_in_asm(a: &[AtomicU64], b: &[AtomicU64], c: &[AtomicU64], width: usize) {
    assert!(width > 0 && [a, b, c].iter().all(|matrix| matrix.len() == width * width));
    let to_column = (b.as_ptr() as usize).wrapping_sub(c.as_ptr() as usize);
    // SAFETY: rdi runs once over `c`. For each of its cells rax runs over the row of `a`
    // between r11 and r9, which both step by a row up to the end of `a`, and rsi in step with
    // it over the `width` elements of the column that begins as far into `b` as the cell is
    // into its row; the assertion makes all of them part of the slices. `a` and `b` are only
    // read. `c` may be written as its elements are atomics, and all accesses are single
    // instructions on aligned words.
    unsafe {
        asm!(
            // Rows begin on a cache line, cells in the middle of it, steps 16 bytes further on.
            ".p2align 6",
            "2:",
            "xor r10d, r10d",
            ".p2align 5",
            "3:",
            "mov qword ptr [rdi], 0",
            "lea rsi, [rdi + r14]",
            "mov rax, r11",
            "xor ecx, ecx",
            "4:",
            "mov rdx, qword ptr [rax]",
            "imul rdx, qword ptr [rsi]",
            "add rax, 8",
            "add rsi, r8",
            "add rcx, rdx",
            "mov qword ptr [rdi], rcx",
            "cmp rax, r9",
            "jne 4b",
            "add r10, 1",
            "add rdi, 8",
            "cmp r10, r12",
            "jne 3b",
            "add r11, r8",
            "add r9, r8",
            "sub r14, r8",
            "cmp r11, r13",
            "jne 2b",
            in("r8") width * size_of::<u64>(),
            in("r12") width,
            in("r13") a.as_ptr_range().end,
            inout("r11") a.as_ptr() => _,
            inout("r9") a[..width].as_ptr_range().end => _,
            inout("r14") to_column => _,
            inout("rdi") c.as_ptr() => _,
            out("r10") _,
            out("rax") _,
            out("rsi") _,
            out("rcx") _,
            out("rdx") _,
            options(nostack),
        );
    }
}

/// The same for other machines, and to test against. Compilers do not merge atomic stores,
/// so the sum goes to memory at each step here too.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn product_in_rust(a: &[AtomicU64], b: &[AtomicU64], c: &[AtomicU64], width: usize) {
    for (row, cells) in a.chunks_exact(width).zip(c.chunks_exact(width)) {
        for (j, cell) in cells.iter().enumerate() {
            let mut sum = 0u64;
            cell.store(0, Relaxed);
            for (a, b) in row.iter().zip(b[j..].iter().step_by(width)) {
                sum = sum.wrapping_add(a.load(Relaxed).wrapping_mul(b.load(Relaxed)));
                cell.store(sum, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_schbench() {
        let cases = [
            (0, 0),
            (23, 0),
            (24, 1),
            (16 << 10, 26),
            (128 << 10, 73),
            (256 << 10, 104),
            (1 << 30, 6688),
        ];
        for (bytes, expected) in cases {
            assert_eq!(width(bytes), expected, "{bytes}");
            assert!(3 * expected * expected <= bytes as usize / 8, "{bytes}");
        }
    }

    #[test]
    fn matrices_begin_where_malloc_would_have_them_in_their_page() {
        for (width, offset) in [(1, 2928), (73, 2928), (74, 16), (104, 16)] {
            for make in [Matrices::private, Matrices::shared] {
                let begin = make(width).unwrap().words.as_ptr() as usize;
                assert_eq!(begin % 4096, offset, "{width} wide");
            }
        }
    }

    const WIDTHS: [usize; 7] = [0, 1, 2, 3, 7, 36, 73];

    /// Matrices with different factors and an old product that is not zero.
    fn filled(matrices: Matrices) -> Matrices {
        let factors = 2 * matrices.width * matrices.width;
        for (index, word) in matrices.words.iter().enumerate() {
            let value = (index as u64 + 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            word.store(if index < factors { value } else { 5 }, Relaxed);
        }
        matrices
    }

    fn values(matrices: &Matrices) -> Vec<u64> {
        matrices.words.iter().map(|word| word.load(Relaxed)).collect()
    }

    /// The expected `words` after one operation.
    fn plainly_multiplied(mut words: Vec<u64>, n: usize) -> Vec<u64> {
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            words[2 * n * n + i * n + j] = (0..n).fold(0, |sum: u64, k| {
                sum.wrapping_add(words[i * n + k].wrapping_mul(words[n * n + k * n + j]))
            });
        }
        words
    }

    #[test]
    fn an_operation_writes_the_product_and_nothing_else() {
        for make in [Matrices::private, Matrices::shared] {
            for n in WIDTHS {
                let matrices = make(n).unwrap();
                matrices.prefault();
                let matrices = filled(matrices);
                let expected = plainly_multiplied(values(&matrices), n);
                for _ in 0..2 {
                    matrices.multiply();
                    assert!(values(&matrices) == expected, "{n} wide");
                }
            }
        }
    }

    #[test]
    fn products_in_asm_and_in_rust_are_the_same() {
        for n in WIDTHS.into_iter().filter(|&n| n > 0) {
            let matrices = filled(Matrices::private(n).unwrap());
            let expected = plainly_multiplied(values(&matrices), n);
            let (a, rest) = matrices.words.split_at(n * n);
            let (b, c) = rest.split_at(n * n);
            for make in [product, product_in_rust] {
                c.iter().for_each(|word| word.store(5, Relaxed));
                make(a, b, c, n);
                assert!(values(&matrices) == expected, "{n} wide");
            }
        }
    }
}
