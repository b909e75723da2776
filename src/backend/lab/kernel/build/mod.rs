//! Builds kernels for the lab: from Debian's sources or a tree, with patches, in a small
//! configuration; the result is a kernel of the cache.
//!
//! The user's tree is only read, and nothing outside the cache is written. How trees and objects
//! are kept between builds: slots.rs. Commands and errors: docs/kernel-build.md.

mod apply;
mod error;
mod failure;
pub mod history;
mod kconfig;
mod mail;
mod make;
mod message;
mod patch;
mod run;
mod series;
mod slots;
mod space;
mod sparse;
mod tools;
mod tree;
mod unread;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use make::Make;
use slots::{BaseOrigin, BaseRecord, Record, Slot, Slots, tree_of};
use sparse::Pristine;
use tree::Tree;

use super::cache::{CONFIG, Cache, IMAGE};
use super::config::{Configuration, Difference, Lost, Wanted, differences, merged};
use super::error::PackageFault;
use super::get::{Mirror, Reach, Step};
use super::name::{BuiltName, CachedName, Family, Name};
use super::shelf::Scratch;
use super::stamp::{self, AppliedPatch, Built, Provenance, Stamp};
use super::{Kernel, KernelError, bzimage, digest, version};
use crate::model::words;
use crate::sys;
use crate::sys::input;

pub use error::BuildError;
pub use failure::PatchNote;
pub use mail::MAX_BYTES as MAX_PATCH_BYTES;
pub use patch::Patch;
pub use series::{Series, choose as series};

/// The configuration that the lab asks of every kernel; [`Request::wishes`] are added to it.
pub const LAB_CONFIG: &str = include_str!("lab.config");

/// The sources that a kernel is built from.
#[derive(Clone, Debug, PartialEq)]
pub enum Base {
    /// The newest of these sources that is in the cache, else the newest on the mirror.
    Debian(Name),
    /// A folder with git: its files as they are now, or a revision.
    Tree { folder: PathBuf, revision: Option<String> },
}

#[derive(Clone, Debug)]
pub struct Request {
    pub base: Base,
    /// Applied in this order.
    pub patches: Vec<Patch>,
    pub wishes: Vec<Wanted>,
    pub name: BuiltName,
    pub jobs: usize,
    /// Whether base and patched kernel may differ in tick and preemption.
    pub allow_unlike: bool,
    /// Whether wishes may name symbols that these sources lack because a patch of another request brings them.
    pub allow_undefined: bool,
}

/// Progress.
#[derive(Debug, PartialEq)]
pub enum Event<'a> {
    Fetch(Step<'a>),
    /// Another process builds.
    Waiting,
    Stage(Stage),
    /// The patches fit.
    Fits(&'a [PatchNote]),
    /// Files of the user's tree that are in no commit.
    Changed {
        tree: &'a Path,
        files: usize,
    },
    /// Steps of `make`, of the stage that was announced last.
    Made {
        steps: u64,
        seconds: u64,
    },
}

words! {
    pub enum Stage {
        ReadingTree = "reading the tree",
        Unpacking = "unpacking the sources",
        Copying = "copying the base's tree and objects",
        Applying = "applying the patches",
        Configuring = "configuring",
        CompilingBase = "compiling the base",
        Compiling = "compiling",
    }
}

/// A kernel that was built.
#[derive(Debug)]
pub struct Outcome {
    pub kernel: Kernel,
    pub built: Built,
    pub findings: Findings,
}

/// Facts about a built kernel that a user should know.
#[derive(Debug, Default)]
pub struct Findings {
    pub patches: Vec<PatchNote>,
    /// Sources that the patches change but that are not compiled.
    pub unread: Vec<String>,
    /// Settings that the lab asked for and this kernel does not have.
    pub lost: Vec<Lost>,
    /// Differences between the base's configuration and this one; empty without patches.
    pub differences: Vec<Difference>,
}

/// The name of a kernel that is built to be tried: the same for the same sources and wishes.
pub fn trial_name(base: &Base, patches: &[Patch], wishes: &[Wanted]) -> BuiltName {
    let patches: Vec<&str> = patches.iter().map(|patch| patch.digest.as_str()).collect();
    let lines: String = wishes.iter().map(Wanted::line).collect();
    let digest = digest::of_bytes(format!("{base:?}\n{patches:?}\n{lines}").as_bytes());
    BuiltName::of_trial(&digest)
}

/// Builds a kernel and puts it into the cache under its name; an older one of this name is replaced. If the
/// base has no objects, they are compiled first, so that the next patch needs few.
pub fn build(
    cache: &Cache,
    request: &Request,
    stop: &AtomicBool,
    on: &mut dyn FnMut(Event),
) -> Result<Outcome, BuildError> {
    let is_package = matches!(request.base, Base::Debian(_));
    if let Some(missing) = tools::missing(is_package, tools::is_there) {
        return Err(BuildError::Missing(missing));
    }
    let slots = Slots::open(cache.builds(), stop, &mut || on(Event::Waiting))?;
    let wanted = merged(LAB_CONFIG, &request.wishes);
    let mut builder = Builder { cache, slots, request, wanted, stop, on, notes: Vec::new() };
    builder.space(space::LITTLE_BYTES)?;
    let outcome = builder.build()?;
    builder.slots.forget()?;
    Ok(outcome)
}

struct Builder<'a> {
    cache: &'a Cache,
    slots: Slots,
    request: &'a Request,
    wanted: Vec<Wanted>,
    stop: &'a AtomicBool,
    on: &'a mut dyn FnMut(Event),
    notes: Vec<PatchNote>,
}

impl Builder<'_> {
    fn build(&mut self) -> Result<Outcome, BuildError> {
        let base = self.base()?;
        if self.request.patches.is_empty() {
            let mut slot = self.slots.take(&base)?;
            let configuration = self.configure(&slot)?;
            let lost = self.lost(&slot, &configuration)?;
            self.compile(&mut slot, Stage::Compiling)?;
            return self.keep(&slot, Findings { lost, ..Findings::default() });
        }
        let (mut slot, mut findings) = self.patched(&base)?;
        if !slot.record.is_compiled && !self.is_compiled(&base)? {
            // The patch applies. Compile the base first: this build and later ones copy its objects.
            let record = slot.record.clone();
            drop(slot);
            self.slots.remove(&record)?;
            let mut slot_of_base = self.slots.take(&base)?;
            self.compile(&mut slot_of_base, Stage::CompilingBase)?;
            drop(slot_of_base);
            (slot, findings) = self.patched(&base)?;
        }
        self.compile(&mut slot, Stage::Compiling)?;
        let unread = unread::unread(&slot.tree(), &self.request.patches);
        findings.unread = unread.into_iter().map(str::to_string).collect();
        self.keep(&slot, findings)
    }

    fn stage(&mut self, stage: Stage) {
        (self.on)(Event::Stage(stage));
    }

    fn space(&self, need_bytes: u64) -> Result<(), BuildError> {
        let folder = self.slots.root().to_path_buf();
        let free_bytes = sys::free_bytes(&folder).map_err(KernelError::io("read", &folder))?;
        if free_bytes < need_bytes {
            Err(BuildError::NoSpace { folder, need_bytes, free_bytes })
        } else {
            Ok(())
        }
    }

    /// The slot of the base, configured.
    fn base(&mut self) -> Result<Record, BuildError> {
        let record = match &self.request.base {
            Base::Debian(name) => self.base_of_package(name)?,
            Base::Tree { folder, revision } => self.base_of_tree(folder, revision.as_deref())?,
        };
        let slot = self.slots.take(&record)?;
        if !slot.tree().join(make::CONFIG).is_file() {
            self.configure(&slot)?;
        }
        Ok(record)
    }

    /// Slots of bases without patches; those with the same configuration first.
    fn bases(&self, is_it: impl Fn(&BaseRecord) -> bool) -> Result<Vec<Record>, BuildError> {
        let mut all = self.slots.records()?;
        all.retain(|record| record.patches.is_empty() && is_it(&record.base));
        all.sort_by_key(|record| record.wanted != self.wanted);
        Ok(all)
    }

    fn base_of_package(&mut self, name: &Name) -> Result<Record, BuildError> {
        let version_of = |base: &BaseRecord| match &base.origin {
            BaseOrigin::Package(version) if name.matches(Family::Sources, version) => {
                Some(version.clone())
            }
            _ => None,
        };
        let known = self.bases(|base| version_of(base).is_some())?;
        let versions = known.iter().filter_map(|record| version_of(&record.base));
        let Some(newest) = versions.max_by(|a, b| version::compare(a, b)) else {
            return self.fetched(name);
        };
        let donor = known.into_iter().find(|one| version_of(&one.base).as_ref() == Some(&newest));
        let Some(donor) = donor else { return self.fetched(name) };
        self.check_on_slot(&donor)?;
        let record = Record::new(donor.base.clone(), Vec::new(), self.wanted.clone());
        if !self.slots.has(&record) {
            let scratch = self.copied(&donor)?;
            self.slots.put(&scratch, &record)?;
        }
        Ok(record)
    }

    /// Fetches the sources from the mirror.
    fn fetched(&mut self, name: &Name) -> Result<Record, BuildError> {
        let reach = if name.is_old() { Reach::Old } else { Reach::Supported };
        let cache = Cache::at(self.cache.root());
        let stop = self.stop;
        let mirror = Mirror::open(cache, reach, stop, &mut |step| (self.on)(Event::Fetch(step)))?;
        let sources = mirror.sources(name)?;
        self.space(space::of_package(sources.size_bytes, self.compiled_times()))?;
        let scratch = self.slots.scratch()?;
        let into = scratch.path().join("package");
        fs::create_dir(&into).map_err(KernelError::io("make the folder", &into))?;
        let on = &mut |step: Step| (self.on)(Event::Fetch(step));
        let archive = mirror.fetch_sources(&sources, &into, on)?;
        drop(mirror);
        self.stage(Stage::Unpacking);
        let mut tar = run::program("tar");
        tar.args(["--extract", "--strip-components=1", "--no-same-owner", "--file"]).arg(archive);
        tar.arg("--directory").arg(tree_of(scratch.path()));
        run::output(tar, "unpack the sources", self.stop)?;
        fs::remove_dir_all(&into).map_err(KernelError::io("remove", &into))?;
        let base = BaseRecord {
            name: Name::of_sources(&sources.version),
            digest: sources.sha256,
            origin: BaseOrigin::Package(sources.version),
        };
        let record = self.put_base(&scratch, base)?;
        self.check_on_slot(&record)?;
        Ok(record)
    }

    fn base_of_tree(
        &mut self,
        folder: &Path,
        revision: Option<&str>,
    ) -> Result<Record, BuildError> {
        self.stage(Stage::ReadingTree);
        let root = self.slots.root();
        let tree = Tree::read(folder, revision, root, &|bytes| self.space(bytes), self.stop)?;
        if tree.changed > 0 {
            (self.on)(Event::Changed { tree: &tree.folder, files: tree.changed });
        }
        let origin = BaseOrigin::Tree(tree.folder.clone());
        let base = BaseRecord { name: tree.name.clone(), digest: tree.id.clone(), origin };
        let record = Record::new(base.clone(), Vec::new(), self.wanted.clone());
        self.check(&tree.name, &Pristine::Tree(&tree))?;
        if self.slots.has(&record) {
            return Ok(record);
        }
        let donor = self.bases(|other| other.origin == base.origin)?.into_iter().next();
        let scratch = match donor {
            Some(donor) => self.copied(&donor)?,
            None => {
                let objects_bytes = self.compiled_times() * space::OBJECTS_BYTES;
                self.space(tree.bytes(self.stop)? + objects_bytes)?;
                self.slots.scratch()?
            }
        };
        tree.write(scratch.path(), self.stop)?;
        self.put_base(&scratch, base)
    }

    fn check_on_slot(&mut self, base: &Record) -> Result<(), BuildError> {
        let tree = self.slots.tree(base);
        self.check(&base.base.name, &Pristine::Folder(tree))
    }

    /// Applies the patches to the files that they name, before anything is copied or compiled.
    fn check(&mut self, base: &str, sources: &Pristine) -> Result<(), BuildError> {
        let patches = &self.request.patches;
        if patches.is_empty() {
            return Ok(());
        }
        (self.on)(Event::Stage(Stage::Applying));
        let scratch = self.slots.scratch()?;
        let tree = tree_of(scratch.path());
        sources.extract(&sparse::names(patches), &tree, self.stop)?;
        let mut notes = Vec::new();
        for patch in patches {
            if let Some(made_for) = &patch.made_for
                && !sources.is_commit(&made_for.commit, self.stop)?
            {
                let (patch, base) = (patch.name.clone(), base.to_string());
                notes.push(PatchNote::OtherBase { patch, made_for: made_for.clone(), base });
            }
            notes.extend(apply::apply(patch, base, &tree, scratch.path(), self.stop)?);
        }
        (self.on)(Event::Fits(&notes));
        self.notes = notes;
        Ok(())
    }

    /// Number of full compilations if there are no objects yet.
    fn compiled_times(&self) -> u64 {
        if self.request.patches.is_empty() { 1 } else { 2 }
    }

    /// Copies a slot into a new folder.
    fn copied(&mut self, donor: &Record) -> Result<Scratch, BuildError> {
        self.stage(Stage::Copying);
        self.space(self.slots.copy_bytes(donor) + space::LITTLE_BYTES)?;
        let scratch = self.slots.scratch()?;
        self.slots.copy(donor, &scratch, self.stop)?;
        Ok(scratch)
    }

    fn put_base(&self, scratch: &Scratch, base: BaseRecord) -> Result<Record, BuildError> {
        let record = Record::new(base, Vec::new(), self.wanted.clone());
        self.slots.put(scratch, &record)?;
        Ok(record)
    }

    fn is_compiled(&self, base: &Record) -> Result<bool, BuildError> {
        Ok(self.slots.records()?.iter().any(|one| {
            one.base == base.base
                && one.wanted == base.wanted
                && one.patches.is_empty()
                && one.is_compiled
        }))
    }

    /// The configured slot with the patches, and the findings about them.
    fn patched(&mut self, base: &Record) -> Result<(Slot, Findings), BuildError> {
        let patches = self.request.patches.iter();
        let patches = patches
            .map(|patch| AppliedPatch { name: patch.name.clone(), digest: patch.digest.clone() });
        let record = Record::new(base.base.clone(), patches.collect(), self.wanted.clone());
        if !self.slots.has(&record) {
            self.apply(base, &record)?;
        }
        let of_base = {
            let slot = self.slots.take(base)?;
            Configuration::parse(&text_of(&slot.tree().join(make::CONFIG))?)
        };
        let slot = self.slots.take(&record)?;
        let checked = self.configure(&slot).and_then(|configuration| {
            let lost = self.lost(&slot, &configuration)?;
            let differences = differences(&of_base, &configuration);
            let unlike = differences.iter().filter(|one| one.is_unlike()).cloned();
            let unlike: Vec<Difference> = unlike.collect();
            match unlike.is_empty() || self.request.allow_unlike {
                true => Ok(Findings {
                    patches: self.notes.clone(),
                    lost,
                    differences,
                    ..Findings::default()
                }),
                false => Err(BuildError::Unlike(unlike)),
            }
        });
        Ok((slot, checked?))
    }

    fn apply(&mut self, base: &Record, record: &Record) -> Result<(), BuildError> {
        let scratch = self.copied(base)?;
        self.stage(Stage::Applying);
        for patch in &self.request.patches {
            let tree = tree_of(scratch.path());
            apply::apply(patch, &base.base.name, &tree, scratch.path(), self.stop)?;
        }
        Ok(self.slots.put(&scratch, record)?)
    }

    fn configure(&mut self, slot: &Slot) -> Result<Configuration, BuildError> {
        self.stage(Stage::Configuring);
        let (tree, wanted) = (slot.tree(), slot.path("wanted.config"));
        let lines: String = self.wanted.iter().map(Wanted::line).collect();
        fs::write(&wanted, lines).map_err(KernelError::io("write", &wanted))?;
        let objects = tree.join(make::OBJECTS);
        fs::create_dir_all(&objects).map_err(KernelError::io("make the folder", &objects))?;
        let log = slot.path("configure.log");
        let what = format!("the configuration of {}", slot.record.base.name);
        let make = Make { tree: &tree, log: &log, jobs: self.request.jobs, stop: self.stop };
        make.configure(&wanted, &what)?;
        Ok(Configuration::parse(&text_of(&tree.join(make::CONFIG))?))
    }

    /// The settings that the lab asked for and did not get. An error if the user asked for one of them.
    fn lost(&self, slot: &Slot, configuration: &Configuration) -> Result<Vec<Lost>, BuildError> {
        let is_wish = |lost: &Lost| self.request.wishes.contains(&lost.wanted);
        let (wishes, own): (Vec<Lost>, Vec<Lost>) =
            configuration.lost(&self.wanted).into_iter().partition(is_wish);
        if wishes.is_empty() {
            return Ok(own);
        }
        let defined = kconfig::defined(&slot.tree())?;
        let wishes = wishes.into_iter().map(|lost| {
            let bare = lost.wanted.symbol.trim_start_matches("CONFIG_");
            let is_defined = defined.contains(bare);
            error::LostWish { lost, is_defined }
        });
        let wrong: Vec<error::LostWish> =
            wishes.filter(|wish| wish.is_defined || !self.request.allow_undefined).collect();
        if wrong.is_empty() { Ok(own) } else { Err(BuildError::Lost(wrong)) }
    }

    fn compile(&mut self, slot: &mut Slot, stage: Stage) -> Result<(), BuildError> {
        self.stage(stage);
        let (tree, log) = (slot.tree(), slot.path("build.log"));
        let made_bytes = space::of_copy(&tree.join(make::OBJECTS));
        self.space(space::OBJECTS_BYTES.saturating_sub(made_bytes).max(space::LITTLE_BYTES))?;
        let Record { base, patches, .. } = &slot.record;
        let what = match patches.len() {
            0 => base.name.clone(),
            1 => format!("{} with {}", base.name, patches[0].name),
            more => format!("{} with {more} patches", base.name),
        };
        let (began, mut steps) = (Instant::now(), 0);
        let (request, stop, on) = (self.request, self.stop, &mut *self.on);
        let make = Make { tree: &tree, log: &log, jobs: request.jobs, stop };
        slot.compiling(|alive| {
            make.image(&what, &mut || {
                alive();
                steps += 1;
                on(Event::Made { steps, seconds: began.elapsed().as_secs() });
            })
        })
    }

    /// Puts the kernel into the cache.
    fn keep(&mut self, slot: &Slot, findings: Findings) -> Result<Outcome, BuildError> {
        let held = self.cache.shelf().lock(self.stop, &mut || (self.on)(Event::Waiting))?;
        let scratch = self.cache.shelf().scratch(&held)?;
        let new = scratch.path().join("kernel");
        fs::create_dir(&new).map_err(KernelError::io("make the folder", &new))?;
        for (from, to) in [(make::IMAGE, IMAGE), (make::CONFIG, CONFIG)] {
            let from = slot.tree().join(from);
            fs::copy(&from, new.join(to)).map_err(KernelError::io("copy", &from))?;
        }
        let release = bzimage::read(&new.join(IMAGE))?.release;
        let Record { base, patches, .. } = &slot.record;
        let built = Built {
            base: base.name.clone(),
            base_digest: base.digest.clone(),
            patches: patches.clone(),
            wishes: self.request.wishes.clone(),
            config_digest: digest::of_file(&new.join(CONFIG))?,
            built_at: stamp::now(),
        };
        let name = self.request.name.to_string();
        let origin = Provenance::Built { built: built.clone() };
        Stamp::write(&new, name.clone(), release, None, origin)?;
        self.cache.shelf().put(&new, &self.cache.built_folder(&self.request.name), &held)?;
        let kept = self.cache.newest(&CachedName::Built(self.request.name.clone()))?;
        let gone = || KernelError::Package { package: name, why: PackageFault::NotKept };
        let kernel = kept.ok_or_else(gone)?.kernel()?;
        Ok(Outcome { kernel, built, findings })
    }
}

fn text_of(path: &Path) -> Result<String, KernelError> {
    let bytes =
        input::read_file(path, input::MAX_OWN_FILE_BYTES).map_err(KernelError::io("read", path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
