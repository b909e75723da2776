//! On which CPUs message threads and workers stay. Pure.

use crate::model::{AUTO, CpuSet, Params, Value};
use crate::workload::params::flag;
use crate::workload::{Pool, WorkloadError};

use super::shape::Shape;

/// Message thread n takes entry n modulo the length; an empty list pins none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// For the message threads of all copies, in order.
    message: Vec<CpuSet>,
    /// The CPUs for the workers of each message thread.
    workers: Vec<CpuSet>,
}

/// The plan's value of `message-cpus` or `worker-cpus`.
enum Asked<'a> {
    Nothing,
    Auto,
    List(&'a CpuSet),
}

impl Pins {
    /// Without a known pool every list is accepted and nothing is chosen.
    pub fn choose(params: &Params, pool: &Pool, shape: &Shape) -> Result<Pins, WorkloadError> {
        let message = asked(params, "message-cpus", pool)?;
        let workers = asked(params, "worker-cpus", pool)?;
        if flag(params, "numa")? {
            return match (message, workers) {
                (Asked::Nothing, Asked::Nothing) => by_node(pool, shape),
                (Asked::List(cpus), _) => Err(not_with_numa("message-cpus", &cpus.to_string())),
                (Asked::Auto, _) => Err(not_with_numa("message-cpus", AUTO)),
                (_, Asked::List(cpus)) => Err(not_with_numa("worker-cpus", &cpus.to_string())),
                (_, Asked::Auto) => Err(not_with_numa("worker-cpus", AUTO)),
            };
        }
        let one_each = |cpus: &CpuSet| cpus.iter().map(|cpu| CpuSet::from_iter([cpu])).collect();
        let key = if matches!(message, Asked::Nothing) { "worker-cpus" } else { "message-cpus" };
        let rest = |taken: &CpuSet| match pool.cpus.minus(taken) {
            _ if pool.cpus.is_empty() => Ok(Vec::new()),
            rest if rest.is_empty() => Err(WorkloadError::conflict(
                format!(
                    "the message threads take CPUs {taken}, and the pool has CPUs {}: none is \
                     left for the workers",
                    pool.cpus
                ),
                "fewer message-threads, or more CPUs for the plan".to_string(),
            )
            .at(key)),
            rest => Ok(vec![rest]),
        };
        let listed = |cpus: &CpuSet| vec![cpus.clone()];
        Ok(match (message, workers) {
            (Asked::Nothing, Asked::Nothing) => Pins::default(),
            (Asked::List(message), Asked::Nothing) => {
                Pins { message: one_each(message), workers: Vec::new() }
            }
            (Asked::Nothing, Asked::List(workers)) => {
                // As in schbench, where a message thread begins with its workers' CPUs.
                Pins { message: listed(workers), workers: listed(workers) }
            }
            (Asked::List(message), Asked::List(workers)) => {
                Pins { message: one_each(message), workers: listed(workers) }
            }
            (Asked::List(message), Asked::Auto) => {
                Pins { message: one_each(message), workers: rest(message)? }
            }
            (Asked::Auto, Asked::List(workers)) => {
                Pins { message: one_each(&pool.cpus), workers: listed(workers) }
            }
            (Asked::Auto, Asked::Auto | Asked::Nothing) | (Asked::Nothing, Asked::Auto) => {
                let taken: CpuSet = pool.cpus.iter().take(shape.copies * shape.groups).collect();
                Pins { message: one_each(&taken), workers: rest(&taken)? }
            }
        })
    }

    /// `group`: the number of a message thread among those of all copies.
    pub fn message(&self, group: usize) -> Option<&CpuSet> {
        round(&self.message, group)
    }

    pub fn worker(&self, group: usize) -> Option<&CpuSet> {
        round(&self.workers, group)
    }
}

fn round(sets: &[CpuSet], group: usize) -> Option<&CpuSet> {
    sets.get(group % sets.len().max(1))
}

fn asked<'a>(
    params: &'a Params,
    name: &'static str,
    pool: &Pool,
) -> Result<Asked<'a>, WorkloadError> {
    match params.get(name) {
        None => Ok(Asked::Nothing),
        Some(Value::Cpus(cpus)) => {
            let outside = cpus.minus(&pool.cpus);
            if pool.cpus.is_empty() || outside.is_empty() {
                return Ok(Asked::List(cpus));
            }
            let problem = format!(
                "needs CPUs {outside}, which are not among those of the pool, {}",
                pool.cpus
            );
            let hint = "choose among the CPUs of the plan's placement";
            Err(WorkloadError::Param { param: name, value: cpus.to_string(), problem, hint })
        }
        Some(_) => Ok(Asked::Auto),
    }
}

fn by_node(pool: &Pool, shape: &Shape) -> Result<Pins, WorkloadError> {
    let nodes = &pool.nodes;
    if shape.groups < nodes.len() {
        let (count, nodes): (usize, Vec<String>) =
            (nodes.len(), nodes.iter().map(CpuSet::to_string).collect());
        return Err(WorkloadError::conflict(
            format!(
                "message-threads = {} with numa: there are {count} NUMA nodes (CPUs {}), and each \
                 needs a message thread",
                shape.groups,
                nodes.join("; ")
            ),
            format!("message-threads = {count}"),
        )
        .at("message-threads"));
    }
    Ok(Pins { message: nodes.clone(), workers: nodes.clone() })
}

fn not_with_numa(name: &str, cpus: &str) -> WorkloadError {
    WorkloadError::conflict(
        format!("numa chooses CPUs by node: {name} = {cpus} does not go with it"),
        format!("leave out numa or {name}"),
    )
    .at(name)
}
