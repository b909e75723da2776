//! The environment of this machine: a hypervisor, a container, both or neither, in plain words.
//!
//! Input: the hypervisor's signature from the processor ([`hypervisor_signature`], x86 only), /sys/class/dmi,
//! /sys/hypervisor and the marks that container managers leave.

use crate::model::Reading;

use super::Host;
use crate::model::clean;

/// Signatures of CPUID leaf 0x40000000, padding removed, and the hypervisor of each.
const SIGNATURES: &[(&str, &str)] = &[
    ("KVMKVMKVM", "KVM"),
    ("Linux KVM Hv", "KVM"),
    ("TCGTCGTCGTCG", "QEMU without acceleration"),
    ("Microsoft Hv", "Hyper-V"),
    ("VMwareVMware", "VMware"),
    ("XenVMMXenVMM", "Xen"),
    ("VBoxVBoxVBox", "VirtualBox"),
    ("bhyve bhyve", "bhyve"),
    ("ACRNACRNACRN", "ACRN"),
    ("QNXQVMBSQG", "QNX"),
    ("lrpepyh  vr", "Parallels"),
    ("prl hyperv", "Parallels"),
    ("Apple VZ", "Apple Virtualization"),
    ("HAXMHAXMHAXM", "HAXM"),
];

/// DMI vendors and products that only virtual machines have.
const DMI: &[(&str, &str)] = &[
    ("QEMU", "QEMU"),
    ("KVM", "KVM"),
    ("VMware", "VMware"),
    ("innotek", "VirtualBox"),
    ("VirtualBox", "VirtualBox"),
    ("Xen", "Xen"),
    ("Bochs", "Bochs"),
    ("Parallels", "Parallels"),
    ("BHYVE", "bhyve"),
    ("Virtual Machine", "Hyper-V"),
    ("Google Compute Engine", "Google Compute Engine"),
    ("OpenStack", "OpenStack"),
];

/// `none`, or such as `KVM virtual machine`, `docker container`,
/// `KVM virtual machine, docker container`.
pub fn virtualisation(host: &Host, signature: &Reading<Option<String>>) -> Reading<String> {
    let machine = virtual_machine(host, signature);
    match (machine, container(host)) {
        (Reading::Known(Some(vm)), Some(container)) => Reading::Known(format!("{vm}, {container}")),
        (Reading::Known(Some(found)), None) | (_, Some(found)) => Reading::Known(found),
        (Reading::Known(None), None) => Reading::Known("none".to_string()),
        (Reading::Unknown(why), None) => Reading::Unknown(why),
    }
}

/// The signature of the hypervisor that the processor names: `None` on bare metal.
/// Unknown where no such instruction exists.
pub fn hypervisor_signature() -> Reading<Option<String>> {
    #[cfg(target_arch = "x86_64")]
    {
        const HYPERVISOR_PRESENT: u32 = 1 << 31;
        // Newer compilers know these as safe.
        #[allow(unused_unsafe)]
        // SAFETY: every x86-64 processor has CPUID; leaf 0x40000000 is asked only where leaf
        // 1 says that a hypervisor answers it.
        let words = unsafe {
            use std::arch::x86_64::__cpuid;
            if __cpuid(1).ecx & HYPERVISOR_PRESENT == 0 {
                return Reading::Known(None);
            }
            let leaf = __cpuid(0x4000_0000);
            [leaf.ebx, leaf.ecx, leaf.edx]
        };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let text = String::from_utf8_lossy(&bytes);
        Reading::Known(Some(text.trim_matches(['\0', ' ']).to_string()))
    }
    #[cfg(not(target_arch = "x86_64"))]
    Reading::Unknown("this processor has no instruction that names a hypervisor".to_string())
}

fn virtual_machine(host: &Host, signature: &Reading<Option<String>>) -> Reading<Option<String>> {
    let is_dom0 = host.read("/proc/xen/capabilities").is_ok_and(|text| text.contains("control_d"));
    if is_dom0 {
        return Reading::Known(Some("Xen dom0".to_string()));
    }
    let named = |name: &str| Reading::Known(Some(format!("{name} virtual machine")));
    if let Reading::Known(Some(signature)) = signature {
        return match SIGNATURES.iter().find(|(known, _)| known == signature) {
            Some((_, name)) => named(name),
            None if signature.is_empty() => named("unnamed"),
            None => named(&format!("`{}`", clean(signature))),
        };
    }
    if let Ok(kind) = host.read("/sys/hypervisor/type") {
        return named(if kind == "xen" { "Xen" } else { &kind });
    }
    let dmi = ["sys_vendor", "product_name", "bios_vendor"]
        .map(|file| host.read(format!("/sys/class/dmi/id/{file}")));
    let known: Vec<&String> = dmi.iter().flatten().collect();
    let virtual_only = DMI.iter().find(|(mark, _)| known.iter().any(|text| text.contains(mark)));
    match (virtual_only, signature) {
        (Some((_, name)), _) => named(name),
        (None, Reading::Known(_)) => Reading::Known(None),
        (None, Reading::Unknown(_)) if !known.is_empty() => Reading::Known(None),
        (None, Reading::Unknown(why)) => {
            Reading::Unknown(format!("{why}, and /sys/class/dmi and /sys/hypervisor are not there"))
        }
    }
}

fn container(host: &Host) -> Option<String> {
    let manager = ["/run/systemd/container", "/run/host/container-manager"]
        .iter()
        .find_map(|file| host.read(file).ok())
        .filter(|name| !name.is_empty());
    let there = |file: &str| host.path(file).exists();
    let name = match manager {
        Some(name) => name,
        None if there("/run/.containerenv") => "podman".to_string(),
        None if there("/.dockerenv") => "docker".to_string(),
        None if host.read("/proc/1/cgroup").is_ok_and(|text| text.contains("kubepods")) => {
            "kubernetes".to_string()
        }
        None => return None,
    };
    Some(format!("{name} container"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::testing::Tree;

    #[test]
    fn hypervisors_and_containers_are_named() {
        let bare = || Reading::Known(None);
        let signed = |text: &str| Reading::Known(Some(text.to_string()));
        let silent = || Reading::Unknown("no such instruction".to_string());
        type Case = (
            Reading<Option<String>>,
            &'static [(&'static str, &'static str)],
            Option<&'static str>,
        );
        const VENDOR: &str = "/sys/class/dmi/id/sys_vendor";
        let cases: &[Case] = &[
            (bare(), &[], Some("none")),
            (bare(), &[(VENDOR, "Dell Inc.")], Some("none")),
            (signed("KVMKVMKVM"), &[], Some("KVM virtual machine")),
            (signed("what\u{7}"), &[], Some("`what\\u{7}` virtual machine")),
            (signed(""), &[], Some("unnamed virtual machine")),
            (
                signed("KVMKVMKVM"),
                &[("/.dockerenv", "")],
                Some("KVM virtual machine, docker container"),
            ),
            (bare(), &[("/run/systemd/container", "lxc\n")], Some("lxc container")),
            (bare(), &[("/run/.containerenv", "")], Some("podman container")),
            (bare(), &[("/proc/1/cgroup", "0::/kubepods/x")], Some("kubernetes container")),
            (silent(), &[], None),
            (silent(), &[(VENDOR, "QEMU\n")], Some("QEMU virtual machine")),
            (silent(), &[(VENDOR, "Ampere(R)\n")], Some("none")),
            (silent(), &[("/sys/hypervisor/type", "xen\n")], Some("Xen virtual machine")),
            (
                signed("XenVMMXenVMM"),
                &[("/proc/xen/capabilities", "control_d\n")],
                Some("Xen dom0"),
            ),
        ];
        for (signature, files, expected) in cases {
            let tree = Tree::with_files(files);
            let got = virtualisation(&tree.host(), signature);
            assert_eq!(got.known().as_deref(), *expected, "{signature:?} {files:?}");
        }
    }
}
