//! The work of a request: naive multiplication of square matrices of 64-bit integers.
//!
//! One operation computes `c = a * b`, each `width` wide and the three in a row, and writes
//! the running sum of each element of `c` to memory at every inner step: load, multiply by a
//! load, add, store. That store is part of the benchmark (schbench's loop compiles to it); a
//! sum kept in a register until the end makes another one.
//!
//! So is the memory: nothing ever writes `a` and `b`, so their pages, only read, are the
//! kernel's one page of zeroes, as they are in schbench, which takes them from malloc and
//! does not fill them. Filling them takes a third off the time of an operation on a Zen 5
//! (no more virtual aliases of one line in L1), and may well add to it elsewhere.

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
        Ok(Matrices { words: &private::leak_slice(words(width))?[HEADER_WORDS..], width })
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
        let width = self.width;
        let (a, rest) = self.words.split_at(width * width);
        let (b, c) = rest.split_at(width * width);
        for i in 0..width {
            let row = &a[i * width..(i + 1) * width];
            for j in 0..width {
                element(row, &b[j..], width, &c[i * width + j]);
            }
        }
    }
}

fn words(width: usize) -> usize {
    HEADER_WORDS + 3 * width * width
}

/// `cell` = `row` times the column that begins at `column` and steps by `width`.
#[inline(always)]
fn element(row: &[AtomicU64], column: &[AtomicU64], width: usize, cell: &AtomicU64) {
    assert!(column.len() > (width - 1) * width && row.len() == width);
    let end = row.as_ptr_range().end;
    let mut a = row.as_ptr();
    let mut b = column.as_ptr();
    let mut stride_bytes = width * size_of::<u64>();
    let mut cell: *const AtomicU64 = cell;
    // SAFETY: the template is empty: nothing happens but that the optimiser forgets how both
    // were computed, and keeps them in registers of their own.
    unsafe {
        asm!("/* {0} {1} */", inlateout(reg) cell, inlateout(reg) stride_bytes,
            options(nostack, preserves_flags));
    }
    let mut sum = 0u64;
    // SAFETY: `cell` is the reference above. `a` runs over `row` up to its end, `b` in step
    // with it over `width` elements of `column`, the last of which the assertion covers (past
    // it, it is not read). Neither slice is written while workers run. The asm is empty, but
    // the optimiser must think that it changes the pointers and the product and looks at
    // memory. So the loop is not unrolled, the sum of the step before is in memory, and a
    // step is: load, multiply by a load, advance both pointers, add, store. That order, and
    // that of the two loads (hence volatile), are worth a tenth of the time each.
    unsafe {
        (*cell).store(0, Relaxed);
        while a != end {
            let mut product = a.cast::<u64>().read_volatile().wrapping_mul(*b.cast::<u64>());
            a = a.add(1);
            b = b.wrapping_byte_add(stride_bytes);
            asm!("/* {0} {1} {2} */", inlateout(reg) a, inlateout(reg) b, inlateout(reg) product,
                options(nostack, preserves_flags));
            sum = sum.wrapping_add(product);
            (*cell).store(sum, Relaxed);
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

    #[test]
    fn the_product_is_the_product() {
        for make in [Matrices::private, Matrices::shared] {
            for n in [0usize, 1, 2, 3, 7] {
                let matrices = make(n).unwrap();
                matrices.prefault();
                let factor = |index: usize| (index as u64 + 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                for index in 0..2 * n * n {
                    matrices.words[index].store(factor(index), Relaxed);
                }
                matrices.words[2 * n * n..].iter().for_each(|word| word.store(5, Relaxed));
                matrices.multiply();
                for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let expected = (0..n).fold(0u64, |sum, k| {
                        let product = factor(i * n + k).wrapping_mul(factor(n * n + k * n + j));
                        sum.wrapping_add(product)
                    });
                    let got = matrices.words[2 * n * n + i * n + j].load(Relaxed);
                    assert_eq!(got, expected, "{n} wide, row {i}, column {j}");
                }
            }
        }
    }
}
