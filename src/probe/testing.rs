//! A probe for tests: everything about it follows from its line in the registry.

use std::collections::BTreeMap;

use crate::model::{Direction, Metric, NamedHistogram, ProbeMetric, ProbeSpec, Reading, Unit};

use super::{Probe, Recording, Role};

pub struct Dummy(ProbeSpec);

pub static DUMMY: Dummy = Dummy(ProbeSpec {
    name: "dummy",
    about: "how often it was polled",
    needs: "nothing",
    metrics: &[ProbeMetric {
        name: "polls",
        unit: Unit::Count,
        about: "windows that ended",
        by_partner: false,
    }],
});

#[derive(Default)]
struct Polls {
    is_open: bool,
    count: u32,
}

impl Probe for Dummy {
    fn spec(&self) -> &ProbeSpec {
        &self.0
    }

    fn open(&'static self, _workers: usize) -> Box<dyn Recording> {
        Box::new(Polls::default())
    }
}

impl Recording for Polls {
    fn begin(&mut self) {
        self.is_open = true;
    }

    fn poll(&mut self) {
        self.count += u32::from(self.is_open);
    }

    fn end(&mut self) {
        self.is_open = false;
    }

    fn measured(
        &self,
        roles: &[Role],
        names: &BTreeMap<&str, &str>,
    ) -> (Vec<Metric>, Vec<NamedHistogram>) {
        let metric = |role: &Role| Metric {
            name: format!("{}_polls", names.get(role.thread).unwrap_or(&role.thread)),
            unit: Unit::Count,
            direction: Direction::Neutral,
            value: Reading::Known(f64::from(self.count)),
        };
        (roles.iter().map(metric).collect(), Vec::new())
    }
}
