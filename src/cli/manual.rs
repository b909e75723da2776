//! Man pages and shell completions, from the same definitions as `--help`.

use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::report::clean;
use crate::sys::{self, remedy};

use super::text::quoted;
use super::{Failure, terminal};

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

pub fn completions(args: &CompletionsArgs, mut schedlab: Command) -> Result<(), Failure> {
    let shell = args.shell.or_else(Shell::from_env).ok_or_else(|| {
        Failure::usage("SHELL names no shell with completions", "schedlab completions bash")
    })?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut schedlab, "schedlab", &mut script);
    Ok(io::Write::write_all(&mut io::stdout().lock(), &script)?)
}

pub fn man(args: &ManArgs, schedlab: Command) -> Result<(), Failure> {
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => sys::man_dir()?,
    };
    let shown = folder.to_string_lossy();
    let written =
        std::fs::create_dir_all(&folder).and_then(|()| clap_mangen::generate_to(schedlab, &folder));
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
