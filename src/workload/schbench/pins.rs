//! On which CPUs message threads and workers stay. Pure.

use crate::model::{AUTO, CpuSet, Params, Value};
use crate::workload::Pool;

use super::shape::{Shape, value};

/// Both lists are gone round by message thread; an empty one pins nobody.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// Of the message threads of all copies, in their order.
    message: Vec<CpuSet>,
    /// Of the workers of each.
    workers: Vec<CpuSet>,
}

/// What a plan says of one of the two.
enum Asked<'a> {
    Nothing,
    Auto,
    List(&'a CpuSet),
}

impl Pins {
    /// Where the pool is not known, all is believed and nothing is chosen.
    pub fn of(params: &Params, pool: &Pool, shape: &Shape) -> Result<Pins, String> {
        let message = asked(params, "message-cpus", pool)?;
        let workers = asked(params, "worker-cpus", pool)?;
        if value(params, "numa", Value::as_bool)? {
            return match (message, workers) {
                (Asked::Nothing, Asked::Nothing) => by_node(pool, shape),
                (Asked::List(cpus), _) => Err(not_with_numa("message-cpus", &cpus.to_string())),
                (Asked::Auto, _) => Err(not_with_numa("message-cpus", AUTO)),
                (_, Asked::List(cpus)) => Err(not_with_numa("worker-cpus", &cpus.to_string())),
                (_, Asked::Auto) => Err(not_with_numa("worker-cpus", AUTO)),
            };
        }
        let one_each = |cpus: &CpuSet| cpus.iter().map(|cpu| CpuSet::from_iter([cpu])).collect();
        let rest = |taken: &CpuSet| match pool.cpus.minus(taken) {
            _ if pool.cpus.is_empty() => Ok(Vec::new()),
            rest if rest.is_empty() => Err(format!(
                "the message threads take CPUs {taken}, and the pool has CPUs {}: none is left \
                 for the workers",
                pool.cpus
            )),
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

fn asked<'a>(params: &'a Params, name: &str, pool: &Pool) -> Result<Asked<'a>, String> {
    match params.get(name) {
        None => Ok(Asked::Nothing),
        Some(Value::Cpus(cpus)) => {
            let outside = cpus.minus(&pool.cpus);
            if pool.cpus.is_empty() || outside.is_empty() {
                return Ok(Asked::List(cpus));
            }
            Err(format!(
                "{name} = {cpus}: {outside} is not among the CPUs that workers may use, {}",
                pool.cpus
            ))
        }
        Some(_) => Ok(Asked::Auto),
    }
}

fn by_node(pool: &Pool, shape: &Shape) -> Result<Pins, String> {
    let nodes = &pool.nodes;
    if shape.groups < nodes.len() {
        let nodes: Vec<String> = nodes.iter().map(CpuSet::to_string).collect();
        return Err(format!(
            "message-threads = {} with numa: there are {} NUMA nodes (CPUs {}), and each has one \
             message thread at least",
            shape.groups,
            nodes.len(),
            nodes.join("; ")
        ));
    }
    Ok(Pins { message: nodes.clone(), workers: nodes.clone() })
}

fn not_with_numa(name: &str, cpus: &str) -> String {
    format!("numa chooses CPUs by node: {name} = {cpus} does not go with it")
}
