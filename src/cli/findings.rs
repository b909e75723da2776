//! The findings of `schedlab test --findings`: which are asked for, and whether their kernels are there.

use std::collections::BTreeSet;

use crate::backend;
use crate::backend::lab::kernel;
use crate::model::Plan;
use crate::plan;

use super::{Failure, describe};

/// A finding by its name, and its plan.
pub type Named = (&'static str, Plan);

/// The findings of these names, or all.
pub fn named(names: &[String]) -> Result<Vec<Named>, Failure> {
    let all = plan::findings();
    let known = || all.iter().map(|finding| finding.name);
    if let Some(name) = names.iter().find(|name| !known().any(|known| known == **name)) {
        return Err(Failure::unknown("finding", name, known(), "schedlab list findings"));
    }
    let asked =
        all.iter().filter(|of| names.is_empty() || names.iter().any(|name| name == of.name));
    asked.map(|of| Ok((of.name, describe::parsed(of)?))).collect()
}

/// An error that names all kernels that have to be fetched first.
pub fn check_kernels<'a>(findings: &'a [Named], backend: &str) -> Result<(), Failure> {
    let has = backend::find(backend).map(|entry| entry.capabilities);
    if has.is_some_and(|has| has.touches_machine) && !findings.is_empty() {
        let text = format!("findings name their kernels, and `{backend}` has the one that runs");
        return Err(Failure::usage(text, "leave --backend out: they run in the lab"));
    }
    if !has.is_some_and(|has| has.own_kernels) {
        return Ok(());
    }
    kernel::check_host()?;
    let of_plan = |plan: &'a Plan| plan.variants.iter().map(|variant| variant.kernel_in(&plan.lab));
    let kernels: BTreeSet<&str> = findings.iter().flat_map(|(_, plan)| of_plan(plan)).collect();
    let missing = kernel::missing(kernels)?;
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    Err(Failure::here(
        format!("kernels of these findings are not in the cache: {names}"),
        format!("schedlab kernel get {names}"),
    ))
}
