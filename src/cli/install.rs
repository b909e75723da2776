//! `schedlab run --install`: the packages of programs that a plan needs and this machine lacks.

use std::collections::BTreeSet;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::Command;

use crate::model::Cell;
use crate::workload;

use super::Failure;

/// Asks, then installs. Nothing is missing: nothing is done.
pub fn missing(cells: &[Cell]) -> Result<(), Failure> {
    let packages = packages(cells);
    if packages.is_empty() {
        return Ok(());
    }
    let words: Vec<&str> = ["install"].into_iter().chain(packages).collect();
    let command = format!("apt-get {}", words.join(" "));
    if !io::stdin().is_terminal() {
        let text = "--install asks first, and nobody can answer here";
        return Err(Failure::usage(text, command));
    }
    write!(io::stderr().lock(), "{command} ? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if !["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        return Err(Failure::usage("nothing was installed", command));
    }
    let status = Command::new("apt-get").arg("-y").args(&words).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::here(format!("apt-get ended with {status}"), command)),
        Err(error) => Err(Failure::here(format!("cannot execute apt-get: {error}"), command)),
    }
}

/// Each once.
fn packages(cells: &[Cell]) -> BTreeSet<&str> {
    let sets = cells.iter().flat_map(|cell| &cell.work.sets);
    let lacking = sets.filter(|set| {
        workload::find(&set.workload).is_some_and(|of| of.programs(&set.params).is_err())
    });
    lacking
        .filter_map(|set| workload::package(&set.params))
        .flat_map(str::split_whitespace)
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
                    command = \"no-such-c\"\npackage = \"a\"\n[[workload]]\nuse = \"spin\"\n";
        let plan = plan::parse("p", text, None, Default::default()).unwrap();
        let cells = plan::cells(&plan);
        assert_eq!(packages(&cells).into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}
