//! `schedlab export`: stored plans as JSON lines, the engine's own events, or as Parquet files.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::store::StoreError;
use crate::sys::replace::NewFile;

use super::{Database, Failure, SelectionParser, export_parquet, judging};

#[derive(Args)]
pub struct ExportArgs {
    /// Stored plans, selected as by `compare`: last, the beginning of an id, tag=NAME, since=7d
    /// [default: all that is stored, and the scores]
    #[arg(value_parser = SelectionParser, hide_possible_values = true)]
    select: Option<String>,
    /// jsonl, or Parquet files below a folder, for DuckDB, Polars and the like:
    /// schedlab help parquet
    #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
    format: ExportFormat,
    /// Write to this file; with --format parquet to this folder, in which each plan gets one of its own
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With --format parquet: replace plans that are in the folder already
    #[arg(long)]
    overwrite: bool,
    /// With --format parquet: these large tables, too: histograms, windows
    #[arg(long, value_name = "TABLES", value_delimiter = ',', value_parser = export_parquet::parse_table)]
    with: Vec<&'static str>,
    #[command(flatten)]
    db: Database,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum ExportFormat {
    Jsonl,
    Parquet,
}

pub fn export(args: &ExportArgs) -> Result<(), Failure> {
    let store = args.db.open_read_only()?;
    let heads = store.plan_heads()?;
    let selected = args.select.as_ref().map(|text| {
        let sides = args.db.select_whole(text, &heads)?;
        Ok::<_, Failure>(sides.into_iter().flat_map(|side| side.plans).collect::<Vec<String>>())
    });
    let selected = selected.transpose()?;
    if args.format == ExportFormat::Parquet {
        let Some(folder) = args.output.clone() else {
            let text = "--format parquet needs a folder for its files";
            return Err(Failure::usage(text, args.db.command("export --format parquet -o DIR")));
        };
        let with = args.with.clone();
        return export_parquet::write(&store, selected.as_deref(), folder, args.overwrite, with);
    }
    if args.overwrite || !args.with.is_empty() {
        let text = "--overwrite and --with are for --format parquet";
        return Err(Failure::usage(text, args.db.command("export -o FILE")));
    }
    match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            store.export(selected.as_deref(), &mut out)?;
            Ok(out.flush()?)
        }
        Some(path) => {
            let unwritten = |error| judging::unwritten(path, &error);
            let mut file = NewFile::begin(path).map_err(unwritten)?;
            store.export(selected.as_deref(), &mut file).map_err(|error| match error {
                StoreError::Output(error) => unwritten(error),
                other => other.into(),
            })?;
            file.finish().map_err(unwritten)
        }
    }
}
