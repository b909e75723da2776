//! A backend only for tests: it shows that a registered backend can be used without further changes.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use crate::model::{Cell, Environment, Outcome, Reading, RunEnd, RunSpec};

use super::{Backend, BackendError, Capabilities, Entry, News, Null};

pub const ENTRY: Entry = Entry {
    name: "dummy",
    about: "fails each run with the name of its cell",
    capabilities: Capabilities { invents_figures: true, ..Capabilities::NONE },
    make: |config| Ok(Box::new(Dummy { cpus: config.lab.cpus })),
};

struct Dummy {
    cpus: u32,
}

impl Backend for Dummy {
    fn environment(&self) -> Environment {
        let cpus = Reading::Known(self.cpus.to_string());
        let tunables = BTreeMap::from([("cpus".to_string(), cpus)]);
        Environment { tunables, ..Null::default().environment() }
    }

    fn check(&self, cell: &Cell) -> Result<(), BackendError> {
        if cell.variant.knobs.is_empty() {
            Ok(())
        } else {
            Err(BackendError::Unsupported("no knobs here".into()))
        }
    }

    fn run(&mut self, spec: &RunSpec, _: &AtomicBool, _: &mut News) -> RunEnd {
        RunEnd::Finished(Outcome::Failed { reason: format!("dummy: {}", spec.cell.variant.name) })
    }
}
