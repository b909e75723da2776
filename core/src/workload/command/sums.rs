//! The times and counts of a worker's executions, summed. Pure.

use crate::sys::command::Executed;

/// Sums over a worker's executions.
#[derive(Default)]
pub struct Sums {
    pub executions: u64,
    wall_ns: u64,
    /// The time of the shortest execution; `max_ns`: of the longest.
    min_ns: u64,
    max_ns: u64,
    user_ns: u64,
    system_ns: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    /// The sums of the values found in the output.
    values: Vec<f64>,
}

impl Sums {
    /// The sums of no execution, with `values` metrics of the output.
    pub fn none(values: usize) -> Sums {
        Sums { min_ns: u64::MAX, values: vec![0.0; values], ..Sums::default() }
    }

    pub fn from_execution(executed: &Executed, values: Vec<f64>) -> Sums {
        let Executed { ending: _, wall_ns, user_ns, system_ns, .. } = *executed;
        let Executed { voluntary_switches, involuntary_switches, .. } = *executed;
        let (min_ns, max_ns) = (wall_ns, wall_ns);
        Sums {
            executions: 1,
            wall_ns,
            min_ns,
            max_ns,
            user_ns,
            system_ns,
            voluntary_switches,
            involuntary_switches,
            values,
        }
    }

    pub fn add(&mut self, other: &Sums) {
        self.executions += other.executions;
        self.wall_ns += other.wall_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.values.iter_mut().zip(&other.values).for_each(|(sum, value)| *sum += value);
    }

    /// The readings in the order of [`super::kinds`].
    pub fn readings(&self) -> Vec<f64> {
        let of_one = |sum: u64| sum as f64 / self.executions as f64;
        let per_s = |count: u64| count as f64 * 1e9 / self.wall_ns as f64;
        let own = self.values.iter().map(|sum| sum / self.executions as f64);
        own.chain([
            of_one(self.wall_ns),
            self.min_ns as f64,
            self.max_ns as f64,
            of_one(self.user_ns),
            of_one(self.system_ns),
            (self.user_ns + self.system_ns) as f64 / self.wall_ns as f64,
            per_s(self.voluntary_switches),
            per_s(self.involuntary_switches),
            self.executions as f64,
        ])
        .collect()
    }
}
