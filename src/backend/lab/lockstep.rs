//! The library that keeps QEMU's main loop in step with its virtual CPUs (`lockstep.c`), and the
//! proof that it leaves behind. Input: bytes of that proof. Pure.

/// The library, for a file that `LD_PRELOAD` names.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lockstep.so"));
/// The environment variable with the path of the proof.
pub const PROOF_VARIABLE: &str = "SCHEDLAB_LOCKSTEP";

const MAGIC: &[u8; 8] = b"LOCKSTP1";
const WORDS: usize = 7;

/// The library's counts, `struct proof` of `lockstep.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    pub pid: u64,
    /// Threads that run virtual CPUs.
    pub threads: u64,
    /// Turns that the main loop asked for: it continues when the virtual CPUs sleep.
    pub turns: u64,
    /// Turns for which it had to wait.
    pub held: u64,
    pub wakes: u64,
    /// Wakes of the virtual CPUs without a call that was seen.
    pub strays: u64,
    /// Waits for a turn that were given up.
    pub stalls: u64,
}

impl Proof {
    /// The proof in these bytes; `None` if the library never found the virtual CPUs.
    pub fn read(bytes: &[u8]) -> Option<Proof> {
        let words = bytes.strip_prefix(MAGIC)?.chunks_exact(8);
        let words: Vec<u64> =
            words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect();
        let [pid, threads, turns, held, wakes, strays, stalls]: [u64; WORDS] =
            words.try_into().ok()?;
        Some(Proof { pid, threads, turns, held, wakes, strays, stalls })
    }

    /// Why the guest of the process `pid` may have been out of step.
    pub fn fault(&self, pid: u32) -> Option<String> {
        if self.pid != u64::from(pid) {
            Some(format!("the proof is of process {}, not of {pid}", self.pid))
        } else if self.threads != 1 {
            Some(format!("{} threads ran virtual CPUs, 1 can be kept in step", self.threads))
        } else if self.turns == 0 {
            Some("the main loop never asked for its turn".to_string())
        } else if self.strays > 0 {
            Some(format!("the virtual CPUs woke {} times by themselves", self.strays))
        } else if self.stalls > 0 {
            Some(format!("the main loop went on {} times without its turn", self.stalls))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(words: [u64; WORDS]) -> Vec<u8> {
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        MAGIC.iter().copied().chain(words).collect()
    }

    #[test]
    fn a_proof_is_read_and_judged() {
        let sound = Proof::read(&proof([7, 1, 576, 379, 580, 0, 0])).expect("a proof");
        assert_eq!((sound.turns, sound.held, sound.wakes), (576, 379, 580));
        assert_eq!(sound.fault(7), None);
        let cases: &[([u64; WORDS], &str)] = &[
            ([8, 1, 576, 379, 580, 0, 0], "the proof is of process 8, not of 7"),
            ([7, 4, 576, 379, 580, 0, 0], "4 threads ran"),
            ([7, 1, 0, 0, 580, 0, 0], "never asked"),
            ([7, 1, 576, 379, 580, 2, 0], "woke 2 times"),
            ([7, 1, 576, 379, 580, 0, 3], "went on 3 times"),
        ];
        for (words, says) in cases {
            let fault = Proof::read(&proof(*words)).expect("a proof").fault(7);
            assert!(fault.as_deref().is_some_and(|fault| fault.contains(says)), "{fault:?}");
        }
    }

    #[test]
    fn other_bytes_are_no_proof() {
        let whole = proof([7, 1, 576, 379, 580, 0, 0]);
        for bytes in [&[][..], &[0; 64], &whole[..63], &[&whole[..], &[0; 8]].concat()] {
            assert_eq!(Proof::read(bytes), None);
        }
    }

    #[test]
    fn the_library_is_a_shared_object() {
        const SHARED_OBJECT: [u8; 2] = 3u16.to_le_bytes();
        assert_eq!((&LIBRARY[..4], &LIBRARY[16..18]), (&b"\x7fELF"[..], &SHARED_OBJECT[..]));
    }
}
