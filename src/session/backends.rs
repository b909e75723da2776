//! The backend of a session: made for what was asked, on a machine that is as it was before any killed schedlab.

use std::collections::BTreeSet;

use crate::backend::{self, Backend, BackendConfig, Mode};
use crate::model::{Lab, LabModel, Plan, PlanStarted, SharedCache, clean};
use crate::sys::{self, Host, abandoned};
use crate::variant;

use super::request::Request;
use super::{
    Database, Leftover, Notice, PlanText, SessionError, machine, shared_cache, unknown_name,
};

/// The entry of a backend in the registry.
pub fn entry(name: &str) -> Result<&'static backend::Entry, SessionError> {
    backend::find(name).ok_or_else(|| {
        let names = backend::registry().iter().map(|entry| entry.name);
        SessionError::Usage(unknown_name("backend", name, names, "schedlab list backends"))
    })
}

/// Whether its time is not the host's.
pub fn is_virtual(started: &PlanStarted) -> Result<bool, SessionError> {
    Ok(entry(&started.backend)?.capabilities.virtual_time && !started.plan.lab.realtime)
}

/// Makes a backend. If it will make runs, the machine is as it was before any killed schedlab; else nothing is
/// changed, and no folder of the user's is needed.
pub fn make_backend(
    name: &str,
    lab: &Lab,
    mode: Mode,
    shared_cache: Option<&SharedCache>,
    will_run: bool,
    db: &Database,
) -> Result<Box<dyn Backend>, SessionError> {
    let entry = entry(name)?;
    if will_run && entry.capabilities.touches_machine {
        undo_leftovers()?.iter().for_each(|undone| db.notify(&Notice::Undone(undone)));
    }
    let state = if will_run { Some(sys::state_dir()?) } else { None };
    let mode = Mode { realtime: lab.realtime, ..mode };
    Ok((entry.make)(&BackendConfig { state: state.as_deref(), lab, mode, shared_cache })?)
}

/// Undoes the changes of processes that are dead, and ends what they started.
pub fn undo_leftovers() -> Result<Vec<Leftover>, SessionError> {
    let restored = variant::restore(&sys::state_dir()?, &Host::default())
        .map_err(|error| SessionError::Here(error.to_string().into()))?;
    let ended = abandoned::end().into_iter().map(|(name, pid)| Leftover::Process { name, pid });
    Ok(restored.into_iter().map(Leftover::Change).chain(ended).collect())
}

/// With the shared cache that is asked for, where there are answers that can be shared.
pub(super) fn requested_backend(
    request: &Request,
    name: &str,
    lab: &Lab,
    will_run: bool,
) -> Result<Box<dyn Backend>, SessionError> {
    let shares = entry(name)?.capabilities.guests && !lab.realtime;
    let asked = request.lab.cache.as_deref();
    let cache = if shares { shared_cache::requested(asked)? } else { None };
    // Only what runs may cost the time of a slow one.
    let cache = cache.as_ref().filter(|_| will_run);
    make_backend(name, lab, request.lab.mode, cache, will_run, &request.db)
}

/// The guests of a plan for the lab; elsewhere the plan's own will do.
pub(super) fn requested_lab(request: &Request, plan: &PlanText) -> Result<Lab, SessionError> {
    let asked = &request.lab;
    if !entry(request.backend())?.capabilities.guests {
        return if asked.is_given() {
            Err(SessionError::usage(
                format!(
                    "--kernel, --kernel-args, --machine, --realtime, --verify, --again and --cache \
                     are for the lab, not for `{}`",
                    clean(request.backend())
                ),
                "--backend lab",
            ))
        } else {
            Ok(Lab::default())
        };
    }
    let machine = asked.machine.as_deref();
    let mut lab =
        machine::lab_of_plan(&plan.name, &plan.text, machine, request.dry_run, &request.db)?;
    if let Some(kernel) = &asked.kernel {
        lab.kernel.clone_from(kernel);
    }
    if let Some(words) = &asked.kernel_args {
        lab.kernel_args.clone_from(words);
    }
    lab.realtime = asked.mode.realtime;
    if lab.realtime {
        lab.model = LabModel::default();
    }
    Ok(lab)
}

/// The machine of guests, with a notice where it is less than what was asked for.
pub(super) fn guest_lab(backend: &dyn Backend, db: &Database) -> Option<Lab> {
    let (lab, why) = backend.guests()?;
    if let Some(why) = &why {
        db.notify(&Notice::SharedClock { instruction_ns: lab.instruction_ns(), why });
    }
    Some(lab)
}

/// The kernels of a plan's guests: by them comparisons distinguish plans.
pub(super) fn guest_kernels(plan: &Plan) -> String {
    let kernels = plan.variants.iter().map(|variant| variant.kernel_in(&plan.lab));
    kernels.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
}

/// Fails where no variant takes the kernel of `--kernel`, as each names one.
pub(super) fn check_kernel(asked: Option<&str>, plan: &Plan) -> Result<(), SessionError> {
    let Some(asked) = asked else { return Ok(()) };
    if !plan.variants.iter().all(|variant| variant.knobs.contains_key("kernel")) {
        return Ok(());
    }
    let text = format!(
        "--kernel {}: no variant would have it, as each names a kernel of its own: {}",
        clean(asked),
        clean(&guest_kernels(plan))
    );
    Err(SessionError::usage(
        text,
        "leave --kernel out, or take `kernel` from a variant: schedlab run PLAN --print",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;

    #[test]
    fn a_kernel_that_no_variant_takes_is_refused() {
        let check = |variants: &str| {
            let text = format!("schema = 1\n[[workload]]\nuse = \"spin\"\n{variants}");
            check_kernel(
                Some("./x"),
                &plan::parse("x", &text, None, super::super::known()).unwrap(),
            )
        };
        let (own, other) =
            ("[[variant]]\nkernel = \"debian:6.1\"\nname = \"a\"\n", "[[variant]]\nname = \"b\"\n");
        assert!(check(&format!("{own}{other}")).is_ok() && check("").is_ok());
        let refused = check(own).unwrap_err();
        assert!(refused.is_usage() && refused.to_string().contains("debian:6.1"), "{refused}");
    }
}
