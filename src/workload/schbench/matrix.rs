//! The work of a request: naive multiplication of square matrices of 64-bit integers.
//!
//! One operation computes `c = a * b`, each `width` wide and the three in a row, and writes
//! the running sum of each element of `c` to memory at every inner step: load, multiply by a
//! load, add, store. That store is part of the benchmark (schbench's loop compiles to it); a
//! sum kept in a register until the end makes another one.
//!
//! Three more things are part of it, each found by its effect on the time of an operation
//! (on a Zen 5, 256 KiB):
//!
//! - Nothing ever writes `a` and `b`. Their pages, only read, are the kernel's one page of
//!   zeroes, as in schbench, which has them from malloc and does not fill them; but for the
//!   first, on which malloc keeps its header. Filled matrices take 20 to 30 % less.
//! - The order of the two loads, of the additions to pointers and of the store: 10 %.
//! - Where the loop lies in its page of code, by which branch predictors know it, it seems:
//!   19 % between the extremes of eight offsets, 6 % between builds of schbench itself (its
//!   makefile's, and the same with `-falign-functions=64`). Here it lies at a fixed offset,
//!   so that the unit of work changes less with what is linked around it. Of the eight it
//!   is among the nearest to the makefile's build with gcc 12 on one machine, 1 to 4 % below
//!   it, and 4 % above the aligned build. No offset is right for every build.

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
    assert!(width > 0 && column.len() > (width - 1) * width && row.len() == width);
    let row = row.as_ptr_range();
    let stride_bytes = width * size_of::<u64>();
    // SAFETY: the first pointer runs over `row` up to its end, and there is at least one step;
    // the second in step with it over `width` elements of `column`, the last of which the
    // assertion covers (past it, it is not read). Neither slice is written while workers run.
    // `cell` is valid as a reference; all accesses are single instructions on aligned words.
    unsafe { dot(row.start.cast(), row.end.cast(), column.as_ptr().cast(), stride_bytes, cell) }
}

/// Adds up `*a * *b` in `cell`, with `a` stepping to `end` and `b` by `stride_bytes`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
// SAFETY: the caller promises that every address that is stepped on may be read.
unsafe fn dot(
    a: *const u64,
    end: *const u64,
    b: *const u64,
    stride_bytes: usize,
    cell: &AtomicU64,
) {
    // SAFETY: the caller's; nothing but `cell` is written.
    unsafe {
        asm!(
            "mov qword ptr [{cell}], 0",
            "jmp 2f",
            ".p2align 12",
            ".skip 48, 0x90",
            "2:",
            "mov {product}, qword ptr [{a}]",
            "imul {product}, qword ptr [{b}]",
            "add {a}, 8",
            "add {b}, {stride}",
            "add {sum}, {product}",
            "mov qword ptr [{cell}], {sum}",
            "cmp {a}, {end}",
            "jne 2b",
            a = inout(reg) a => _,
            b = inout(reg) b => _,
            sum = inout(reg) 0u64 => _,
            product = out(reg) _,
            end = in(reg) end,
            stride = in(reg) stride_bytes,
            cell = in(reg) cell,
            options(nostack),
        );
    }
}

/// As above, in the same order as far as a compiler can be told: the asm is empty, but the
/// optimiser must think that it changes what it names and looks at memory.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
// SAFETY: the caller promises that every address that is stepped on may be read.
unsafe fn dot(
    a: *const u64,
    end: *const u64,
    b: *const u64,
    stride_bytes: usize,
    cell: &AtomicU64,
) {
    let (mut a, mut b, mut sum) = (a, b, 0u64);
    cell.store(0, Relaxed);
    while a != end {
        // SAFETY: the caller's.
        unsafe {
            let mut product = a.read_volatile().wrapping_mul(*b);
            a = a.add(1);
            b = b.wrapping_byte_add(stride_bytes);
            asm!("/* {0} {1} {2} */", inlateout(reg) a, inlateout(reg) b, inlateout(reg) product,
                options(nostack, preserves_flags));
            sum = sum.wrapping_add(product);
        }
        cell.store(sum, Relaxed);
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
