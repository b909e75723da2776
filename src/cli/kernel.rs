//! `schedlab kernel`: fetches, lists and removes the kernels of the lab.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand};

use crate::backend::lab::kernel::{
    self, Cache, CachedName, Entry, How, Identity, Kernel, KernelError, Mirror, NameFault, Reach,
};
use crate::report::shortened;

use super::kernel_build::{self, BuildArgs};
use super::kernel_compare::{self, CompareArgs};
use super::kernel_list::{list, list_available};
use super::kernel_progress::{MAX_WIDTH, Show, WAITING};
use super::text_or_json::Format;
use super::{Failure, terminal};

#[derive(Args)]
pub struct KernelArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Fetch the newest Debian kernel or hypervisor of each name from this machine's package mirror
    ///
    /// Uses apt's own tools over lists of its own: needs no root, installs nothing, and changes
    /// nothing but the cache.
    Get {
        /// debian:6.18 is the newest of that series, debian:6.18.15 that version; built for
        /// virtual machines, with -amd64 for any PC, with -rt for PREEMPT_RT. xen:4.17 is a
        /// hypervisor with its tools and the kernel of its guests
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// List kernels with their schedulers and paths
    List {
        /// Only these: names, or paths of a bzImage
        #[arg(value_name = "NAME|PATH", conflicts_with = "available")]
        names: Vec<String>,
        /// Kernels of the mirror instead of those in the cache
        #[arg(long)]
        available: bool,
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Build a kernel for the lab from Debian's sources or a tree, with patches
    ///
    /// Needs no root and installs nothing. The tree is only read; all that is written is in the
    /// cache. A plan names the result by its name: kernel = "NAME".
    Build(BuildArgs),
    /// Compare the configurations of two kernels: what matters to scheduling
    Compare(CompareArgs),
    /// Remove every cached kernel of a name
    Rm {
        #[arg(required_unless_present_any = ["all", "builds"], value_name = "NAME")]
        names: Vec<String>,
        /// Every kernel, the lists of packages, and the trees and objects of builds
        #[arg(long, conflicts_with = "names")]
        all: bool,
        /// The trees and objects of builds; the next build begins anew
        #[arg(long, conflicts_with = "all")]
        builds: bool,
    },
}

impl From<KernelError> for Failure {
    fn from(error: KernelError) -> Self {
        Failure::from_advice(&error)
    }
}

pub fn run(args: &KernelArgs) -> Result<(), Failure> {
    match &args.action {
        Action::Get { names } => get(names),
        Action::List { available: true, format, .. } => list_available(*format),
        Action::List { names, format, .. } => list(names, *format),
        Action::Rm { all: true, .. } => {
            print_removed(&kernel::remove_all(&Cache::open()?, &mut || terminal::message(WAITING))?)
        }
        Action::Build(args) => kernel_build::run(args),
        Action::Compare(args) => kernel_compare::run(args),
        Action::Rm { names, builds, .. } => {
            let names =
                names.iter().map(|text| cached_name(text)).collect::<Result<Vec<_>, _>>()?;
            let cache = Cache::open()?;
            if *builds {
                kernel::remove_builds(&cache, &mut || terminal::message(WAITING))?;
            }
            names.iter().try_for_each(|name| {
                let removed = kernel::remove(&cache, name, &mut || terminal::message(WAITING));
                print_removed(&removed.map_err(not_removed)?)
            })
        }
    }
}

/// The usual hint is to fetch the kernel, which is not what `rm` wants.
fn not_removed(error: KernelError) -> Failure {
    match error {
        KernelError::NotCached { .. } => Failure::here(error.to_string(), "schedlab kernel list"),
        other => other.into(),
    }
}

fn cached_name(text: &str) -> Result<CachedName, KernelError> {
    let is_file = text.contains('/') && Path::new(text).exists();
    let name = if is_file { Err(NameFault::File) } else { CachedName::parse(text) };
    name.map_err(|why| KernelError::Name { name: text.to_string(), why })
}

/// Parses all names before anything is done for one.
fn parse(names: &[String]) -> Result<Vec<CachedName>, Failure> {
    let parse_one = |text: &String| {
        let name = match CachedName::parse(text) {
            name if CachedName::is_meant(text) => name,
            _ if Path::new(text).exists() => Err(NameFault::File),
            _ => Err(NameFault::NoPrefix),
        };
        name.map_err(|why| KernelError::Name { name: text.clone(), why })
    };
    Ok(names.iter().map(parse_one).collect::<Result<_, _>>()?)
}

fn get(names: &[String]) -> Result<(), Failure> {
    let names = parse(names)?;
    let cache = Cache::open()?;
    let missing = names.iter().filter(|name| !is_cached(&cache, name));
    let missing: Vec<&CachedName> = missing.collect();
    for name in names.iter().filter(|name| !missing.contains(name)) {
        print_kernel(name, &kernel::find(&name.to_string())?, &How::Already)?;
    }
    if missing.is_empty() {
        return Ok(());
    }
    let mut show = Show::new();
    let reach =
        if missing.iter().any(|name| name.is_old()) { Reach::Old } else { Reach::Supported };
    let never = AtomicBool::new(false);
    let mirror = Mirror::open(cache, reach, &never, &mut |step| show.step(&step));
    show.clear();
    let mirror = mirror?;
    let mut failed: Option<KernelError> = None;
    for name in missing {
        let got = mirror.get(name, &mut |step| show.step(&step));
        show.clear();
        match (got, &failed) {
            (Ok((kernel, how)), _) => print_kernel(name, &kernel, &how)?,
            (Err(error), None) => failed = Some(error),
            (Err(error), Some(_)) => {
                terminal::message(&Failure::from(error).to_string());
            }
        }
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// Whether an exact version is in the cache: the mirror has no newer one of it.
fn is_cached(cache: &Cache, name: &CachedName) -> bool {
    let newest = || cache.newest(name).ok().flatten();
    name.is_exact() && newest().is_some_and(|entry| entry.kernel().is_ok())
}

fn print_kernel(name: &CachedName, kernel: &Kernel, how: &How) -> Result<(), Failure> {
    let how = match how {
        How::Fetched => "fetched",
        How::Already => "is in the cache already",
        How::Repaired => "was damaged, fetched again",
    };
    let release = shortened(&kernel.release, MAX_WIDTH);
    let image = shortened(&kernel.image.to_string_lossy(), MAX_WIDTH);
    let exact = if kernel.name == name.to_string() {
        String::new()
    } else {
        format!(" is {}", kernel.name)
    };
    Ok(writeln!(io::stdout().lock(), "{name}{exact}: {how}: {release}, {image}")?)
}

fn print_removed(entries: &[Entry]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if entries.is_empty() {
        writeln!(out, "no kernel was cached")?;
    }
    for entry in entries {
        let name = entry.name();
        match &entry.identity {
            Identity::Package(package) => writeln!(out, "{name}: removed: {}", package.release())?,
            Identity::Built(_) => writeln!(out, "{name}: removed")?,
        }
    }
    Ok(())
}
