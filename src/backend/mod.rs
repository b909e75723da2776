//! The backends that make runs. Each has one file and one line in [`registry`].

mod cache_report;
mod contract;
#[cfg(test)]
mod dummy;
mod error;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod lab;
mod local;
mod null;

pub use cache_report::{AnswerDifference, CacheFault, CacheReport, UnusableAnswer};
pub use contract::{
    Backend, BackendConfig, Capabilities, Entry, GuestMachine, Mode, News, NotSaved, RunNews,
    SlowBoot,
};
pub use error::BackendError;
pub use lab::Lab;
pub use local::Local;
pub use null::Null;

pub fn registry() -> &'static [Entry] {
    &[
        local::ENTRY,
        lab::ENTRY,
        null::ENTRY,
        #[cfg(test)]
        dummy::ENTRY,
    ]
}

pub fn find(name: &str) -> Option<&'static Entry> {
    registry().iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::lab::tests::spec;
    use super::*;
    use crate::model::{Advice, Lab as LabTable, Outcome, PlanHead, RunEnd, Value};

    /// Uses only the registry, as the command line does.
    #[test]
    fn a_backend_that_is_registered_runs_cells() {
        let state = tempfile::tempdir().unwrap();
        let lab = LabTable { cpus: 3, ..LabTable::default() };
        let mode = Mode::default();
        let config =
            BackendConfig { state: Some(state.path()), lab: &lab, mode, shared_cache: None };
        let entry = find("dummy").expect("an entry");
        let mut backend = (entry.make)(&config).unwrap();
        let cpus = backend.environment().tunables["cpus"].clone();
        assert_eq!(cpus.known().as_deref(), Some("3"), "it was made from the config");
        let mut spec = spec("v", 1);
        backend.prepare(std::slice::from_ref(&spec.cell), true).unwrap();
        backend.check(&spec.cell).unwrap();
        let end = backend.run(&spec, &AtomicBool::new(false), &mut |_| ());
        let RunEnd::Finished(Outcome::Failed { reason }) = end else { panic!("{end:?}") };
        assert_eq!(reason, "dummy: v");
        spec.cell.variant.knobs.insert("nice".to_string(), Value::Int(1));
        assert_eq!(backend.check(&spec.cell).unwrap_err().reason(), "no knobs here");
    }

    #[test]
    fn names_are_unique_and_only_this_machine_is_changed() {
        for (at, entry) in registry().iter().enumerate() {
            assert!(std::ptr::eq(find(entry.name).unwrap(), &registry()[at]), "{}", entry.name);
            let Capabilities { virtual_time, own_kernels, guests, .. } = entry.capabilities;
            assert!(guests || !(virtual_time || own_kernels), "{}", entry.name);
        }
        let touching = registry().iter().filter(|entry| entry.capabilities.touches_machine);
        assert_eq!(touching.map(|entry| entry.name).collect::<Vec<_>>(), ["local"]);
    }

    /// Only plans of measuring backends may become `last`, and the model cannot ask the registry.
    #[test]
    fn the_model_knows_which_backends_measure() {
        let measuring = registry().iter().filter(|entry| !entry.capabilities.invents_figures);
        let names: Vec<&str> = measuring.map(|entry| entry.name).collect();
        assert_eq!(names, PlanHead::MEASURING);
    }
}
