//! `schedlab import`: exported plans and other stores into the store, result files of other tools as stored
//! plans, and a `.bench` file of schedbench as a plan.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::compat::imported::{self, Results};
use crate::compat::result_file::ResultFile;
use crate::compat::schedbench::{self, BenchFile};
use crate::compat::{CompatError, mmtests, phoronix};
use crate::model::{Advice, clean_path, clean_start, quoted};
use crate::report::clean;
use crate::session::{SessionError, sides};
use crate::store::{Content, Imported, JoinedPlan, Source, Store, StoreError};
use crate::sys::{clock, input, remedy};

use super::{Database, Failure, shards, terminal};
use crate::report::numbers::counted;

#[derive(Args)]
pub struct ImportArgs {
    /// Files that `schedlab export` wrote, other stores (schedlab.db), composite.xml of the Phoronix Test Suite, or
    /// JSON of mmtests; `-` is standard input. Several at once are all stored or none, and the parts of a
    /// plan (`run --shard`) are joined. A .bench file is written as a plan to standard output, and nothing
    /// is stored. Files may be packed with gzip, but for stores
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    db: Database,
}

pub fn run(args: &ImportArgs) -> Result<(), Failure> {
    match args.files.as_slice() {
        [file] => import_one(file, &args.db),
        files => {
            let sources = files.iter().map(|file| source(file, &args.db));
            store_all(sources.collect::<Result<_, _>>()?, &args.db)
        }
    }
}

/// The first bytes of a database.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// Read to see what a file is: as a rule all of an export's first line, in which other tools change the order.
const HEAD_BYTES: u64 = 1 << 20;
/// Maximum that comes out of a packed file.
const MAX_UNPACKED_BYTES: u64 = 8 << 30;
/// Other packers, with the first bytes of their files and the command that unpacks them.
const PACKERS: &[(&str, &[u8], &str)] = &[
    ("xz", b"\xfd7zXZ\0", "xz -dc"),
    ("zstd", b"\x28\xb5\x2f\xfd", "zstd -dc"),
    ("bzip2", b"BZh", "bzip2 -dc"),
    ("zip", b"PK\x03\x04", "unzip -p"),
    // Within another one: alone it is unpacked.
    ("gzip", input::GZIP, "gzip -dc"),
];

/// A file whose first bytes are known.
struct Opened {
    head: Vec<u8>,
    /// From its first byte on.
    reader: Box<dyn BufRead>,
    /// The size of a regular file that is not packed.
    bytes: Option<u64>,
    is_packed: bool,
}

fn open(file: &Path) -> Result<Opened, Failure> {
    let (mut reader, mut bytes): (Box<dyn BufRead>, _) = if file.as_os_str() == "-" {
        (Box::new(io::stdin().lock()), None)
    } else {
        let opened = File::open(file).map_err(|error| unreadable(file, &error))?;
        let about = opened.metadata().ok().filter(|about| about.is_file());
        (Box::new(BufReader::new(opened)), about.map(|about| about.len()))
    };
    let read_head = |reader: &mut Box<dyn BufRead>| {
        input::read_start(reader, HEAD_BYTES).map_err(|error| unreadable(file, &error))
    };
    let mut head = read_head(&mut reader)?;
    let is_packed = head.starts_with(input::GZIP);
    if is_packed {
        let packed = Cursor::new(head).chain(reader);
        reader = Box::new(BufReader::new(input::unpacked(packed, MAX_UNPACKED_BYTES)));
        bytes = None;
        head = read_head(&mut reader)?;
    }
    check_packer(file, &head, is_packed)?;
    let reader = Box::new(Cursor::new(head.clone()).chain(reader));
    Ok(Opened { head, reader, bytes, is_packed })
}

/// Refuses a file of another packer. `is_within`: it came out of one of gzip.
fn check_packer(file: &Path, head: &[u8], is_within: bool) -> Result<(), Failure> {
    let packer = PACKERS.iter().find(|(_, magic, _)| head.starts_with(magic));
    let Some((packer, _, unpack)) = packer else { return Ok(()) };
    let (name, quoted) = (clean_path(shown_path(file)), quoted(&clean_path(file)));
    let (text, hint) = match is_within {
        false => (
            format!("{name}: it is packed with {packer}"),
            format!("{unpack} {quoted} | schedlab import -"),
        ),
        true => (
            format!("{name}: it is packed with gzip, and what is in it with {packer}"),
            format!("gzip -dc {quoted} > FILE; {unpack} FILE | schedlab import -"),
        ),
    };
    Err(Failure::usage(text, hint))
}

impl Opened {
    fn is_export(&self) -> bool {
        schedbench::has_key(&self.head, &["event"])
    }

    fn read_all(self, max_bytes: u64) -> io::Result<Vec<u8>> {
        if self.bytes.is_some_and(|bytes| bytes > max_bytes) {
            Err(input::InputFault::TooLarge(max_bytes).into())
        } else {
            input::read_all(self.reader, max_bytes)
        }
    }

    /// Another store, where the file is one.
    fn database(&self, file: &Path, db: &Database) -> Result<Option<Store>, Failure> {
        if !self.head.starts_with(SQLITE) {
            return Ok(None);
        }
        if file.as_os_str() == "-" {
            let text = "a database cannot be read from standard input";
            return Err(Failure::usage(text, "schedlab import OTHER.db"));
        }
        if self.is_packed {
            let text =
                format!("{}: a database is read as a file that is not packed", clean_path(file));
            let unpack = format!("gzip -dc {} > OTHER.db", quoted(&clean_path(file)));
            return Err(Failure::usage(text, format!("{unpack}; schedlab import OTHER.db")));
        }
        Ok(Some(db.at(file).reporting(Store::open_foreign(file)?)))
    }
}

/// One of several: an export or a store.
fn source(file: &Path, db: &Database) -> Result<Source<'static>, Failure> {
    let opened = open(file)?;
    let name = clean_path(shown_path(file));
    if let Some(store) = opened.database(file, db)? {
        return Ok(Source { name, content: Content::Store(Box::new(store)) });
    }
    if opened.is_export() {
        return Ok(Source { name, content: Content::Lines(opened.reader) });
    }
    let text = format!("{name}: neither JSON lines of `schedlab export` nor a store");
    let hint = "only these are imported together; others one by one: schedlab import FILE";
    Err(Failure::usage(text, hint))
}

/// All of them or nothing.
fn store_all(sources: Vec<Source>, db: &Database) -> Result<(), Failure> {
    let imported = db.open()?.import_all(sources).map_err(refused)?;
    say(&imported, db);
    Ok(())
}

fn say(imported: &Imported, db: &Database) {
    shards::say(&imported.joined, db);
    for (id, came, total) in &imported.incomplete {
        let text = format!("note: plan {id} had {total} runs, of which {came} are in the file");
        terminal::message(&text);
    }
    for (file, line, bytes) in &imported.cut {
        let bytes = counted(*bytes, "byte");
        let text =
            format!("note: {} ends within line {line}, of which {bytes} are left out", clean(file));
        terminal::message(&text);
    }
    for (id, came, total) in &imported.unended {
        let text = format!(
            "note: the file has no end of plan {id}, and {came} of its {total} runs: the file was cut, or the plan was killed"
        );
        terminal::message(&text);
    }
    if imported.unknown_events > 0 {
        let lines = counted(imported.unknown_events, "line");
        let text =
            format!("note: this schedlab does not know the events of {lines}, which it leaves out");
        terminal::message(&text);
    }
    let Imported { plans, runs, scores, known, contradicting, above_wall, ref joined, .. } =
        *imported;
    let windows = "the windows count more than the whole run: charts over time are wrong there";
    let cpu_time = "workers have more CPU time than there was: their fairness is unknown";
    for (count, what) in [(contradicting, windows), (above_wall, cpu_time)] {
        if count > 0 {
            terminal::message(&format!("note: in {}, {what}", counted(count, "run")));
        }
    }
    let repeated: u64 = joined.iter().map(|plan| plan.repeated).sum();
    let runs = runs.saturating_sub(repeated as usize);
    let brought_nothing = |plan: &&JoinedPlan| plan.repeated > 0 && plan.repeated == plan.runs;
    let again = joined.iter().filter(brought_nothing).count();
    let plans = plans.saturating_sub(again);
    let known = known + again;
    let count = |count: usize, one: &str| counted(count, one);
    let known = match known {
        0 => String::new(),
        known => format!("; {known} that were there already are left out"),
    };
    let stored = [count(plans, "plan"), count(runs, "run"), count(scores, "score")].join(", ");
    terminal::message(&format!("stored: {stored}{known}\nsee: {}", db.command("list runs")));
}

fn import_one(path: &Path, db: &Database) -> Result<(), Failure> {
    let opened = open(path)?;
    if let Some(store) = opened.database(path, db)? {
        let content = Content::Store(Box::new(store));
        return store_all(vec![Source { name: String::new(), content }], db);
    }
    if opened.is_export() {
        return lines(path, opened.reader, db.open()?, db).map_err(refused);
    }
    let is_named = path.extension().is_some_and(|extension| extension == "bench");
    let bytes = opened.read_all(imported::MAX_BYTES).map_err(|error| unreadable(path, &error))?;
    match ResultFile::recognise(&bytes, is_named) {
        ResultFile::Phoronix => results(&bytes, path, db, phoronix::read),
        ResultFile::Mmtests => {
            let started = started_unix_ns(&imported::id(mmtests::TOOL, &bytes), db);
            results(&bytes, path, db, |text, file| mmtests::read(text, file, started))
        }
        ResultFile::Bench => plan(bytes, path),
        ResultFile::Lines => {
            let done = lines(path, Box::new(Cursor::new(bytes)), db.open()?, db);
            done.map_err(|error| match &error {
                StoreError::Source { source, .. } => match &**source {
                    StoreError::Malformed { line: 1, why } => {
                        neither(path, &format!("line 1 is not an event: {}", of_one_line(why)))
                    }
                    _ => refused(error),
                },
                _ => refused(error),
            })
        }
        ResultFile::Other => Err(other(&bytes, path)),
    }
}

/// Imports lines for as long as they come.
fn lines(
    path: &Path,
    reader: Box<dyn BufRead>,
    mut store: Store,
    db: &Database,
) -> Result<(), StoreError> {
    let name = clean_path(shown_path(path));
    say(&store.import_all([Source { name, content: Content::Lines(reader) }])?, db);
    Ok(())
}

/// The error of a file, about its own lines.
fn refused(error: StoreError) -> Failure {
    let advice = error.hint().unwrap_or_default().into_owned();
    let (file, inner) = match &error {
        StoreError::Source { name, source } => (format!("{}: ", clean(name)), &**source),
        error => (String::new(), error),
    };
    let text = match inner {
        StoreError::Malformed { line, why } => {
            format!("{file}line {line} is not an event: {}", of_one_line(why))
        }
        StoreError::Line { line, source } => match &**source {
            // No plan that is stored is added to, so the first of both is in the file, too.
            StoreError::RunStored { key, .. } => format!(
                "{file}line {line} cannot be imported: the file has round {} of cell {} of that plan twice",
                key.round, key.cell
            ),
            _ => return error.into(),
        },
        _ => return error.into(),
    };
    Failure::usage(text, advice)
}

/// Why a line is wrong, cut as a wrong word has any length, and without the number of a line within the line.
fn of_one_line(why: &str) -> String {
    const MAX_CHARS: usize = 200;
    let (what, _) = why.rsplit_once(" at line 1 column ").unwrap_or((why, ""));
    clean_start(what, MAX_CHARS)
}

/// When a file without a time was measured: when it was first imported.
fn started_unix_ns(id: &str, db: &Database) -> u64 {
    let heads = db.open_read_only().ok().and_then(|store| store.plan_heads().ok());
    let known = heads.into_iter().flatten().find(|head| head.id == id);
    known.map_or_else(clock::unix_ns, |head| head.started_unix_ns)
}

/// Stores what another tool measured: all of the file or nothing.
fn results(
    bytes: &[u8],
    path: &Path,
    db: &Database,
    read: impl Fn(&str, &str) -> Result<Results, CompatError>,
) -> Result<(), Failure> {
    let file = clean_path(shown_path(path));
    let text = imported::text(bytes, &file)?;
    let plan = read(text, &file)?.into_plan(&file, bytes)?;
    let stored = db.open()?.import(&mut plan.lines.as_slice());
    let stored = stored.map_err(|error| match error {
        // The lines are not the file's.
        StoreError::Line { source, .. } => Failure::from(*source),
        other => other.into(),
    })?;
    let already = if stored.known > 0 { " already" } else { "" };
    let (variants, works) = (plan.variants as u64, plan.works as u64);
    let sizes = [counted(variants, "variant"), counted(works, "work")].join(", ");
    let unjudged = match plan.unjudged as u64 {
        0 => String::new(),
        unjudged => {
            let works = counted(unjudged, "work");
            format!("; not judged, as the file does not say what is better: {works}")
        }
    };
    let left_out = imported::describe_left_out(&plan.left_out);
    let left_out = left_out.map_or(String::new(), |left_out| format!("; left out: {left_out}"));
    let command = sides::plan_command(&plan.id, plan.variants) + &db.words();
    terminal::message(&format!(
        "stored{already} as `{}`: {sizes}{unjudged}{left_out}\nsee: {command}",
        plan.id
    ));
    Ok(())
}

/// Why a file is none that is imported.
fn other(bytes: &[u8], path: &Path) -> Failure {
    let what = match serde_json::from_slice::<serde::de::IgnoredAny>(bytes) {
        _ if bytes.starts_with(imported::BYTE_ORDER_MARK) => {
            "it begins with a byte-order mark, which JSON has not".to_string()
        }
        _ if bytes.trim_ascii().is_empty() => "it is empty".to_string(),
        Ok(_) => "it is other JSON".to_string(),
        Err(error) if error.is_eof() => format!(
            "it ends before its JSON does, after {}: is the file complete?",
            counted(bytes.len(), "byte")
        ),
        Err(error) => error.to_string(),
    };
    neither(path, &what)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let name = clean_path(shown_path(path));
    let text = format!("cannot read {name}: {error}");
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "schedlab export > FILE writes one".to_string(),
        _ if input::is_damaged_gzip(error) && path.as_os_str() == "-" => {
            "gzip -t FILE, of the file that comes through standard input".to_string()
        }
        _ if input::is_damaged_gzip(error) => format!("gzip -t {}", quoted(&clean_path(path))),
        _ if input::is_wrong_file(error) => {
            "is this the right file? Import a part of it".to_string()
        }
        _ => remedy::read(path, error),
    };
    SessionError::unread(text, hint, error).into()
}

fn neither(path: &Path, what: &str) -> Failure {
    let text = format!(
        "{}: neither JSON lines of `schedlab export` nor a .bench file (a JSON object with `Input` \
         or `Runs`), nor results of Phoronix or mmtests: {}",
        clean_path(shown_path(path)),
        clean(what)
    );
    let hint = "schedlab export > FILE writes the first; schedlab help schedbench and help formats describe the others";
    Failure::usage(text, hint)
}

/// `-` is standard input.
fn shown_path(path: &Path) -> &Path {
    if path.as_os_str() == "-" { Path::new(remedy::STANDARD_INPUT) } else { path }
}

fn plan(bytes: Vec<u8>, path: &Path) -> Result<(), Failure> {
    let path = shown_path(path);
    let text = schedbench::utf8(bytes, path)?;
    let plan = schedbench::plan_text(&BenchFile::parse(&text, path)?)?;
    let mut out = io::stdout().lock();
    out.write_all(plan.as_bytes())?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::model::RunKey;

    #[test]
    fn a_damaged_stream_is_not_read_again_to_check_it() {
        let hint = |path: &str| {
            let said = unreadable(Path::new(path), &input::InputFault::Packed.into()).to_string();
            said.split_once("hint: ").unwrap().1.to_string()
        };
        assert_eq!(hint("a.gz"), "gzip -t a.gz");
        assert!(hint("-").starts_with("gzip -t FILE, of the file"));
    }

    #[test]
    fn one_of_several_files_names_its_packer_too() {
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let said = source(&path, &Database::default()).err().unwrap().to_string();
            said.replace(&path.display().to_string(), name)
        };
        let packed = |bytes: &[u8]| {
            let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
            packer.write_all(bytes).unwrap();
            packer.finish().unwrap()
        };
        let xz = b"\xfd7zXZ\0 and more";
        for (name, bytes, text, hint) in [
            ("a.xz", xz.to_vec(), "it is packed with xz", "xz -dc a.xz | schedlab import -"),
            (
                "a.xz.gz",
                packed(xz),
                "it is packed with gzip, and what is in it with xz",
                "gzip -dc a.xz.gz > FILE; xz -dc FILE | schedlab import -",
            ),
            (
                "a.gz.gz",
                packed(&packed(b"{}")),
                "it is packed with gzip, and what is in it with gzip",
                "gzip -dc a.gz.gz > FILE; gzip -dc FILE | schedlab import -",
            ),
        ] {
            assert_eq!(said(name, &bytes), format!("error: {name}: {text}\nhint: {hint}"));
        }
        let neither = said("a.txt", b"text");
        assert!(neither.contains("a.txt: neither JSON lines"), "{neither}");
    }

    #[test]
    fn an_error_of_a_file_is_short_and_about_its_lines() {
        let malformed = |why: &str| StoreError::Malformed { line: 19, why: why.to_string() };
        let key = RunKey { round: 2, cell: 1 };
        let twice = StoreError::RunStored { id: "p".to_string(), key, path: "c.db".into() };
        let twice = StoreError::Line { line: 7, source: Box::new(twice) };
        for (error, expected) in [
            (
                malformed("EOF while parsing a value at line 1 column 4556"),
                "line 19 is not an event: EOF while parsing a value\n",
            ),
            (malformed("unknown variant `x`"), "line 19 is not an event: unknown variant `x`\n"),
            (malformed(&"x".repeat(1 << 20)), "xxx...\n"),
            (
                StoreError::Source { name: "a".to_string(), source: Box::new(malformed("EOF")) },
                "error: a: line 19 is not an event: EOF\n",
            ),
            (
                twice,
                "line 7 cannot be imported: the file has round 2 of cell 1 of that plan twice\n",
            ),
        ] {
            let said = refused(error).to_string();
            assert!(said.contains(expected) && said.contains("hint: "), "{said}");
            assert!(said.len() < 500 && !said.contains("c.db"), "{said}");
        }
    }
}
