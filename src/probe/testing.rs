//! A probe for tests: everything about it follows from its line in the registry.

use std::collections::BTreeMap;

use crate::model::{Metric, NamedHistogram, ProbeMetric, ProbeSpec, Reading, Statistic};

use super::{Probe, Recording, Role};

pub struct Dummy(ProbeSpec);

pub static DUMMY: Dummy = Dummy(ProbeSpec {
    name: "dummy",
    about: "how often it was polled",
    needs: "nothing",
    metrics: &[ProbeMetric::rate("polls", "windows that ended", Statistic::Count)],
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

    fn open(&'static self, _workers: &[i32]) -> Box<dyn Recording> {
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
        let metric = |role: &Role| {
            let role = names.get(role.thread).unwrap_or(&role.thread);
            DUMMY.0.metrics[0].kind(role).reading(Reading::Known(f64::from(self.count)))
        };
        (roles.iter().map(metric).collect(), Vec::new())
    }
}
