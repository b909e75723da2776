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
//!   zeroes, as in schbench, which has them from malloc and does not fill them; but for the
//!   first, on which malloc keeps its header. At 256 KiB filled matrices take 20 to 30 % less.
//!   Of 128 KiB or more malloc maps them by themselves, and they begin where ours do in their
//!   page; smaller ones (those of a footprint of 128 KiB, too, as widths are rounded down) come
//!   from the heap of a thread and begin elsewhere.
//! - The loops over a row, down to the order of their instructions: those of schbench's
//!   makefile with gcc 12. With only the inner loop written so, and the rest left to the
//!   compiler, an operation took 40 % more at 32 KiB and 20 % more at 128 KiB. The code begins
//!   on a cache line and fits into it, to depend less on what is linked around it: with the
//!   head of the loop at the end of a line, an operation took a third more at 32 KiB.
//!
//! Between 32 and 256 KiB an operation took 0.94 to 1.02 of schbench's, as medians of pairs of
//! runs, and 0.95 at 16 KiB. At some footprints (64 KiB) runs differ by up to 15 % in a way
//! that repeats for a while and has not been explained.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::sys::{private, shared};

/// Where malloc's header ends in a mapping of its own: columns keep schbench's cache lines.
const HEADER_WORDS: usize = 2;
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
    /// For one worker, in memory of its process.
    pub fn private(width: usize) -> io::Result<Matrices> {
        let words: &'static [AtomicU64] = private::leak_slice(words(width))?;
        words[0].store(1, Relaxed);
        Ok(Matrices { words: &words[HEADER_WORDS..], width })
    }

    /// For workers in several processes. Such memory has no page of zeroes: `a` and `b` take
    /// pages of their own, too.
    pub fn shared(width: usize) -> io::Result<Matrices> {
        Ok(Matrices { words: &shared::leak_slice(words(width))?[HEADER_WORDS..], width })
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

    /// One operation.
    #[inline(never)]
    pub fn multiply(&self) {
        if self.width == 0 {
            return;
        }
        let (a, rest) = self.words.split_at(self.width * self.width);
        let (b, c) = rest.split_at(self.width * self.width);
        for (row, cells) in a.chunks_exact(self.width).zip(c.chunks_exact(self.width)) {
            multiply_row(row, b, cells);
        }
    }
}

fn words(width: usize) -> usize {
    HEADER_WORDS + 3 * width * width
}

#[cfg(target_arch = "x86_64")]
use row_in_asm as multiply_row;
#[cfg(not(target_arch = "x86_64"))]
use row_in_rust as multiply_row;

/// `cells` = `row` times `b`, which is as wide as both.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn row_in_asm(row: &[AtomicU64], b: &[AtomicU64], cells: &[AtomicU64]) {
    let width = row.len();
    assert!(width > 0 && cells.len() == width && b.len() == width * width);
    let row = row.as_ptr_range();
    let to_column = (b.as_ptr() as usize).wrapping_sub(cells.as_ptr() as usize);
    // SAFETY: for each of `width` cells the first pointer runs over `row` up to its end, and
    // the second in step with it over the `width` elements of the column that begins as far
    // into `b` as the cell is into `cells`; the assertion makes all of them part of the
    // slices. `row` and `b` are only read. `cells` may be written as they are atomics, and
    // all accesses are single instructions on aligned words.
    unsafe {
        asm!(
            ".p2align 6",
            "2:",
            "mov qword ptr [rdi], 0",
            "lea rsi, [rdi + r14]",
            "mov rax, r11",
            "xor ecx, ecx",
            "3:",
            "mov rdx, qword ptr [rax]",
            "imul rdx, qword ptr [rsi]",
            "add rax, 8",
            "add rsi, r8",
            "add rcx, rdx",
            "mov qword ptr [rdi], rcx",
            "cmp rax, r9",
            "jne 3b",
            "add r10, 1",
            "add rdi, 8",
            "cmp r10, r12",
            "jne 2b",
            in("r11") row.start,
            in("r9") row.end,
            in("r8") width * size_of::<u64>(),
            in("r14") to_column,
            in("r12") width,
            inout("r10") 0usize => _,
            inout("rdi") cells.as_ptr() => _,
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
fn row_in_rust(row: &[AtomicU64], b: &[AtomicU64], cells: &[AtomicU64]) {
    for (j, cell) in cells.iter().enumerate() {
        let mut sum = 0u64;
        cell.store(0, Relaxed);
        for (a, b) in row.iter().zip(b[j..].iter().step_by(row.len())) {
            sum = sum.wrapping_add(a.load(Relaxed).wrapping_mul(b.load(Relaxed)));
            cell.store(sum, Relaxed);
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
            assert!(words(width(bytes)) - HEADER_WORDS <= bytes as usize / 8);
        }
    }

    const WIDTHS: [usize; 7] = [0, 1, 2, 3, 7, 36, 73];

    /// Matrices with no two factors alike and the old product not zero.
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

    /// What `words` should be after one operation.
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
    fn rows_in_asm_and_in_rust_are_the_same() {
        for n in WIDTHS.into_iter().filter(|&n| n > 0) {
            let matrices = filled(Matrices::private(n).unwrap());
            let expected = plainly_multiplied(values(&matrices), n);
            let (a, rest) = matrices.words.split_at(n * n);
            let (b, c) = rest.split_at(n * n);
            for make in [multiply_row, row_in_rust] {
                c.iter().for_each(|word| word.store(5, Relaxed));
                for i in 0..n {
                    make(&a[i * n..][..n], b, &c[i * n..][..n]);
                }
                assert!(values(&matrices) == expected, "{n} wide");
            }
        }
    }
}
