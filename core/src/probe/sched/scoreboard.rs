//! Counting for a scoreboard: a session, and what it watches goes on whatever becomes of it. Reads /proc and /sys.

use crate::model::{DomainScore, Score, Watched};
use crate::sys::{Host, load, topology};

use super::{Counted, Domains, DomainsError, Opened, Session, SessionConfig, SourceError, open};

/// A session, or why there is none, with the counts of load balancing.
pub struct Scoreboard {
    session: Option<Box<dyn Session>>,
    source: Option<&'static str>,
    missed: Vec<(String, String)>,
    pub counted: Counted,
    domains_before: Option<Domains>,
    domains: Option<Result<Vec<DomainScore>, DomainsError>>,
}

impl Scoreboard {
    pub fn open(config: &SessionConfig, only: Option<&str>) -> Scoreboard {
        let (session, source, missed) = match open(config, only) {
            Ok(Opened { source, session, missed }) => (Some(session), Some(source), missed),
            Err(missed) => (None, None, missed),
        };
        let missed =
            missed.iter().map(|(source, error)| (source.to_string(), error.to_string())).collect();
        let (domains_before, domains) = (None, None);
        Scoreboard { session, source, missed, counted: Counted::default(), domains_before, domains }
    }

    pub fn is_counting(&self) -> bool {
        self.session.is_some()
    }

    pub fn source(&self) -> Option<&'static str> {
        self.source
    }

    /// Does something with the session; one that fails is given up, and the reason is kept.
    pub fn with<T>(
        &mut self,
        act: impl FnOnce(&mut dyn Session) -> Result<T, SourceError>,
    ) -> Option<T> {
        match act(self.session.as_mut()?.as_mut()) {
            Ok(done) => Some(done),
            Err(error) => {
                let source = self.source.take().unwrap_or_default();
                self.missed.push((source.to_string(), error.to_string()));
                self.session = None;
                None
            }
        }
    }

    pub fn begin(&mut self) {
        self.with(|session| session.begin());
        self.domains_before = Some(Domains::begin(Host::default()));
    }

    pub fn end(&mut self) {
        self.domains = self.domains_before.take().map(|before| before.end());
        if let Some(counted) = self.with(|session| session.end()) {
            self.counted = counted;
        }
        // One that has ended may still have been on its way out of its CPU.
        for task in self.counted.tasks.iter_mut().filter(|task| task.watched && task.tid > 0) {
            task.ended |= !load::is_alive(task.pid);
        }
    }

    /// Leaves out the counts of load balancing, and why there are none.
    pub fn without_domains(self) -> Scoreboard {
        Scoreboard { domains: None, ..self }
    }

    /// Without the cost of counting, and without a trace.
    pub fn score(self, watched: Watched) -> Score {
        let Counted { wall_ns, tasks, cpus, pairs, worst, mut lost, .. } = self.counted;
        let domains = match self.domains.transpose() {
            Ok(domains) => domains,
            Err(error) => {
                lost.push(error.to_string());
                None
            }
        };
        Score {
            source: self.source.map(str::to_string),
            missed: self.missed,
            watched,
            wall_ns,
            tasks,
            cpus,
            pairs,
            llcs: Some(topology::llcs()).filter(|llcs| !llcs.is_empty()),
            worst,
            domains,
            lost,
            cost: None,
        }
    }
}
