//! Xen from its first domain: hypercalls by the device of the kernel, without a library.
//!
//! Structures and numbers are those of Xen's public headers (`sysctl.h`, `domctl.h`), 4.17 to 4.20. The
//! version of each interface is found by asking: Xen refuses all others before it reads more.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Mutex;

use crate::model::{CpuSet, words};

use super::Host;
use super::lock;

/// A file that only the first domain has.
const CAPABILITIES: &str = "/proc/xen/capabilities";

/// Whether this is Xen's first domain, which controls the others.
pub fn is_control(host: &Host) -> bool {
    host.read(CAPABILITIES).is_ok_and(|text| text.contains("control_d"))
}

/// Enough for the released program.
pub const USUAL_GUEST_BYTES: u64 = 192 << 20;

/// Memory of a guest without a size of its own: its root is this program, once as an archive and once unpacked.
pub fn guest_memory_bytes() -> u64 {
    let program = std::fs::metadata("/proc/self/exe").map_or(0, |file| file.len());
    memory_for(program)
}

fn memory_for(program_bytes: u64) -> u64 {
    const KERNEL_BYTES: u64 = 128 << 20;
    (2 * program_bytes + KERNEL_BYTES).next_multiple_of(32 << 20).max(USUAL_GUEST_BYTES)
}

words! {
    /// A scheduler of Xen.
    pub enum Scheduler {
        Credit = "credit",
        Credit2 = "credit2",
        Rtds = "rtds",
        Null = "null",
    }
}

impl Scheduler {
    /// `XEN_SCHEDULER_...`.
    fn number(self) -> u32 {
        match self {
            Scheduler::Credit => 5,
            Scheduler::Credit2 => 6,
            Scheduler::Rtds => 8,
            Scheduler::Null => 9,
        }
    }

    /// Whether a guest has a weight and a cap under it.
    pub fn has_weights(self) -> bool {
        matches!(self, Scheduler::Credit | Scheduler::Credit2)
    }
}

/// CPUs under one scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub id: u32,
    /// `None`: one that is not known here.
    pub scheduler: Option<Scheduler>,
    pub domains: u32,
    pub cpus: CpuSet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Domain {
    pub id: u16,
    /// The time of all its CPUs, in ns.
    pub cpu_ns: u64,
}

/// The machine as Xen sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    pub cpus: u32,
    pub free_bytes: u64,
}

/// The CPUs on which a virtual CPU may run, and those on which it prefers to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    Hard,
    Soft,
}

impl Affinity {
    fn flag(self) -> u32 {
        match self {
            Self::Hard => 1,
            Self::Soft => 2,
        }
    }
}

/// Parameters of the schedulers that have a pool's; 0: not one of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parameters {
    pub timeslice_ms: u32,
    pub ratelimit_us: u32,
}

const SYSCTL: u64 = 35;
const DOMCTL: u64 = 36;
const XEN_VERSION: u64 = 17;
/// Versions of the interfaces, from Xen 4.13 on.
const SYSCTLS: std::ops::Range<u32> = 0x12..0x20;
const DOMCTLS: std::ops::Range<u32> = 0x10..0x20;

const SYSCTL_PHYSINFO: u32 = 3;
const SYSCTL_SCHED_ID: u32 = 4;
const SYSCTL_DOMAINS: u32 = 6;
const SYSCTL_POOL: u32 = 18;
const SYSCTL_SCHEDULER: u32 = 19;
const DOMCTL_INFO: u32 = 5;
const DOMCTL_SET_AFFINITY: u32 = 9;
const DOMCTL_SCHEDULER: u32 = 16;
const DOMCTL_GET_AFFINITY: u32 = 25;

const POOL_CREATE: u32 = 1;
const POOL_DESTROY: u32 = 2;
const POOL_INFO: u32 = 3;
const POOL_ADD_CPU: u32 = 4;
const POOL_REMOVE_CPU: u32 = 5;
const POOL_MOVE_DOMAIN: u32 = 6;
const ANY_POOL: u32 = u32::MAX;
const PUT: u32 = 0;
const GET: u32 = 1;

const PAGE: usize = 4096;
/// One page for the call, and one for the data that it refers to.
const PAGES: usize = 2;
const MAX_CPUS: u32 = 256;
/// `xen_domctl_getdomaininfo`: its size differs between versions; these fields are the same.
const DOMAIN_CPU_TIME: usize = 56;
const PAGE_BYTES: u64 = 4096;

#[repr(C)]
struct Hypercall {
    number: u64,
    arguments: [u64; 5],
}

/// `_IOC(_IOC_NONE, 'P', 0, 48)`.
const IOCTL_HYPERCALL: libc::c_ulong =
    ((size_of::<Hypercall>() as libc::c_ulong) << 16) | ((b'P' as libc::c_ulong) << 8);

/// The words of one call: command, version and arguments, as 32 bits each.
type Words = [u32; 36];

enum Call {
    Sysctl,
    Domctl(u16),
}

/// The index at which the arguments of a sysctl begin; [`OF_DOMCTL`]: those of a domctl.
const OF_SYSCTL: usize = 2;
/// The index at which a scheduler's parameters begin in its sysctl: behind the pool, the scheduler and the command,
/// and aligned to 8 bytes, since some schedulers have addresses there.
const OF_PARAMETERS: usize = OF_SYSCTL + 4;
const OF_DOMCTL: usize = 4;

pub struct Xen {
    device: File,
    /// Memory that hypercalls may use.
    memory: Mutex<*mut u8>,
    sysctl: u32,
    domctl: u32,
}

// SAFETY: the memory is this value's alone, and one thread at a time uses it, behind the lock.
unsafe impl Send for Xen {}
// SAFETY: as above.
unsafe impl Sync for Xen {}

impl Xen {
    /// Needs the first domain, and root there.
    pub fn open() -> io::Result<Xen> {
        let open = |path: &str| OpenOptions::new().read(true).write(true).open(path);
        let device = open("/dev/xen/privcmd")?;
        let buffers = open("/dev/xen/hypercall")?;
        // SAFETY: new memory, at an address that the kernel chooses.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                PAGES * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                buffers.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut xen = Xen { device, memory: Mutex::new(memory.cast()), sysctl: 0, domctl: 0 };
        let is_refused = |error: io::Error| error.raw_os_error() == Some(libc::EACCES);
        for version in SYSCTLS {
            xen.sysctl = version;
            if !xen.sysctl(SYSCTL_SCHED_ID, &[]).is_err_and(is_refused) {
                break;
            }
        }
        for version in DOMCTLS {
            xen.domctl = version;
            if !xen.domctl(DOMCTL_INFO, 0, &[]).is_err_and(is_refused) {
                break;
            }
        }
        Ok(xen)
    }

    /// `4.17`.
    pub fn version(&self) -> io::Result<String> {
        let version = self.call(XEN_VERSION, 0, 0)?;
        Ok(format!("{}.{}", version >> 16, version & 0xffff))
    }

    pub fn machine(&self) -> io::Result<Machine> {
        let words = self.sysctl(SYSCTL_PHYSINFO, &[])?;
        let own = &words[OF_SYSCTL..];
        let free_pages = u64::from(own[12]) | u64::from(own[13]) << 32;
        Ok(Machine { cpus: own[2], free_bytes: free_pages * PAGE_BYTES })
    }

    /// The domain of this number, or the next one; `None`: there is none.
    pub fn domain(&self, first: u16) -> io::Result<Option<Domain>> {
        let memory = self.lock();
        // SAFETY: the pages after the first are for data that calls refer to.
        let entry = unsafe { memory.add(PAGE) };
        let address = entry as u64;
        let asked = [first.into(), 1, address as u32, (address >> 32) as u32];
        let words = self.ask(*memory, Call::Sysctl, SYSCTL_DOMAINS, &asked)?;
        if words[OF_SYSCTL + 4] == 0 {
            return Ok(None);
        }
        let at = |offset: usize| {
            let mut bytes = [0; 8];
            // SAFETY: Xen wrote an entry, which is longer.
            unsafe { ptr::copy_nonoverlapping(entry.add(offset), bytes.as_mut_ptr(), bytes.len()) };
            u64::from_le_bytes(bytes)
        };
        Ok(Some(Domain { id: at(0) as u16, cpu_ns: at(DOMAIN_CPU_TIME) }))
    }

    /// The pool of this number, or the next one that there is.
    pub fn pool(&self, id: u32) -> io::Result<Pool> {
        let memory = self.lock();
        let bitmap = bitmap(*memory);
        let address = bitmap as u64;
        let asked = [POOL_INFO, id, 0, 0, 0, 0, address as u32, (address >> 32) as u32, MAX_CPUS];
        let words = self.ask(*memory, Call::Sysctl, SYSCTL_POOL, &asked)?;
        let own = &words[OF_SYSCTL..];
        Ok(Pool {
            id: own[1],
            scheduler: Scheduler::ALL.into_iter().find(|known| known.number() == own[2]),
            domains: own[5],
            cpus: cpus_of(bitmap),
        })
    }

    /// Makes a pool without CPUs; returns its number.
    pub fn create_pool(&self, scheduler: Scheduler) -> io::Result<u32> {
        let words = self.sysctl(SYSCTL_POOL, &[POOL_CREATE, ANY_POOL, scheduler.number()])?;
        Ok(words[OF_SYSCTL + 1])
    }

    /// Removes a pool without CPUs and domains.
    pub fn destroy_pool(&self, id: u32) -> io::Result<()> {
        self.sysctl(SYSCTL_POOL, &[POOL_DESTROY, id]).map(drop)
    }

    pub fn add_cpu(&self, pool: u32, cpu: u32) -> io::Result<()> {
        self.sysctl(SYSCTL_POOL, &[POOL_ADD_CPU, pool, 0, 0, cpu]).map(drop)
    }

    pub fn remove_cpu(&self, pool: u32, cpu: u32) -> io::Result<()> {
        self.sysctl(SYSCTL_POOL, &[POOL_REMOVE_CPU, pool, 0, 0, cpu]).map(drop)
    }

    pub fn parameters(&self, pool: u32, scheduler: Scheduler) -> io::Result<Parameters> {
        let asked = [pool, scheduler.number(), GET];
        let words = self.sysctl(SYSCTL_SCHEDULER, &asked)?;
        let own = &words[OF_PARAMETERS..];
        Ok(match scheduler {
            Scheduler::Credit => Parameters { timeslice_ms: own[0], ratelimit_us: own[1] },
            Scheduler::Credit2 => Parameters { timeslice_ms: 0, ratelimit_us: own[0] },
            Scheduler::Rtds | Scheduler::Null => Parameters::default(),
        })
    }

    /// The rest stays as Xen has it.
    pub fn set_parameters(
        &self,
        pool: u32,
        scheduler: Scheduler,
        wanted: Parameters,
    ) -> io::Result<()> {
        let now = self.sysctl(SYSCTL_SCHEDULER, &[pool, scheduler.number(), GET])?;
        let delay_us = now[OF_PARAMETERS + 2];
        let Parameters { timeslice_ms, ratelimit_us } = wanted;
        let asked = match scheduler {
            Scheduler::Credit => [timeslice_ms, ratelimit_us, delay_us],
            _ => [ratelimit_us, 0, 0],
        };
        let asked = [&[pool, scheduler.number(), PUT, 0][..], &asked].concat();
        self.sysctl(SYSCTL_SCHEDULER, &asked).map(drop)
    }

    /// Weight and cap of a domain under a scheduler that has them.
    pub fn weight(&self, domain: u16, scheduler: Scheduler) -> io::Result<(u16, u16)> {
        let words = self.domctl(DOMCTL_SCHEDULER, domain, &[scheduler.number(), GET])?;
        let both = words[OF_DOMCTL + 2];
        Ok((both as u16, (both >> 16) as u16))
    }

    pub fn set_weight(
        &self,
        domain: u16,
        scheduler: Scheduler,
        (weight, cap): (u16, u16),
    ) -> io::Result<()> {
        let both = u32::from(weight) | u32::from(cap) << 16;
        self.domctl(DOMCTL_SCHEDULER, domain, &[scheduler.number(), PUT, both]).map(drop)
    }

    /// Moves a domain out of its pool into this one. It has no affinity afterwards.
    pub fn move_domain(&self, domain: u16, pool: u32) -> io::Result<()> {
        self.sysctl(SYSCTL_POOL, &[POOL_MOVE_DOMAIN, pool, 0, domain.into()]).map(drop)
    }

    /// The soft affinity of its first virtual CPU.
    pub fn soft_affinity(&self, domain: u16) -> io::Result<CpuSet> {
        let memory = self.lock();
        let bitmap = bitmap(*memory);
        let asked = affinity_of(0, Affinity::Soft, bitmap as u64);
        self.ask(*memory, Call::Domctl(domain), DOMCTL_GET_AFFINITY, &asked)?;
        Ok(cpus_of(bitmap))
    }

    pub fn set_affinity(
        &self,
        domain: u16,
        virtual_cpu: u32,
        kind: Affinity,
        cpus: &CpuSet,
    ) -> io::Result<()> {
        let memory = self.lock();
        let bitmap = bitmap(*memory);
        let mut bits = [0u8; MAX_CPUS as usize / 8];
        cpus.iter()
            .filter(|cpu| *cpu < MAX_CPUS)
            .for_each(|cpu| bits[cpu as usize / 8] |= 1 << (cpu % 8));
        // SAFETY: the page is longer, and this value's alone behind the lock.
        unsafe { ptr::copy_nonoverlapping(bits.as_ptr(), bitmap, bits.len()) };
        let asked = affinity_of(virtual_cpu, kind, bitmap as u64);
        self.ask(*memory, Call::Domctl(domain), DOMCTL_SET_AFFINITY, &asked).map(drop)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, *mut u8> {
        lock(&self.memory)
    }

    fn sysctl(&self, command: u32, arguments: &[u32]) -> io::Result<Words> {
        let memory = self.lock();
        self.ask(*memory, Call::Sysctl, command, arguments)
    }

    fn domctl(&self, command: u32, domain: u16, arguments: &[u32]) -> io::Result<Words> {
        let memory = self.lock();
        self.ask(*memory, Call::Domctl(domain), command, arguments)
    }

    /// One call with its words in `memory`, which the caller has locked; returns them as Xen left them.
    fn ask(
        &self,
        memory: *mut u8,
        call: Call,
        command: u32,
        arguments: &[u32],
    ) -> io::Result<Words> {
        let (number, version, domain, at) = match call {
            Call::Sysctl => (SYSCTL, self.sysctl, 0, OF_SYSCTL),
            Call::Domctl(domain) => (DOMCTL, self.domctl, domain.into(), OF_DOMCTL),
        };
        let mut words: Words = [0; 36];
        (words[0], words[1], words[2]) = (command, version, domain);
        words[at..at + arguments.len()].copy_from_slice(arguments);
        // SAFETY: the first page is for the words of a call.
        unsafe { ptr::copy_nonoverlapping(words.as_ptr().cast(), memory, size_of::<Words>()) };
        self.call(number, memory as u64, 0)?;
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(memory, words.as_mut_ptr().cast(), size_of::<Words>()) };
        Ok(words)
    }

    fn call(&self, number: u64, first: u64, second: u64) -> io::Result<i64> {
        let call = Hypercall { number, arguments: [first, second, 0, 0, 0] };
        // SAFETY: the structure is the one that the device takes; it refers to memory for hypercalls.
        match unsafe { libc::ioctl(self.device.as_raw_fd(), IOCTL_HYPERCALL, &call) } {
            result if result < 0 => Err(io::Error::last_os_error()),
            result => Ok(result.into()),
        }
    }
}

/// The bitmap of the CPUs that a call refers to: in the second page of a [`Xen`]'s memory.
fn bitmap(memory: *mut u8) -> *mut u8 {
    // SAFETY: there are two pages.
    unsafe { memory.add(PAGE) }
}

/// The CPUs of a bitmap.
fn cpus_of(bitmap: *const u8) -> CpuSet {
    // SAFETY: Xen wrote MAX_CPUS bits there.
    let has = |cpu: u32| unsafe { *bitmap.add(cpu as usize / 8) >> (cpu % 8) & 1 == 1 };
    (0..MAX_CPUS).filter(|cpu| has(*cpu)).collect()
}

/// The words of a call about an affinity, with its bitmap at this address. It has a place for each kind.
fn affinity_of(virtual_cpu: u32, kind: Affinity, address: u64) -> [u32; 10] {
    let map = [address as u32, (address >> 32) as u32, MAX_CPUS, 0];
    let (hard, soft) = match kind {
        Affinity::Hard => (map, [0; 4]),
        Affinity::Soft => ([0; 4], map),
    };
    let mut words = [0; 10];
    (words[0], words[1]) = (virtual_cpu, kind.flag());
    words[2..6].copy_from_slice(&hard);
    words[6..].copy_from_slice(&soft);
    words
}

impl Drop for Xen {
    fn drop(&mut self) {
        let memory = *self.lock();
        // SAFETY: mapped by `open` with this size, and used no more.
        unsafe { libc::munmap(memory.cast(), PAGES * PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_has_memory_for_this_program() {
        assert_eq!(memory_for(24 << 20), 192 << 20);
        assert_eq!(memory_for(123 << 20), 384 << 20);
        assert_eq!(memory_for((32 << 20) + 1), 224 << 20);
    }
}
