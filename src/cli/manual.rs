//! Man pages and shell completions, from the same definitions as `--help`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::report::clean;
use crate::sys::replace::replace;
use crate::sys::{self, remedy};

use super::{Failure, terminal};
use crate::model::quoted;

#[derive(Args)]
pub struct CompletionsArgs {
    /// [default: that of SHELL]
    shell: Option<Shell>,
}

#[derive(Args)]
pub struct ManArgs {
    /// The folder to write schedlab.1 and one page per subcommand to [default: man/man1 in the XDG data
    /// folder, where `man` looks]
    folder: Option<PathBuf>,
}

pub fn completions(args: &CompletionsArgs, schedlab: Command) -> Result<(), Failure> {
    let shell = args.shell.or_else(Shell::from_env).ok_or_else(|| {
        Failure::usage("SHELL names no shell with completions", "schedlab completions bash")
    })?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut without_hidden(&schedlab), "schedlab", &mut script);
    Ok(io::Write::write_all(&mut io::stdout().lock(), &script)?)
}

/// The command with those of its subcommands that help shows.
fn without_hidden(command: &Command) -> Command {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("schedlab")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(command.get_arguments())
        .subcommands(shown)
}

pub fn man(args: &ManArgs, schedlab: Command) -> Result<(), Failure> {
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => sys::man_dir()?,
    };
    let shown = folder.to_string_lossy();
    let mut schedlab = schedlab.disable_help_subcommand(true);
    schedlab.build();
    let written = fs::create_dir_all(&folder).and_then(|()| write_pages(&schedlab, &folder));
    written.map_err(|error| {
        let text = format!("cannot write the pages to {}: {error}", clean(&shown));
        Failure::here(text, remedy::write(&folder, &error))
    })?;
    terminal::message(&format!(
        "written: man {}",
        quoted(&folder.join("schedlab.1").to_string_lossy())
    ));
    Ok(())
}

/// A page for a command and one for each of its subcommands; each is replaced as a whole.
fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    for subcommand in shown {
        write_pages(subcommand, folder)?;
    }
    let page = Man::new(command.clone());
    replace(&folder.join(page.get_filename()), |mut out| page.render(&mut out))
}
