//! `schedlab export` and `schedlab import`: stored plans as JSON lines, the engine's own
//! events, and back; and a `.bench` file of schedbench as a plan.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Cursor, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::compat::schedbench::{self, BenchFile};

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
    /// The file to read; `-` is standard input. A .bench file is written as a plan to standard
    /// output, and nothing is stored
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
    let fail = |error: io::Error| {
        let name = schedbench::shown(&args.file);
        Failure::Here(format!("cannot read {name}: {error}\nhint: ls -l {name}"))
    };
    let mut head = Vec::new();
    while head.trim_ascii().is_empty() && reader.read_until(b'\n', &mut head).map_err(fail)? > 0 {}
    let named = args.file.extension().is_some_and(|extension| extension == "bench");
    if !named && schedbench::is_whole_object(&head) && !schedbench::is_bench(&head) {
        // A line of ours: what follows is as long as it likes.
        args.db.open()?.import(&mut Cursor::new(head).chain(reader))?;
        return Ok(());
    }
    reader.read_to_end(&mut head).map_err(fail)?;
    if named || schedbench::is_bench(&head) {
        return plan(head, &args.file);
    }
    args.db.open()?.import(&mut Cursor::new(head))?;
    Ok(())
}

fn plan(bytes: Vec<u8>, path: &Path) -> Result<(), Failure> {
    let path = if path.as_os_str() == "-" { Path::new("standard input") } else { path };
    let text = schedbench::utf8(bytes, path)?;
    let plan = schedbench::plan_text(&BenchFile::parse(&text, path)?)?;
    let mut out = io::stdout().lock();
    out.write_all(plan.as_bytes())?;
    Ok(out.flush()?)
}
