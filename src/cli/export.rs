//! `schedlab export`: stored plans as JSON lines, the engine's own events, or as Parquet files; and the load of a
//! plan as a file of rt-app.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::model::clean;
use crate::session::SessionError;
use crate::store::StoreError;
use crate::sys::replace::NewFile;

use super::{Database, Failure, export_parquet, export_rt_app, selection};

#[derive(Args)]
pub struct ExportArgs {
    /// Stored plans, selected as by `compare`: last, the beginning of an id, tag=NAME, since=7d
    /// [default: all that is stored, and the scores]; with --format rt-app one plan, as `run` takes it: a file, a
    /// built-in one, a stored one
    #[arg(value_parser = selection(), hide_possible_values = true)]
    select: Option<String>,
    /// jsonl, Parquet files below a folder, for DuckDB, Polars and the like: schedlab help parquet;
    /// or rt-app, its load alone: schedlab help rt-app
    /// [default: what the ending of the file says, else jsonl]
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
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

/// For the list of all formats.
pub const FORMATS: [(&str, &str); 3] = [
    ("jsonl", "schedlab export: stored plans, a line for each record, for another store"),
    ("parquet", "schedlab export: a folder of tables, for DuckDB, Polars and the like"),
    ("rt-app", "schedlab export: the load of one plan of steps, as a file of rt-app"),
];

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum ExportFormat {
    Jsonl,
    Parquet,
    RtApp,
}

impl ExportArgs {
    fn format(&self) -> Result<ExportFormat, Failure> {
        let ending = self.output.as_ref().and_then(|path| path.extension());
        let ending = ending.map(|ending| ending.to_string_lossy().to_lowercase());
        match (self.format, ending.as_deref()) {
            (Some(format), _) => Ok(format),
            (None, None | Some("jsonl" | "json")) => Ok(ExportFormat::Jsonl),
            (None, Some("parquet")) => Ok(ExportFormat::Parquet),
            (None, Some(ending)) => {
                let text = format!("no format of export has the ending `{}`", clean(ending));
                let known = FORMATS.map(|(name, _)| format!("--format {name}")).join(", ");
                Err(Failure::usage(text, format!("say it: {known}")))
            }
        }
    }
}

pub fn export(args: &ExportArgs) -> Result<(), Failure> {
    let format = args.format()?;
    if format != ExportFormat::Parquet && (args.overwrite || !args.with.is_empty()) {
        let text = "--overwrite and --with are for --format parquet";
        return Err(Failure::usage(text, args.db.command("export -o FILE")));
    }
    if format == ExportFormat::RtApp {
        let text = export_rt_app::text(args.select.as_deref(), &args.db)?;
        return args.write(|out| out.write_all(text.as_bytes()).map_err(StoreError::Output));
    }
    let store = args.db.open_read_only()?;
    let heads = store.plan_heads()?;
    let selected = args.select.as_ref().map(|text| {
        let sides = args.db.select_whole(text, &heads)?;
        Ok::<_, Failure>(sides.into_iter().flat_map(|side| side.plans).collect::<Vec<String>>())
    });
    let selected = selected.transpose()?;
    if format == ExportFormat::Parquet {
        let Some(folder) = args.output.clone() else {
            let text = "--format parquet needs a folder for its files";
            return Err(Failure::usage(text, args.db.command("export --format parquet -o DIR")));
        };
        let with = args.with.clone();
        return export_parquet::write(&store, selected.as_deref(), folder, args.overwrite, with);
    }
    args.write(|out| store.export(selected.as_deref(), out))
}

impl ExportArgs {
    /// Writes to the file, or to standard output.
    fn write(
        &self,
        write: impl Fn(&mut dyn Write) -> Result<(), StoreError>,
    ) -> Result<(), Failure> {
        let Some(path) = self.output.as_deref().filter(|path| *path != Path::new("-")) else {
            let mut out = BufWriter::new(io::stdout().lock());
            write(&mut out)?;
            return Ok(out.flush()?);
        };
        let unwritten = |error| Failure::from(SessionError::unwritten(path, &error));
        let mut file = NewFile::begin(path).map_err(unwritten)?;
        write(&mut file).map_err(|error| match error {
            StoreError::Output(error) => unwritten(error),
            other => other.into(),
        })?;
        file.finish().map_err(unwritten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        export: ExportArgs,
    }

    #[test]
    fn the_ending_of_a_file_says_the_format() {
        let format = |words: &[&str]| {
            Line::parse_from([&["export"], words].concat())
                .export
                .format()
                .map_err(|of| of.to_string())
        };
        assert!(format(&[]) == Ok(ExportFormat::Jsonl));
        assert!(format(&["-o", "out"]) == Ok(ExportFormat::Jsonl));
        assert!(format(&["-o", "out.JSONL"]) == Ok(ExportFormat::Jsonl));
        assert!(format(&["-o", "out.Parquet"]) == Ok(ExportFormat::Parquet));
        assert!(format(&["-o", "out.csv", "--format", "jsonl"]) == Ok(ExportFormat::Jsonl));
        assert!(format(&["-o", "out.csv"]).is_err_and(|said| said.contains("`csv`")));
    }

    #[test]
    fn the_list_of_formats_has_all_that_the_option_takes() {
        let names = ExportFormat::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<String> = names.map(|value| value.get_name().to_string()).collect();
        assert_eq!(names, FORMATS.map(|(name, _)| name));
    }
}
