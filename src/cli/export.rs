//! `schedlab export` and `schedlab import`: stored plans as JSON lines, the engine's own
//! events, and back; result files of other tools as stored plans; and a `.bench` file of schedbench
//! as a plan.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Cursor, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::compat::imported::{self, Results};
use crate::compat::schedbench::{self, BenchFile};
use crate::compat::{CompatError, mmtests, phoronix};
use crate::report::clean;
use crate::store::{Content, Imported, Source, Store, StoreError};
use crate::sys::clock;

use super::database::reporting;
use super::text::plural;
use super::{Database, Failure, export_parquet, judging, shards, terminal};

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

#[derive(Args)]
pub struct ImportArgs {
    /// What `schedlab export` wrote, other stores (schedlab.db), composite.xml of the Phoronix Test Suite, or
    /// JSON of mmtests; `-` is standard input. Several at once are all stored or none, and the parts of a
    /// plan (`run --shard`) are joined. A .bench file is written as a plan to standard output, and nothing
    /// is stored
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    db: Database,
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

pub fn import(args: &ImportArgs) -> Result<(), Failure> {
    match args.files.as_slice() {
        [file] => import_one(file, &args.db),
        files => {
            let sources = files.iter().map(|file| source(file));
            store_all(sources.collect::<Result<_, _>>()?, &args.db)
        }
    }
}

/// The first bytes of a database.
const SQLITE: &[u8] = b"SQLite format 3\0";

fn open(file: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if file.as_os_str() == "-" {
        return Ok(Box::new(io::stdin().lock()));
    }
    let opened = File::open(file).map_err(|error| unreadable(Failure::usage, file, &error))?;
    Ok(Box::new(BufReader::new(opened)))
}

/// Another store, where the file is one.
fn database(file: &Path, reader: &mut dyn BufRead) -> Result<Option<Store>, Failure> {
    let fail = |error: io::Error| unreadable(Failure::here, file, &error);
    if !reader.fill_buf().map_err(fail)?.starts_with(SQLITE) {
        return Ok(None);
    }
    if file.as_os_str() == "-" {
        let text = "a database cannot be read from standard input";
        return Err(Failure::usage(text, "schedlab import OTHER.db"));
    }
    Ok(Some(reporting(Store::open_foreign(file)?)))
}

/// One of several: an export or a store.
fn source(file: &Path) -> Result<Source<'static>, Failure> {
    let mut reader = open(file)?;
    let name = schedbench::shown(shown_path(file)).to_string();
    if let Some(store) = database(file, &mut *reader)? {
        return Ok(Source { name, content: Content::Store(Box::new(store)) });
    }
    let fail = |error: io::Error| unreadable(Failure::here, file, &error);
    let is_export = reader.fill_buf().map_err(fail)?.starts_with(b"{\"event\":");
    match is_export {
        true => Ok(Source { name, content: Content::Lines(reader) }),
        false => {
            let text = format!("{name}: neither JSON lines of `schedlab export` nor a store");
            let hint = "only these are imported together; others one by one: schedlab import FILE";
            Err(Failure::usage(text, hint))
        }
    }
}

/// All of them or nothing.
fn store_all(sources: Vec<Source>, db: &Database) -> Result<(), Failure> {
    let has_stores = sources.iter().any(|source| matches!(source.content, Content::Store(_)));
    let imported = db.open()?.import_all(sources)?;
    shards::say(&imported.joined, db);
    if has_stores {
        let Imported { plans, runs, scores, known, .. } = imported;
        let count = |count: usize, one: &str| plural(count as u64, one);
        let known = match known {
            0 => String::new(),
            known => format!("; {known} that were there already are left out"),
        };
        let stored = [count(plans, "plan"), count(runs, "run"), count(scores, "score")].join(", ");
        terminal::message(&format!("stored: {stored}{known}\nsee: {}", db.command("list runs")));
    }
    Ok(())
}

fn import_one(path: &Path, db: &Database) -> Result<(), Failure> {
    let mut reader = open(path)?;
    if let Some(store) = database(path, &mut *reader)? {
        let content = Content::Store(Box::new(store));
        return store_all(vec![Source { name: String::new(), content }], db);
    }
    let fail = |error: io::Error| unreadable(Failure::here, path, &error);
    let mut head = Vec::new();
    if phoronix::is_xml(reader.fill_buf().map_err(fail)?) {
        reader.take(imported::MAX_BYTES + 1).read_to_end(&mut head).map_err(fail)?;
        return results(&head, path, db, phoronix::read);
    }
    while head.trim_ascii().is_empty() && reader.read_until(b'\n', &mut head).map_err(fail)? > 0 {}
    let named = path.extension().is_some_and(|extension| extension == "bench");
    let is_mmtests = |head: &[u8]| !named && mmtests::is_json(head);
    let is_event = !schedbench::is_bench(&head) && !is_mmtests(&head);
    if !named && is_event && schedbench::is_whole_object(&head) {
        // A line of ours: what follows is as long as it likes.
        let imported = db.open()?.import(&mut Cursor::new(head).chain(reader));
        return match imported {
            Ok(imported) => {
                shards::say(&imported.joined, db);
                Ok(())
            }
            Err(StoreError::Malformed { line, why }) => {
                Err(neither(path, &format!("line {line} is not an event: {why}")))
            }
            Err(other) => Err(other.into()),
        };
    }
    let limit = if is_mmtests(&head) { imported::MAX_BYTES + 1 } else { u64::MAX };
    reader.take(limit).read_to_end(&mut head).map_err(fail)?;
    if is_mmtests(&head) {
        return results(&head, path, db, |text, file| mmtests::read(text, file, clock::unix_ns()));
    }
    let has_mark = head.starts_with(BYTE_ORDER_MARK);
    if !has_mark && (named || schedbench::is_bench(&head)) {
        return plan(head, path);
    }
    let what = match serde_json::from_slice::<serde::de::IgnoredAny>(&head) {
        _ if has_mark => "it begins with a byte-order mark, which JSON has not".to_string(),
        _ if head.trim_ascii().is_empty() => "it is empty".to_string(),
        Ok(_) => "it is other JSON".to_string(),
        Err(error) => error.to_string(),
    };
    Err(neither(path, &what))
}

/// Stores what another tool measured: all of the file or nothing.
fn results(
    bytes: &[u8],
    path: &Path,
    db: &Database,
    read: impl Fn(&str, &str) -> Result<Results, CompatError>,
) -> Result<(), Failure> {
    let file = schedbench::shown(shown_path(path));
    let text = imported::text(bytes, &file)?;
    let plan = read(text, &file)?.into_plan(&file, bytes)?;
    let stored = db.open()?.import(&mut plan.lines.as_slice());
    stored.map_err(|error| match error {
        // The lines are not the file's.
        StoreError::Line { source, .. } => Failure::from(*source),
        other => other.into(),
    })?;
    let sizes =
        [plural(plan.variants as u64, "variant"), plural(plan.works as u64, "work")].join(", ");
    let left_out = imported::describe_left_out(&plan.left_out);
    let left_out = left_out.map_or(String::new(), |left_out| format!("; left out: {left_out}"));
    let command = judging::again(&plan.id, plan.variants) + &db.words();
    terminal::message(&format!("stored as `{}`: {sizes}{left_out}\nsee: {command}", plan.id));
    Ok(())
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

fn unreadable(failure: fn(String, String) -> Failure, path: &Path, error: &io::Error) -> Failure {
    let name = schedbench::shown(path);
    failure(format!("cannot read {name}: {error}"), format!("ls -l {name}"))
}

fn neither(path: &Path, what: &str) -> Failure {
    let text = format!(
        "{}: neither JSON lines of `schedlab export` nor a .bench file (a JSON object with `Input` \
         or `Runs`), nor results of Phoronix or mmtests: {}",
        schedbench::shown(shown_path(path)),
        clean(what)
    );
    let hint = "schedlab export > FILE writes the first; docs/schedbench.md and docs/formats.md describe the others";
    Failure::usage(text, hint)
}

/// `-` is standard input.
fn shown_path(path: &Path) -> &Path {
    if path.as_os_str() == "-" { Path::new("standard input") } else { path }
}

fn plan(bytes: Vec<u8>, path: &Path) -> Result<(), Failure> {
    let path = shown_path(path);
    let text = schedbench::utf8(bytes, path)?;
    let plan = schedbench::plan_text(&BenchFile::parse(&text, path)?)?;
    let mut out = io::stdout().lock();
    out.write_all(plan.as_bytes())?;
    Ok(out.flush()?)
}
