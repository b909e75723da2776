//! `schedlab export` and `schedlab import`: stored plans as JSON lines, the engine's own
//! events, and back.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;

use super::{Database, Failure};

#[derive(Args)]
pub struct ExportArgs {
    /// The stored plan, by the beginning of its id [default: all of them]
    id: Option<String>,
    #[command(flatten)]
    db: Database,
}

#[derive(Args)]
pub struct ImportArgs {
    /// The file to read; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    db: Database,
}

pub fn export(args: &ExportArgs) -> Result<(), Failure> {
    let store = args.db.open_read_only()?;
    let id = args.id.as_deref().map(|id| super::report::find(&store, id)).transpose()?;
    let mut out = BufWriter::new(io::stdout().lock());
    store.export(id.as_deref(), &mut out)?;
    Ok(out.flush()?)
}

pub fn import(args: &ImportArgs) -> Result<(), Failure> {
    let mut reader: Box<dyn BufRead> = if args.file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&args.file)
            .map_err(|error| Failure::Usage(format!("{}: {error}", args.file.display())))?;
        Box::new(BufReader::new(file))
    };
    args.db.open()?.import(&mut reader)?;
    Ok(())
}
