//! `ebizzy`: look-ups in copies of shared chunks, each copy in fresh memory.
//!
//! One record: one of the chunks, picked at random, is copied to a fresh buffer, a random word of
//! it is searched by bisection in the copy, and the buffer is freed. The work of ebizzy (V. Henson,
//! R. Rubira Branco, 2006), which stands for a web application server; with `memory = "mmap"` that of
//! its option `-m`.
//!
//! The fresh buffer is the point: threads share an address space, and each record maps pages, takes
//! their faults and unmaps them. So this allocates in the timed section, as no other workload does;
//! it is what is timed. Nobody writes to the chunks after they are made.

use std::hint::black_box;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::model::{Kind, Params, fields};
use crate::sys::private;

use super::{Load, Request, Role, Spec, Worker, Workload, WorkloadError, params};

pub struct Ebizzy;

const SPEC: Spec = Spec {
    name: "ebizzy",
    about: "copies a chunk of ordered words to fresh memory, searches one word in it, frees it \
            (ebizzy's work): load on the address space that threads share",
    params: fields! {
        "chunks": Kind::Int { min: 1, max: 10_000 }, "10" => "chunks that all workers copy from";
        "chunk-size": Kind::Size { min_bytes: 8, max_bytes: 1 << 30 }, "512KiB" =>
            "size of each chunk, in whole words of 8 bytes";
        "memory": Kind::Choice(&["mmap", "reused"]), "mmap" =>
            "the copy is in memory that is mapped and unmapped for each record, or in one buffer \
             of each worker";
    },
    roles: &[Role { name: "ebizzy", counts: true }],
    ops: "records",
    ..Spec::PLAIN
};

impl Workload for Ebizzy {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn can_rest(&self, _params: &Params) -> bool {
        true
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        let chunks = params::count(request.params, "chunks")?;
        let size = params::bytes(request.params, "chunk-size")? as usize / size_of::<u64>();
        let is_reused = params::text(request.params, "memory")? == "reused";
        let chunks = Chunks::new(chunks, size)
            .map_err(|source| WorkloadError::system("allocate the chunks", source))?;
        Ok(Box::new(Lookups { chunks, is_reused }))
    }
}

/// Chunks of ordered words, all different.
struct Chunks {
    words: &'static [u64],
    /// The size in words, above 0.
    size: usize,
}

impl Chunks {
    fn new(count: usize, size: usize) -> std::io::Result<Chunks> {
        let words = private::leak_slice_mut::<u64>(count * size)?;
        for (number, chunk) in words.chunks_exact_mut(size).enumerate() {
            for (place, word) in chunk.iter_mut().enumerate() {
                *word = (place * count + number) as u64;
            }
        }
        Ok(Chunks { words, size })
    }

    /// One of the chunks, and one of its words.
    #[inline]
    fn pick(&self, random: &mut ChaCha8Rng) -> (&[u64], u64) {
        let word = random.random_range(0..self.words.len());
        let chunk = word / self.size * self.size;
        (&self.words[chunk..][..self.size], self.words[word])
    }
}

/// The place of `word` in a copy of the chunk.
#[inline(never)]
fn search(copy: &mut [u64], chunk: &[u64], word: u64) -> Option<usize> {
    copy.copy_from_slice(chunk);
    black_box(copy).binary_search(&word).ok()
}

struct Lookups {
    chunks: Chunks,
    is_reused: bool,
}

impl Load for Lookups {
    fn work(&self, _index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let failed = |source| WorkloadError::system("allocate a copy of a chunk", source);
        let mut random = ChaCha8Rng::seed_from_u64(worker.seed());
        let size = self.chunks.size;
        let own = private::leak_slice_mut(if self.is_reused { size } else { 0 }).map_err(failed)?;
        // Not zeros: takes the page faults.
        own.fill(1);
        worker.start();
        while worker.running() {
            let (chunk, word) = self.chunks.pick(&mut random);
            black_box(if self.is_reused {
                search(own, chunk, word)
            } else {
                private::with_slice(size, |copy| search(copy, chunk, word)).map_err(failed)?
            });
            worker.add_ops(1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Raw;
    use crate::workload::testing::{WorkerGroup, params};

    #[test]
    fn a_word_is_found_in_a_copy_of_its_own_chunk_alone() {
        let chunks = Chunks::new(3, 100).unwrap();
        let all: Vec<&[u64]> = chunks.words.chunks(100).collect();
        for (number, chunk) in all.iter().enumerate() {
            let mut copy = vec![0; 100];
            for (place, &word) in chunk.iter().enumerate() {
                assert_eq!(search(&mut copy, chunk, word), Some(place));
                assert_eq!(search(&mut copy, all[(number + 1) % 3], word), None);
            }
        }
    }

    #[test]
    fn each_chunk_and_each_part_of_it_has_its_turn_and_a_seed_repeats_them() {
        let chunks = Chunks::new(4, 10).unwrap();
        let picked = |seed| -> Vec<u64> {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let picks = (0..1_000).map(|_| chunks.pick(&mut random));
            picks
                .map(|(chunk, word)| {
                    assert!(chunk.len() == 10 && chunk.contains(&word));
                    word
                })
                .collect()
        };
        let first = picked(1);
        assert!((0..40).all(|word| first.contains(&word)));
        assert_eq!(picked(1), first);
        assert_ne!(picked(2), first);
    }

    #[test]
    fn either_memory_gives_records_of_every_worker() {
        for memory in ["mmap", "reused"] {
            let text = |text: &str| Raw::Text(text.to_string());
            let given = [("chunk-size", text("15B")), ("memory", text(memory))];
            let group = WorkerGroup::start(&Ebizzy, &params(&Ebizzy, &given), 2);
            group.wait_until(memory, |group| group.slots().iter().all(|slot| slot.ops() >= 100));
            group.stop();
        }
    }
}
