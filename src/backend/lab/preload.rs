//! The library that is loaded into QEMU (`preload/`): it keeps the main loop in step with the virtual CPUs,
//! gives each of them its own clock, and leaves a proof. Input: bytes of that proof. Pure.

use crate::model::{CodeRange, Coverage, Lab, LabModel};

/// The library, for a file that `LD_PRELOAD` names.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));
/// The environment variable with the path of the proof.
pub const PROOF_VARIABLE: &str = "SCHEDLAB_LOCKSTEP";
/// The environment variable that asks for clocks and configures them.
pub const CLOCKS_VARIABLE: &str = "SCHEDLAB_CLOCKS";
/// The environment variable that asks for copies.
pub const COPIES_VARIABLE: &str = "SCHEDLAB_COPIES";

/// The environment variable with the code whose execution is noted.
pub const COVERED_VARIABLE: &str = "SCHEDLAB_COVERED";

/// Duration of a PAUSE. A spinning CPU lets others run with it, so it costs more than one instruction.
const PAUSE_PS: u64 = 100_000;

/// The value of [`CLOCKS_VARIABLE`] for a machine.
pub fn clocks(lab: &Lab) -> String {
    let Lab { instruction_ps, skew_ns, .. } = lab;
    let ps = |ns: Option<u32>| u64::from(ns.unwrap_or(0)) * 1000;
    let LabModel { idle_exit_ns, short_idle, ipi_near_ns, ipi_far_ns, .. } = lab.model;
    let exit_ns = short_idle.map(|short| short.exit_ns);
    let below_ns = short_idle.map(|short| short.below_ns);
    let delays =
        [idle_exit_ns, exit_ns, below_ns, ipi_near_ns, ipi_far_ns].map(|ns| ps(ns).to_string());
    let (skew_ps, delays) = (ps(Some(*skew_ns)), delays.join(","));
    format!("{instruction_ps},{skew_ps},{PAUSE_PS},{delays},{}", lab.cpus_per_llc())
}

/// More code than kernel/sched has is not noted: a guest says where it is.
const MAX_CODE_BYTES: u64 = 1 << 20;
const MAX_RANGES: usize = 8;
/// The begin of the library's notes.
const COVERED: &[u8] = b"COVERED1";
/// Their size at most.
pub const MAX_COVERED_BYTES: u64 = MAX_CODE_BYTES / 8 + COVERED.len() as u64;

/// The value of [`COVERED_VARIABLE`] for this code; `None`: there is none, or it cannot be noted.
pub fn covered_code(code: &[CodeRange]) -> Option<String> {
    let size = |range: &CodeRange| range.to.checked_sub(range.from).filter(|bytes| *bytes > 0);
    let sizes: Option<Vec<u64>> = code.iter().map(size).collect();
    let bytes = sizes?.into_iter().fold(0, u64::saturating_add);
    let fits = (1..=MAX_RANGES).contains(&code.len()) && bytes <= MAX_CODE_BYTES;
    let text = |range: &CodeRange| format!("{:x}-{:x}", range.from, range.to);
    fits.then(|| code.iter().map(text).collect::<Vec<_>>().join(","))
}

/// The code that was executed, by the library's notes; `None`: this QEMU lacks what they take.
pub fn covered(notes: &[u8]) -> Option<Coverage> {
    Some(Coverage(notes.strip_prefix(COVERED)?.to_vec()))
}

/// Why virtual CPUs cannot have clocks of their own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoClocks {
    #[error("the library was not loaded into it: a static QEMU, or LD_PRELOAD is forbidden")]
    NotLoaded,
    #[error("this QEMU has no `{0}`")]
    Lacks(String),
    #[error("a trial machine did not end")]
    Hangs,
}

const MAGIC: &[u8; 8] = b"LOCKSTP2";
const WORDS: usize = 11;
const MISSING_BYTES: usize = 32;

/// The library's counts, `struct proof` of `preload.h`.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Whether each virtual CPU had its own clock.
    pub clocks: bool,
    /// Bursts that nobody had to execute.
    pub bursts: u64,
    /// Timers that were due and belonged to a thread that is not in step.
    pub foreign: u64,
    /// The digest of all turns of the virtual CPUs.
    pub digest: u64,
    /// The symbols that this QEMU lacks for clocks of its virtual CPUs.
    pub missing: String,
}

impl Proof {
    /// The proof in these bytes; `None` if the library never found the virtual CPUs.
    pub fn read(bytes: &[u8]) -> Option<Proof> {
        let (words, missing) = bytes.strip_prefix(MAGIC)?.split_at_checked(8 * WORDS)?;
        if missing.len() != MISSING_BYTES {
            return None;
        }
        let words = words.chunks_exact(8);
        let words: Vec<u64> =
            words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect();
        let [pid, threads, turns, held, wakes, strays, stalls, clocks, bursts, foreign, digest]: [u64;
            WORDS] = words.try_into().ok()?;
        let missing = missing.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(Proof {
            pid,
            threads,
            turns,
            held,
            wakes,
            strays,
            stalls,
            clocks: clocks == 1,
            bursts,
            foreign,
            digest,
            missing: String::from_utf8_lossy(missing).into_owned(),
        })
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
        } else if self.foreign > 0 {
            Some(format!("timers of another thread were due {} times", self.foreign))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ShortIdle;

    fn proof(words: [u64; WORDS]) -> Vec<u8> {
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        MAGIC.iter().copied().chain(words).chain([0; MISSING_BYTES]).collect()
    }

    #[test]
    fn a_proof_is_read_and_judged() {
        const SOUND: [u64; WORDS] = [7, 1, 576, 379, 580, 0, 0, 1, 9, 0, 5];
        let sound = Proof::read(&proof(SOUND)).expect("a proof");
        assert_eq!((sound.turns, sound.held, sound.wakes), (576, 379, 580));
        assert_eq!((sound.clocks, sound.bursts, sound.digest), (true, 9, 5));
        assert_eq!(sound.fault(7), None);
        let cases: &[(usize, u64, &str)] = &[
            (0, 8, "the proof is of process 8, not of 7"),
            (1, 4, "4 threads ran"),
            (2, 0, "never asked"),
            (5, 2, "woke 2 times"),
            (6, 3, "went on 3 times"),
            (9, 1, "timers of another thread were due 1 times"),
        ];
        for (at, word, says) in cases {
            let mut words = SOUND;
            words[*at] = *word;
            let fault = Proof::read(&proof(words)).expect("a proof").fault(7);
            assert!(fault.as_deref().is_some_and(|fault| fault.contains(says)), "{fault:?}");
        }
    }

    #[test]
    fn the_library_is_given_what_the_machine_has() {
        let lab = Lab { cpus: 8, llcs: 2, ..Lab::default() };
        assert_eq!(clocks(&lab), "500,500000,100000,0,0,0,0,0,4");
        let model = LabModel {
            idle_exit_ns: Some(1),
            short_idle: Some(ShortIdle { exit_ns: 4, below_ns: 5 }),
            ipi_near_ns: Some(2),
            ipi_far_ns: Some(3),
            ..LabModel::default()
        };
        assert_eq!(clocks(&Lab { model, ..lab }), "500,500000,100000,1000,4000,5000,2000,3000,4");
    }

    #[test]
    fn what_a_qemu_lacks_is_named() {
        let mut bytes = proof([7; WORDS]);
        let at = bytes.len() - MISSING_BYTES;
        bytes[at..at + 10].copy_from_slice(b"icount_get");
        assert_eq!(Proof::read(&bytes).expect("a proof").missing, "icount_get");
    }

    #[test]
    fn code_is_noted_where_it_is_little_enough_and_notes_begin_with_their_word() {
        let code = |from: u64, bytes: u64| CodeRange { from, to: from.wrapping_add(bytes) };
        let (first, whole) = (code(0x1000, 16), code(0, MAX_CODE_BYTES));
        assert_eq!(covered_code(&[first, code(0x2000, 1)]).unwrap(), "1000-1010,2000-2001");
        assert!(covered_code(&[whole]).is_some());
        let (many, backwards) = ([first; MAX_RANGES + 1], CodeRange { from: 2, to: 1 });
        for wrong in
            [&[][..], &[whole, first], &[backwards], &[code(7, 0)], &[code(0, u64::MAX); 2], &many]
        {
            assert_eq!(covered_code(wrong), None, "{wrong:?}");
        }
        assert_eq!(covered(b"COVERED1\x03\x00"), Some(Coverage(vec![3, 0])));
        for other in [&b""[..], b"COVERED", &[0; 64]] {
            assert_eq!(covered(other), None);
        }
    }

    #[test]
    fn other_bytes_are_no_proof() {
        let whole = proof([7; WORDS]);
        let short = &whole[..whole.len() - 1];
        for bytes in [&[][..], &[0; 128], short, &[&whole[..], &[0; 8]].concat()] {
            assert_eq!(Proof::read(bytes), None);
        }
    }

    /// QEMU sizes by it what it keeps of a guest's translated addresses.
    #[test]
    fn the_time_of_day_of_the_virtual_cpus_is_not_that_of_the_host() {
        const PROGRAM: &str = r#"
            #define _GNU_SOURCE
            #include <pthread.h>
            #include <stdio.h>
            #include <sys/time.h>
            #include <unistd.h>
            static void *look(void *name)
            {
                struct timeval first, second;
                pthread_setname_np(pthread_self(), name);
                gettimeofday(&first, NULL);
                usleep(2000);
                gettimeofday(&second, NULL);
                printf("%s %d\n", (char *)name, timercmp(&first, &second, !=));
                return NULL;
            }
            int main(void)
            {
                char *names[] = {"another", "ALL CPUs/TCG"};
                for (int at = 0; at < 2; at++) {
                    pthread_t thread;
                    pthread_create(&thread, NULL, look, names[at]);
                    pthread_join(thread, NULL);
                }
            }"#;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("preload.so"), LIBRARY).unwrap();
        std::fs::write(at("look.c"), PROGRAM).unwrap();
        let mut compiler = std::process::Command::new("cc");
        compiler.args(["-pthread", "-o"]).args([at("look"), at("look.c")]);
        assert!(compiler.status().unwrap().success());
        let mut look = std::process::Command::new(at("look"));
        look.env("LD_PRELOAD", at("preload.so")).env(PROOF_VARIABLE, at("proof"));
        let shown = look.output().unwrap().stdout;
        assert_eq!(String::from_utf8(shown).unwrap(), "another 1\nALL CPUs/TCG 0\n");
    }

    #[test]
    fn the_library_is_a_shared_object() {
        const SHARED_OBJECT: [u8; 2] = 3u16.to_le_bytes();
        assert_eq!((&LIBRARY[..4], &LIBRARY[16..18]), (&b"\x7fELF"[..], &SHARED_OBJECT[..]));
    }
}
