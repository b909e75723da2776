//! The machine of a guest, as QEMU's command line. Pure.
//!
//! Under virtual time nothing in it may depend on the host: no clock but the instruction
//! counter's, no random numbers from the host, no device that answers at the host's pace.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::memory::MemoryPart;
use crate::model::{CpuClocks, EXIT_PORT, GUEST_BOOT_FILE, GUEST_INIT, Lab, RESULTS_PORT};

pub const QEMU: &str = "qemu-system-x86_64";

/// The clock of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// Time passes by instructions, and is exact.
    Virtual,
    /// The host's time, with KVM if it works.
    Real { kvm: bool },
}

/// The state that a guest starts from.
pub enum From<'a> {
    /// A kernel is booted; under a hypervisor, the kernel of its first domain. `more` follows the kernel's
    /// usual arguments.
    Kernel {
        image: PathBuf,
        initrd: PathBuf,
        boot: PathBuf,
        more: &'a str,
        /// The hypervisor, and the words that follow its usual arguments.
        hypervisor: Option<(PathBuf, &'a str)>,
    },
    /// A machine that was stopped, and continues; whether it `stops` again, to be saved. Its `memory` is mapped, and the
    /// file stays as it is.
    State { state: &'a Path, memory: PathBuf, has_hypervisor: bool, stops: bool },
}

impl From<'_> {
    fn has_hypervisor(&self) -> bool {
        match self {
            From::Kernel { hypervisor, .. } => hypervisor.is_some(),
            From::State { has_hypervisor, .. } => *has_hypervisor,
        }
    }

    fn is_saved(&self, time: Time) -> bool {
        match self {
            From::Kernel { .. } => time == Time::Virtual,
            From::State { stops, .. } => *stops,
        }
    }
}

/// The files of one guest. Their names have no comma: QEMU would end the name there.
pub struct Files<'a> {
    pub from: From<'a>,
    /// Documents for the agent, each with its name among the firmware's files.
    pub documents: &'a [(&'static str, PathBuf)],
    pub results: &'a Path,
    pub console: &'a Path,
}

/// QEMU's buffer of translated code. When it is full QEMU empties it, which ends the turn of a
/// virtual CPU: the size is part of the machine, and must not depend on the host's memory.
const TRANSLATED_MIB: u32 = 256;

/// Without instructions that bring numbers from outside, without features that QEMU cannot emulate and would
/// warn of, and without erms, which promises that bytes are copied as fast as words: each byte is an
/// instruction here. Since 6.17 Linux assumes a constant time stamp counter, if the CPU does not report one,
/// only up to this model number: without it each CPU calibrates its delay loop for 80 ms, in which all others
/// spin. The level keeps kernels from leaf 0x1f, which exists if sockets have dies, and ends QEMU (10.0: an
/// assertion in `encode_topo_cpuid1f`); other leaves have caches and sockets.
const CPU: &str = "Haswell,model=58,level=0xd,-erms,-rdrand,-invpcid,-rtm,-hle,-pcid,-tsc-deadline";

/// Xen would set the APIC's timers by registers; writing these ends QEMU under virtual time ("Bad icount
/// read"). Linux without Xen does not use them.
const CPU_UNDER_XEN: &str = ",-x2apic";

/// With KVM.
pub const KVM_CPU: &str = "host";

/// The machine, without devices that guests do not need.
const MACHINE: &str = "pc,hpet=off,i8042=off,smm=off,usb=off,vmport=off";

/// Arguments for a quick boot that is always the same, without background work: statistics of
/// memory accesses take 1 % of a CPU from Linux 6.17 on. `lsm=` leaves out all security modules; `selinux=0` does
/// nothing in Debian's kernels. `init_on_alloc=0`: memory is cleared where it has to be. The blacklist leaves out self-tests,
/// certificates for modules, and names of numbers in the text of trace events. A variant's own
/// arguments follow.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 panic=-1 oops=panic quiet mitigations=off nokaslr \
    norandmaps tsc=reliable no_timer_check cryptomgr.notests \
    initcall_blacklist=jent_mod_init,crypto_kdf108_init,load_system_certificate_list,trace_eval_init \
    random.trust_cpu=off damon_stat.enabled=0 audit=0 lsm= init_on_alloc=0";

/// The words after `qemu-system-x86_64`.
pub fn arguments(lab: &Lab, time: Time, files: &Files) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |option: &str, value: String| {
        words.push(option.into());
        words.push(value.into());
    };
    accelerator(lab, time, files.from.has_hypervisor(), &mut add);
    // The library that is loaded finds the thread of the virtual CPUs by its name.
    add("-name", "schedlab-guest,debug-threads=on".to_string());
    add("-m", memory_mib(lab, files.from.has_hypervisor()).to_string());
    let dies = lab.llcs / lab.sockets;
    let (cores, threads) = (lab.cpus / lab.llcs / lab.threads, lab.threads);
    add(
        "-smp",
        format!("{},sockets={},dies={dies},cores={cores},threads={threads}", lab.cpus, lab.sockets),
    );
    add("-machine", machine(lab));
    memory(lab, &files.from, &mut add);
    for option in ["-display", "-monitor", "-net"] {
        add(option, "none".to_string());
    }
    add("-chardev", format!("file,id=console,path={}", files.console.display()));
    add("-serial", "chardev:console".to_string());
    add("-chardev", format!("file,id=results,path={}", files.results.display()));
    add("-device", format!("isa-debugcon,iobase={RESULTS_PORT:#x},chardev=results"));
    add("-device", format!("isa-debug-exit,iobase={EXIT_PORT:#x},iosize=1"));
    add("-device", "pvpanic".to_string());
    add("-action", "panic=pause".to_string());
    let mut firmware = |name: &str, path: &Path| {
        add("-fw_cfg", format!("name={name},file={}", path.display()));
    };
    for (name, path) in files.documents {
        firmware(name, path);
    }
    match &files.from {
        From::Kernel { image, initrd, boot, more, hypervisor } => {
            firmware(GUEST_BOOT_FILE, boot);
            for (option, value) in booted(time, more, [image, initrd], hypervisor.as_ref()) {
                add(option, value);
            }
        }
        From::State { state, .. } => {
            // Otherwise a timer of the host's clock would run as well.
            add("-global", "migration.announce-rounds=0".to_string());
            add("-incoming", format!("file:{}", state.display()));
        }
    }
    if files.from.is_saved(time) {
        // Copies continue by themselves: the saved state does not say that it was stopped.
        add("-global", "migration.store-global-state=off".to_string());
        add("-qmp", "stdio".to_string());
    }
    words.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
    words
}

/// Adds the options for what executes the guest's instructions, and by which clock.
fn accelerator(lab: &Lab, time: Time, has_hypervisor: bool, add: &mut dyn FnMut(&str, String)) {
    let cpu = if has_hypervisor { format!("{CPU}{CPU_UNDER_XEN}") } else { CPU.to_string() };
    match time {
        Time::Virtual => {
            add("-accel", format!("tcg,tb-size={TRANSLATED_MIB}"));
            // If CPUs have their own clocks, the library's times count instead of this one.
            let shift = match lab.clocks {
                CpuClocks::Own => 0,
                CpuClocks::Shared => (lab.instruction_ps / 1000).ilog2(),
            };
            add("-icount", format!("shift={shift},sleep=off"));
            add("-rtc", "base=2020-01-01,clock=vm".to_string());
            add("-cpu", cpu);
        }
        Time::Real { kvm: true } => {
            add("-accel", "kvm".to_string());
            add("-cpu", KVM_CPU.to_string());
        }
        Time::Real { kvm: false } => {
            add("-accel", "tcg,thread=multi".to_string());
            add("-cpu", cpu);
        }
    }
}

/// With a last-level cache for each die if there are several.
fn machine(lab: &Lab) -> String {
    let mut machine = MACHINE.to_string();
    if lab.nodes < 2 {
        // By the name that it has among several nodes.
        machine.push_str(",memory-backend=memory0");
    }
    if lab.llcs > lab.sockets {
        machine.push_str(",smp-cache.0.cache=l3,smp-cache.0.topology=die");
    }
    machine
}

/// The memory of a machine: that of guests, and of the first domain.
pub fn memory_mib(lab: &Lab, has_hypervisor: bool) -> u64 {
    (lab.memory_bytes >> 20) + if has_hypervisor { FIRST_DOMAIN_MIB } else { 0 }
}

/// The memory of each node, in equal parts.
pub fn memory_parts(lab: &Lab, has_hypervisor: bool) -> Vec<MemoryPart> {
    let (all_mib, nodes) = (memory_mib(lab, has_hypervisor), u64::from(lab.nodes));
    let mut offset_mib = 0;
    let part = |node| {
        let rest = if node == 0 { all_mib % nodes } else { 0 };
        let part =
            MemoryPart { name: format!("memory{node}"), mib: all_mib / nodes + rest, offset_mib };
        offset_mib += part.mib;
        part
    };
    (0..nodes).map(part).collect()
}

/// CPUs and memory in equal parts, in order.
fn memory(lab: &Lab, from: &From, add: &mut dyn FnMut(&str, String)) {
    for MemoryPart { name, mib, offset_mib } in memory_parts(lab, from.has_hypervisor()) {
        let backend = match from {
            From::Kernel { .. } => "memory-backend-ram".to_string(),
            From::State { memory, .. } => format!(
                "memory-backend-file,mem-path={},offset={offset_mib}M,share=off,readonly=on,rom=off",
                memory.display()
            ),
        };
        add("-object", format!("{backend},id={name},size={mib}M"));
    }
    if lab.nodes < 2 {
        return;
    }
    let each = lab.cpus / lab.nodes;
    for node in 0..lab.nodes {
        let (first, last) = (node * each, (node + 1) * each - 1);
        add("-numa", format!("node,nodeid={node},cpus={first}-{last},memdev=memory{node}"));
    }
    if let Some(distance) = lab.node_distance {
        let pairs = (0..lab.nodes).flat_map(|from| (from + 1..lab.nodes).map(move |to| (from, to)));
        pairs.for_each(|(from, to)| {
            add("-numa", format!("dist,src={from},dst={to},val={distance}"));
        });
    }
}

fn kernel_arguments(time: Time, more: &str) -> String {
    let mut line = format!("{KERNEL_ARGUMENTS} rdinit={GUEST_INIT}");
    if time == Time::Virtual {
        // A cycle of the time stamp counter is one nanosecond of virtual time: the kernel need
        // not measure it.
        line.push_str(" tsc_early_khz=1000000");
    }
    if !more.is_empty() {
        line.push_str(&format!(" {more}"));
    }
    line
}

/// Arguments of Xen. The first domain has one CPU and keeps it: the others are for pools of guests. It prints
/// only errors: a character takes 87 us of virtual time, and Xen waits for it.
const XEN_ARGUMENTS: &str = "console=com1 com1=115200,8n1 loglvl=error guest_loglvl=error \
    noreboot=1 spec-ctrl=no xpti=no pv-l1tf=no bootscrub=0 dom0_max_vcpus=1 dom0_vcpus_pin";

/// Memory of the first domain, in addition to that of guests. It holds its root, which has a kernel
/// for guests, and the tools.
const FIRST_DOMAIN_MIB: u64 = 512;

/// The first domain's console is the hypervisor's.
const CONSOLE: &str = "console=ttyS0";
/// At the end of a boot the kernel makes pages read-only and checks them; under Xen each page costs a call.
const CONSOLE_UNDER_XEN: &str = "console=hvc0 loglevel=4 rootfstype=ramfs rodata=off";

/// QEMU's options for what it boots. Under a hypervisor, kernel and root are its modules: a comma separates
/// modules, and a doubled comma is a comma.
fn booted(
    time: Time,
    more: &str,
    [image, initrd]: [&Path; 2],
    hypervisor: Option<&(PathBuf, &str)>,
) -> [(&'static str, String); 3] {
    let arguments = kernel_arguments(time, more);
    let [image, initrd] = [image, initrd].map(|path| path.display().to_string());
    let Some((hypervisor, xen_more)) = hypervisor else {
        return [("-kernel", image), ("-initrd", initrd), ("-append", arguments)];
    };
    let arguments = arguments.replacen(CONSOLE, CONSOLE_UNDER_XEN, 1);
    let doubled = |text: String| text.replace(',', ",,");
    let modules = [format!("{image} {arguments}"), initrd].map(doubled).join(",");
    [
        ("-kernel", hypervisor.display().to_string()),
        ("-initrd", modules),
        (
            "-append",
            format!("{XEN_ARGUMENTS} dom0_mem={FIRST_DOMAIN_MIB}M {xen_more}").trim().to_string(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GUEST_SPEC_FILE;

    fn line(lab: &Lab, time: Time, from: From, spec: Option<&str>) -> String {
        let files = Files {
            from,
            documents: &spec
                .map(|path| (GUEST_SPEC_FILE, path.into()))
                .into_iter()
                .collect::<Vec<_>>(),
            results: Path::new("../g/results"),
            console: Path::new("/g/console"),
        };
        let words = arguments(lab, time, &files);
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    fn boot() -> From<'static> {
        From::Kernel {
            image: "/k/vmlinuz".into(),
            initrd: "/r/root.cpio".into(),
            boot: "/g/boot".into(),
            more: "nohz=off",
            hypervisor: None,
        }
    }

    #[test]
    fn under_a_hypervisor_kernel_and_root_are_modules() {
        let line = line(&Lab::default(), Time::Virtual, under_xen(), None);
        let expected = [
            "-m 1024 ",
            "-kernel ../xen-1 -initrd ../kernel-1 console=hvc0 loglevel=4 rootfstype=ramfs rodata=off panic=-1 ",
            "initcall_blacklist=jent_mod_init,,crypto_kdf108_init,,load_system_certificate_list,,",
            " rdinit=/schedlab-guest tsc_early_khz=1000000 isolcpus=1,,2,../root-1.cpio -append ",
            " dom0_max_vcpus=1 dom0_vcpus_pin dom0_mem=512M sched=credit -global ",
            "com1=115200,8n1 ",
            "-icount shift=0,sleep=off",
            "name=opt/schedlab/boot,file=../g/boot",
        ];
        expected.iter().for_each(|words| assert!(line.contains(words), "{words}: {line}"));
        assert!(!line.contains("ttyS0"), "{line}");
    }

    #[test]
    fn each_machine_has_its_words() {
        let plain = Lab::default();
        let sockets = Lab { cpus: 8, sockets: 2, llcs: 4, ..plain.clone() };
        let nodes =
            Lab { nodes: 2, node_distance: Some(31), memory_bytes: 257 << 20, ..plain.clone() };
        let siblings = Lab { cpus: 16, sockets: 2, llcs: 4, threads: 2, ..plain.clone() };
        let shared = Lab { clocks: CpuClocks::Shared, instruction_ps: 8000, ..plain.clone() };
        let (kvm, emulated) = (Time::Real { kvm: true }, Time::Real { kvm: false });
        let clock = "-rtc base=2020-01-01,clock=vm";
        let cases: &[(&Lab, Time, &[&str], &[&str])] = &[
            (
                &plain,
                Time::Virtual,
                &[
                    "-icount shift=0,sleep=off",
                    clock,
                    "-smp 4,sockets=1,dies=1,cores=4,threads=1",
                    "-machine pc,hpet=off,i8042=off,smm=off,usb=off,vmport=off,memory-backend=memory0 ",
                    "-object memory-backend-ram,id=memory0,size=512M ",
                    "-m 512 ",
                    "tsc_early_khz=1000000 nohz=off",
                    "-qmp stdio",
                    "-kernel /k/vmlinuz -initrd /r/root.cpio",
                    "rdinit=/schedlab-guest",
                    "path=../g/results -device isa-debugcon",
                    "path=/g/console -serial chardev:console",
                    "-no-reboot",
                ],
                &["-numa", "smp-cache", "-incoming", GUEST_SPEC_FILE],
            ),
            (
                &sockets,
                Time::Virtual,
                &[
                    "-smp 8,sockets=2,dies=2,cores=2,threads=1",
                    "level=0xd",
                    ",memory-backend=memory0,smp-cache.0.cache=l3,smp-cache.0.topology=die",
                ],
                &["-numa"],
            ),
            (
                &nodes,
                Time::Virtual,
                &[
                    "memory-backend-ram,id=memory0,size=129M",
                    "-numa dist,src=0,dst=1,val=31 ",
                    "id=memory1,size=128M",
                    "nodeid=0,cpus=0-1,memdev=memory0",
                    "nodeid=1,cpus=2-3,memdev=memory1",
                ],
                &["smp-cache", "memory-backend="],
            ),
            (&siblings, Time::Virtual, &["-smp 16,sockets=2,dies=2,cores=2,threads=2"], &[]),
            (&shared, Time::Virtual, &["shift=3,", "tsc_early_khz=1000000 nohz=off"], &[]),
            (&plain, kvm, &["-accel kvm -cpu host"], &["-icount", "-qmp", "-rtc", "tsc_early"]),
            (&plain, emulated, &["-accel tcg,thread=multi"], &["-icount", "-qmp", "-rtc"]),
        ];
        for (lab, time, has, has_not) in cases {
            let line = line(lab, *time, boot(), None);
            has.iter().for_each(|word| assert!(line.contains(word), "{word}: {line}"));
            has_not.iter().for_each(|word| assert!(!line.contains(word), "{word}: {line}"));
        }
    }

    fn state(has_hypervisor: bool) -> From<'static> {
        From::State {
            state: Path::new("../s/state"),
            memory: "/proc/7/fd/3".into(),
            has_hypervisor,
            stops: false,
        }
    }

    fn under_xen() -> From<'static> {
        From::Kernel {
            image: "../kernel-1".into(),
            initrd: "../root-1.cpio".into(),
            boot: "../g/boot".into(),
            more: "isolcpus=1,2",
            hypervisor: Some(("../xen-1".into(), "sched=credit")),
        }
    }

    #[test]
    fn a_copy_is_the_same_machine_and_has_its_spec() {
        let lab = Lab::default();
        let copy = line(&lab, Time::Virtual, state(false), Some("/g/spec"));
        let booted = line(&lab, Time::Virtual, boot(), None);
        assert!(copy.contains("-incoming file:../s/state "), "{copy}");
        assert!(copy.contains("name=opt/schedlab/run,file=/g/spec"), "{copy}");
        assert!(!copy.contains("-kernel") && !copy.contains("-qmp"), "{copy}");
        let mapped =
            "memory-backend-file,mem-path=/proc/7/fd/3,offset=0M,share=off,readonly=on,rom=off,";
        assert!(copy.contains(mapped), "{copy}");
        let machine = |line: &str| {
            let line = line.replace(mapped, "memory-backend-ram,");
            line.split(" -fw_cfg").next().unwrap().to_string()
        };
        assert_eq!(machine(&copy), machine(&booted));
        let copy = line(&lab, Time::Virtual, state(true), Some("/g/spec"));
        let booted = line(&lab, Time::Virtual, under_xen(), None);
        assert!(copy.contains(",-x2apic "), "{copy}");
        assert_eq!(machine(&copy), machine(&booted));
        let nodes = Lab { nodes: 2, memory_bytes: 257 << 20, ..lab };
        let copy = line(&nodes, Time::Virtual, state(false), None);
        assert!(copy.contains(",offset=129M,share=off,readonly=on,rom=off,id=memory1,size=128M "));
    }
}
