//! `schedlab export`: stored plans as JSON lines, the engine's own events, or as Parquet files.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Database, Failure, export_parquet};

#[derive(Args)]
pub struct ExportArgs {
    /// The stored plan: `last`, or the beginning of its id [default: all of them]
    id: Option<String>,
    /// jsonl to standard output, or Parquet files below a folder, for DuckDB, Polars and the like:
    /// docs/parquet.md
    #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
    format: ExportFormat,
    /// With --format parquet: the folder, in which each plan gets one of its own
    #[arg(short, long, value_name = "DIR")]
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
    let head = args.id.as_deref().map(|id| args.db.plan(id, &heads)).transpose()?;
    if args.format == ExportFormat::Parquet {
        let Some(folder) = args.output.clone() else {
            let text = "--format parquet needs a folder for its files";
            return Err(Failure::usage(text, args.db.command("export --format parquet -o DIR")));
        };
        let id = head.map(|head| head.id.as_str());
        return export_parquet::write(&store, id, folder, args.overwrite, args.with.clone());
    }
    if args.output.is_some() || args.overwrite || !args.with.is_empty() {
        let text = "-o, --overwrite and --with are for --format parquet";
        return Err(Failure::usage(text, args.db.command("export > FILE")));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    store.export(head.map(|head| head.id.as_str()), &mut out)?;
    Ok(out.flush()?)
}
