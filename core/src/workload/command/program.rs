//! The programs of a set: found before anything starts, executed, and served.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::model::{Params, Value, clean};
use crate::sys::command::{self, Account, Executed, Server, User};
use crate::sys::fork::Ending;
use crate::sys::host::error_text;
use crate::sys::packages::Distribution;
pub use crate::sys::packages::NAMES as DISTRIBUTIONS;
use crate::sys::{Host, input};
use crate::workload::WorkloadError;

use super::words::{Places, written};

/// One of the programs of a set, as the plan writes it.
pub struct Program {
    /// The name of its parameter.
    pub param: &'static str,
    words: Vec<String>,
}

/// The surroundings that all programs of a set share.
pub struct Surroundings {
    /// Folders next to those of `PATH`, in which a program may be.
    folders: Vec<String>,
    /// `NAME=VALUE`.
    environment: Vec<String>,
    /// `None`: schedlab's own user.
    account: Option<Account>,
    /// A user was named: whether or not it is another one, programs are executed in their own folder.
    pub in_own_folder: bool,
}

impl Surroundings {
    pub fn new(params: &Params) -> Result<Surroundings, WorkloadError> {
        let environment = written(params, "environment").unwrap_or_default();
        if let Some(wrong) = environment.iter().find(|pair| !pair.contains('=')) {
            let problem = format!("environment `{}` is not NAME=VALUE", clean(wrong));
            let hint = "OMP_NUM_THREADS={threads}".to_string();
            return Err(WorkloadError::conflict(problem, hint).at("environment"));
        }
        let name = params.get("user").and_then(Value::as_text);
        let account = name.map(find_account).transpose()?;
        Ok(Surroundings {
            folders: written(params, "folders").unwrap_or_default(),
            environment,
            in_own_folder: account.is_some(),
            account: account.filter(|_| command::is_root()),
        })
    }

    pub fn user(&self) -> Option<User> {
        self.account.as_ref().map(|account| account.user)
    }
}

fn find_account(name: &str) -> Result<Account, WorkloadError> {
    let passwd =
        input::read_text_file("/etc/passwd", input::MAX_OWN_FILE_BYTES).unwrap_or_default();
    Account::find(name, &passwd).ok_or_else(|| {
        let problem = format!("there is no user `{}` in /etc/passwd", clean(name));
        WorkloadError::conflict(problem, "user = \"nobody\", or leave it out".to_string())
    })
}

impl Program {
    /// `None`: the set has no such program.
    pub fn from_param(
        params: &Params,
        param: &'static str,
    ) -> Result<Option<Program>, WorkloadError> {
        let is_given = params.contains_key(param);
        let words = is_given.then(|| written(params, param)).transpose()?;
        Ok(words.map(|words| Program { param, words }))
    }

    /// The name in the plan.
    pub fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Its file. `None`: one of its places says where, and is filled later.
    pub fn file(
        &self,
        places: &Places,
        folders: &[String],
    ) -> Result<Option<PathBuf>, WorkloadError> {
        let name = places.fill(self.name());
        if ["{folder}", "{cache}", "{port}"].iter().any(|place| name.contains(place)) {
            Ok(None)
        } else {
            find(self.param, &name, folders).map(|(path, _)| Some(path))
        }
    }

    pub fn ready(
        &self,
        places: &Places,
        around: &Surroundings,
        own_folder: Option<&Path>,
    ) -> Result<Ready, WorkloadError> {
        let mut words: Vec<String> = self.words.iter().map(|word| places.fill(word)).collect();
        let name = words.first().cloned().unwrap_or_default();
        let (path, is_elsewhere) = find(self.param, &name, &around.folders)?;
        if let Some(first) = words.first_mut().filter(|_| is_elsewhere) {
            // Some look for others next to themselves.
            *first = path.display().to_string();
        }
        let pairs = around.environment.iter().filter_map(|pair| pair.split_once('='));
        let mut pairs: Vec<(String, String)> =
            pairs.map(|(name, value)| (name.to_string(), places.fill(value))).collect();
        for (name, value) in around.account.iter().flat_map(Account::environment) {
            if !pairs.iter().any(|(given, _)| *given == name) {
                pairs.push((name, value));
            }
        }
        let command = command::Command::new(&path, &words)
            .and_then(|command| command.with_environment(&pairs))
            .and_then(|command| match own_folder.filter(|_| around.in_own_folder) {
                Some(folder) => command.in_folder(folder),
                None => Ok(command),
            });
        let command = command
            .map_err(|source| WorkloadError::system(format!("prepare `{}`", self.param), source))?;
        let command = match around.user() {
            Some(user) => command.as_user(user),
            None => command,
        };
        Ok(Ready { param: self.param, name, command })
    }
}

/// The file of a program, and whether it is in one of `folders`, which come before those of `PATH`.
fn find(
    param: &'static str,
    name: &str,
    folders: &[String],
) -> Result<(PathBuf, bool), WorkloadError> {
    let is_name = !name.contains('/');
    let mut own = folders.iter().filter(|_| is_name);
    if let Some(path) = own.find_map(|folder| command::find_below(folder, name)) {
        return Ok((path, true));
    }
    command::find(name).map(|path| (path, false)).map_err(|source| WorkloadError::Param {
        param,
        value: name.to_string(),
        problem: format!("cannot be executed: {}", error_text(&source)),
        hint: if name.contains(char::is_whitespace) {
            "its words are separate: command = [\"ls\", \"-l\"], schedlab run -- ls -l"
        } else {
            "give the path of a program, or the name of one in a folder of PATH"
        },
    })
}

/// Checks that a program of this name or a file of this path exists.
pub fn check_need(need: &str, folders: &[String]) -> Result<(), WorkloadError> {
    if !need.contains('/') {
        return find("needs", need, folders).map(|_| ());
    }
    if command::matching(need).iter().any(|path| path.exists()) {
        Ok(())
    } else {
        Err(WorkloadError::Param {
            param: "needs",
            value: need.to_string(),
            problem: "is not there".to_string(),
            hint: "give its path where the plan uses the program",
        })
    }
}

/// With the package to be installed, if one is named.
pub fn with_package(error: WorkloadError, params: &Params) -> WorkloadError {
    let here = Distribution::find(&Host::default());
    let own = here.and_then(|here| Some(here.command(&package(params, here.name)?)));
    let debian = || Some(format!("Debian's package is {}", package(params, DEBIAN)?));
    match own.or_else(debian) {
        Some(hint) => {
            let key = error.place().map(|(key, _)| key.to_string());
            let with_hint = WorkloadError::conflict(error.to_string(), hint);
            key.iter().fold(with_hint, |error, key| error.at(key))
        }
        None => error,
    }
}

/// The distribution of a package that a plan names without one.
const DEBIAN: &str = DISTRIBUTIONS[0];

/// The distribution's name of the package. Packages are separated by blanks.
pub fn package(params: &Params, distribution: &str) -> Option<String> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "+-. ".contains(c);
    let is_name = |name: &String| {
        name.chars().all(is_fit) && !name.split(' ').any(|name| name.starts_with('-'))
    };
    let given = written(params, "package").ok()?;
    let of = |given: &String| match given.split_once('=') {
        Some((name, package)) => (name == distribution).then(|| package.to_string()),
        None => (distribution == DEBIAN).then(|| given.clone()),
    };
    given.iter().find_map(of).filter(is_name)
}

/// A program that a worker is about to execute.
pub struct Ready {
    param: &'static str,
    name: String,
    command: command::Command,
}

impl Ready {
    /// An error for another exit status than `exit`.
    pub fn execute(&mut self, output: impl AsFd, exit: i32) -> Result<Executed, WorkloadError> {
        let executed = self.command.execute(output).map_err(|source| self.refused(source))?;
        match executed.ending {
            Ending::Exited(status) if status == exit => Ok(executed),
            ending => {
                let (param, name) = (self.param, self.name.clone());
                Err(WorkloadError::Program { param, name, ending, exit })
            }
        }
    }

    pub fn serve(&mut self, output: impl AsFd) -> Result<Server, WorkloadError> {
        self.command.serve(output).map_err(|source| self.refused(source))
    }

    fn refused(&self, source: std::io::Error) -> WorkloadError {
        WorkloadError::system(format!("execute `{}`", self.name), source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CpuSet;
    use crate::sys::Output;
    use crate::workload::Pool;

    #[test]
    fn a_failure_names_the_program_and_its_end() {
        for (script, exit, expected) in [
            ("exit 3", 0, "command `sh` failed with exit status 3"),
            ("exit 0", 3, "command `sh` ended with exit status 0, not 3"),
            ("kill -9 $$", 0, "command `sh` was killed by signal 9"),
            ("kill -TTIN $$", 0, "command `sh` was stopped by signal 21: it wants the terminal"),
        ] {
            let words = ["sh", "-c", script].map(str::to_string).to_vec();
            let program = Program { param: "command", words };
            let output = Output::new(4096).unwrap();
            let places = Places::new(&Params::new(), &Pool::new(CpuSet::default(), &[]));
            let around = Surroundings::new(&Params::new()).unwrap();
            let mut ready = program.ready(&places, &around, None).unwrap();
            let why = ready.execute(&output, exit).unwrap_err();
            assert_eq!(why.to_string(), expected);
        }
    }
}
