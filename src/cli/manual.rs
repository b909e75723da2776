//! Man pages and shell completions, from the same definitions as `--help`.

use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::report::clean;
use crate::sys::remedy;

use super::Failure;

#[derive(Args)]
pub struct CompletionsArgs {
    shell: Shell,
}

#[derive(Args)]
pub struct ManArgs {
    /// The folder to write schedlab.1 and one page per subcommand to
    folder: PathBuf,
}

pub fn completions(args: &CompletionsArgs, mut schedlab: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut schedlab, "schedlab", &mut script);
    Ok(io::Write::write_all(&mut io::stdout().lock(), &script)?)
}

pub fn man(args: &ManArgs, schedlab: Command) -> Result<(), Failure> {
    let written = std::fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(schedlab, &args.folder));
    written.map_err(|error| {
        let folder = args.folder.to_string_lossy();
        let text = format!("cannot write the pages to {}: {error}", clean(&folder));
        Failure::here(text, remedy::write(&args.folder, &error))
    })
}
