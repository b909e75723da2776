//! Zeroed memory in pages of its own, shared with forked workers or private to one process. Never unmapped, as a
//! runner lives for one run, except for [`private::with_slice`]. Also finds the NUMA nodes of pages, and where they are.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bytemuck::{Pod, Zeroable};

use crate::model::{MemoryPlacement, Reading};

use super::Host;
use super::call::checked;
use super::host::error_text;

/// Memory that forked workers share with the runner.
pub mod shared {
    use super::*;

    /// `count` zeroed values, shared with every process forked later. Pages are not touched
    /// here, so that the worker that touches them first has them on its own NUMA node.
    pub fn leak_slice<T: Zeroable + Sync + 'static>(count: usize) -> io::Result<&'static [T]> {
        map(count, libc::MAP_SHARED | libc::MAP_NORESERVE).map(|slice| &*slice)
    }

    /// One zeroed value, like [`leak_slice`].
    pub fn leak<T: Zeroable + Sync + 'static>() -> io::Result<&'static T> {
        leak_slice(1).map(|slice| &slice[0])
    }
}

/// Memory of one process.
pub mod private {
    use super::*;

    /// `count` zeroed values; a process forked later has a copy. Not from the heap, whose pages may have been
    /// written before: here a page that is only read stays the kernel's one page of zeroes.
    pub fn leak_slice<T: Zeroable + Sync + 'static>(count: usize) -> io::Result<&'static [T]> {
        leak_slice_mut(count).map(|slice| &*slice)
    }

    /// Like [`leak_slice`], for one owner.
    pub fn leak_slice_mut<T: Zeroable + 'static>(count: usize) -> io::Result<&'static mut [T]> {
        map(count, libc::MAP_PRIVATE)
    }

    /// `count` zeroed values that are mapped for `body` and unmapped after it.
    pub fn with_slice<T: Zeroable + Copy + 'static, R>(
        count: usize,
        body: impl FnOnce(&mut [T]) -> R,
    ) -> io::Result<R> {
        let slice = leak_slice_mut(count)?;
        let result = body(slice);
        if slice.is_empty() {
            return Ok(result);
        }
        // SAFETY: this very mapping; `body` could keep no reference, and nothing needs a drop.
        checked(unsafe { libc::munmap(slice.as_mut_ptr().cast(), size_of_val(slice)) })?;
        Ok(result)
    }
}

/// An anonymous mapping, page aligned; nothing is mapped for values without a size.
fn map<T: Zeroable + 'static>(count: usize, flags: i32) -> io::Result<&'static mut [T]> {
    if count == 0 || size_of::<T>() == 0 {
        return Ok(&mut []);
    }
    let bytes = count
        .checked_mul(size_of::<T>())
        .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
    // SAFETY: a fresh anonymous mapping; no address is asked for.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            flags | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is `bytes` long, page aligned (no type here is aligned beyond a page),
    // zeroed, which `Zeroable` makes a valid `T`, new, so it has no other owner, and not unmapped.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast::<T>(), count) })
}

/// A page of memory, by itself.
#[derive(Clone, Copy, Zeroable, Pod)]
#[repr(C, align(4096))]
pub struct Page(pub [u8; PAGE_BYTES]);

pub const PAGE_BYTES: usize = 4096;

/// The physical addresses of pages that have been written. Needs CAP_SYS_ADMIN, and a kernel with CONFIG_PROC_PAGE_MONITOR.
/// The kernel may move a page at any time.
pub fn physical_addresses(pages: &mut [Page]) -> io::Result<Vec<u64>> {
    const ENTRY_BYTES: usize = 8;
    const IS_PRESENT: u64 = 1 << 63;
    const FRAME: u64 = (1 << 55) - 1;
    let mut entries = vec![0; pages.len() * ENTRY_BYTES];
    let first = pages.as_mut_ptr().expose_provenance() / PAGE_BYTES * ENTRY_BYTES;
    File::open("/proc/self/pagemap")?.read_exact_at(&mut entries, first as u64)?;
    let address = |entry: &[u8; ENTRY_BYTES]| {
        let entry = u64::from_ne_bytes(*entry);
        let frame = entry & FRAME;
        // Without the capability frames are 0.
        let is_known = entry & IS_PRESENT != 0 && frame != 0;
        is_known.then_some(frame * PAGE_BYTES as u64).ok_or(io::ErrorKind::PermissionDenied.into())
    };
    entries.as_chunks().0.iter().map(address).collect()
}

#[derive(Debug, thiserror::Error)]
#[error("memory cannot be spread over NUMA nodes: set_mempolicy: {}", error_text(.0))]
pub struct InterleaveError(io::Error);

/// Spreads the pages that the calling thread touches first from now on over these NUMA nodes;
/// so will all threads and processes that it makes.
pub fn interleave(nodes: &[u32]) -> Result<(), InterleaveError> {
    const WORD_BITS: usize = u64::BITS as usize;
    let words = nodes.iter().max().map_or(1, |node| *node as usize / WORD_BITS + 1);
    let mut mask = vec![0u64; words];
    nodes.iter().for_each(|node| mask[*node as usize / WORD_BITS] |= 1 << (node % u64::BITS));
    // SAFETY: the kernel reads one bit less than `bits`, which is all of the mask.
    let result = unsafe {
        let bits = words * WORD_BITS + 1;
        libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_INTERLEAVE, mask.as_ptr(), bits)
    };
    // Over one node there is nothing to spread, so a refusal changes nothing.
    if result == 0 || nodes.len() < 2 {
        return Ok(());
    }
    Err(InterleaveError(io::Error::last_os_error()))
}

/// Whether [`interleave`] would succeed: tried on a thread that ends at once.
pub fn can_interleave(nodes: Vec<u32>) -> Result<(), InterleaveError> {
    let trial = std::thread::Builder::new().spawn(move || interleave(&nodes));
    let ended_early = || io::Error::other("a thread to try it on ended early");
    trial.map_err(InterleaveError)?.join().unwrap_or_else(|_| Err(InterleaveError(ended_early())))
}

/// The policy for the pages of a thread: `kernel`, or the kernel's own word for it, as `interleave`.
pub fn policy_of(host: &Host, pid: i32, tid: i32) -> Reading<String> {
    let path = format!("/proc/{pid}/task/{tid}/numa_maps");
    // `ADDRESS POLICY[:NODES] ...`: mappings without a policy of their own have the thread's.
    let policy = |text: String| {
        let policy = text.lines().next()?.split_whitespace().nth(1)?;
        Some(policy.split([':', '=']).next()?.to_string())
    };
    let word = host
        .reading(&path)
        .and_then(|text| Reading::from_option(policy(text), format!("{path}: names no policy")));
    let kernel = MemoryPlacement::Kernel.word();
    word.map(|word| if word == "default" { kernel.to_string() } else { word })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::sched;

    #[test]
    fn what_a_thread_starts_has_its_memory_policy() {
        let host = Host::default();
        let pid = std::process::id() as i32;
        let policy = move || policy_of(&Host::default(), pid, sched::own_tid());
        if let Reading::Unknown(why) = policy() {
            eprintln!("skipped: what_a_thread_starts_has_its_memory_policy needs kernel: {why}");
            return;
        }
        let nodes = super::super::topology::node_numbers(&host, &sched::affinity(0).unwrap());
        let seen = std::thread::spawn(move || {
            let before = policy();
            interleave(&nodes).unwrap();
            (before, policy(), std::thread::spawn(policy).join().unwrap())
        });
        let (before, after, inherited) = seen.join().unwrap();
        let interleaved = Reading::Known("interleave".to_string());
        assert_eq!(before, Reading::Known("kernel".to_string()));
        assert_eq!((&after, &inherited), (&interleaved, &interleaved));
        assert_eq!(policy(), before, "no other thread has it");
    }

    #[test]
    fn memory_for_a_while_is_zeroed_and_is_given_back() {
        for count in [0, 1, 5_000] {
            let seen = private::with_slice(count, |words: &mut [u64]| {
                let old: Vec<u64> = words.to_vec();
                words.fill(7);
                old
            });
            assert_eq!(seen.unwrap(), vec![0; count]);
        }
        // Together more than the addresses that a process has.
        const BYTES: usize = 1 << 30;
        for _ in 0..=(1usize << 47) / BYTES {
            private::with_slice(BYTES, |bytes: &mut [u8]| assert_eq!(bytes.len(), BYTES)).unwrap();
        }
    }

    #[test]
    fn each_page_that_was_written_has_an_address_of_its_own() {
        let pages = private::leak_slice_mut::<Page>(3).unwrap();
        assert!(physical_addresses(pages).is_err(), "nothing is there yet");
        pages.iter_mut().for_each(|page| page.0[0] = 1);
        match physical_addresses(pages) {
            Ok(addresses) => {
                let different: std::collections::BTreeSet<&u64> = addresses.iter().collect();
                let is_page = |address: &&u64| address.is_multiple_of(PAGE_BYTES as u64);
                assert!(different.len() == 3 && different.iter().all(is_page), "{addresses:?}");
            }
            Err(error) => eprintln!(
                "skipped: each_page_that_was_written_has_an_address_of_its_own needs privilege: {error}"
            ),
        }
    }

    #[test]
    fn nodes_that_there_are_not_are_refused() {
        let refused = can_interleave(vec![1022, 1023]).unwrap_err().to_string();
        assert!(refused.starts_with("memory cannot be spread"), "{refused}");
    }
}
