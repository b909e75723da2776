//! `schedlab run --install`: the packages of programs that a plan needs and this machine lacks.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::process::Command;

use crate::model::Cell;
use crate::session::SessionError;
use crate::sys::Host;
use crate::sys::packages::Distribution;
use crate::workload;

use super::terminal;

/// Asks, then installs what is missing; `is_dry`: says what would be installed.
pub fn install_missing(cells: &[Cell], is_dry: bool) -> Result<(), SessionError> {
    let Some(here) = Distribution::find(&Host::default()) else {
        if packages(cells, workload::DISTRIBUTIONS[0]).is_empty() {
            return Ok(());
        }
        let text = "--install knows no package manager for this distribution (/etc/os-release)";
        return Err(SessionError::here(text, "schedlab list workloads names Debian's packages"));
    };
    let packages = packages(cells, here.name);
    let command = here.command(&packages.into_iter().collect::<Vec<_>>().join(" "));
    match command.ends_with(' ') {
        true if is_dry => terminal::message("--install: nothing that has a package is missing"),
        true => {}
        false if is_dry => terminal::message(&format!("--install would execute: {command}")),
        false => install(here, &command)?,
    }
    Ok(())
}

fn install(here: &Distribution, command: &str) -> Result<(), SessionError> {
    if !io::stdin().is_terminal() {
        let text = "--install asks first, and nobody can answer here";
        return Err(SessionError::usage(text, command));
    }
    let agrees = terminal::agrees(&format!("{command} ?"))
        .map_err(|error| SessionError::here(format!("cannot ask: {error}"), command))?;
    if !agrees {
        return Err(SessionError::usage("nothing was installed", command));
    }
    let mut words = command.split(' ');
    let program = words.next().unwrap_or_default();
    let (install, packages): (Vec<&str>, Vec<&str>) = words.partition(|word| *word == here.install);
    match Command::new(program).args(install).arg(here.yes).args(packages).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(SessionError::here(format!("{program} ended with {status}"), command)),
        Err(error) => {
            Err(SessionError::here(format!("cannot execute {program}: {error}"), command))
        }
    }
}

/// Each once.
fn packages(cells: &[Cell], distribution: &str) -> BTreeSet<String> {
    let sets = cells.iter().flat_map(|cell| &cell.work.sets);
    let lacking = sets.filter(|set| {
        workload::find(&set.workload).is_some_and(|of| of.programs(&set.params).is_err())
    });
    let packages = lacking.filter_map(|set| workload::package(&set.params, distribution));
    packages
        .flat_map(|packages| packages.split_whitespace().map(str::to_string).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;

    #[test]
    fn packages_are_those_of_programs_that_are_missing() {
        let text = "schema = 1\n[[workload]]\nname = \"a\"\nuse = \"command\"\ncommand = \"no-such-a\"\n\
                    package = \"b a\"\n[[workload]]\nname = \"b\"\nuse = \"command\"\n\
                    command = \"true\"\npackage = \"c\"\n[[workload]]\nname = \"c\"\nuse = \"command\"\n\
                    command = \"no-such-c\"\npackage = { debian = \"a\", fedora = \"f g\" }\n[[workload]]\nuse = \"spin\"\n";
        let plan = plan::parse("p", text, None, Default::default()).unwrap();
        let cells = plan::cells(&plan);
        let of = |name| packages(&cells, name).into_iter().collect::<Vec<_>>();
        assert_eq!(
            (of("debian"), of("fedora"), of("arch")),
            (vec!["a".into(), "b".into()], vec!["f".into(), "g".into()], vec![])
        );
        let wrong = text.replace("fedora", "fedroa");
        let error = plan::parse("p", &wrong, None, Default::default()).unwrap_err().to_string();
        assert!(error.contains("unknown key `fedroa` in `package`"), "{error}");
    }
}
