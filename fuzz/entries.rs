//! The fuzz targets do this with their bytes: one function each. `tests/corpus.rs` does the same with all that is kept in
//! `corpus/`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

use schedlab::analysis::{self, Question, Selection};
use schedlab::backend::{fleet, lab};
use schedlab::compat::result_file::ResultFile;
use schedlab::compat::schedbench::{self, Averages, BenchFile, html, text};
use schedlab::compat::{CompatError, imported, mmtests, phoronix, trace as foreign};
use schedlab::model::{
    Advice, CpuSet, Event, GuestMessage, GuestSpec, RunSpec, RunnerMessage, Topology, Twin,
    is_active,
};
use schedlab::plan::{self, PlanErrors};
use schedlab::report::{self, Options};
use schedlab::store::{Store, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The name of a target, and of its folder in `corpus/`, and what it does.
type Target = (&'static str, fn(&[u8]));

pub const TARGETS: &[Target] = &[
    ("bench", bench),
    ("import", import),
    ("machine", machine),
    ("mail", mail),
    ("plan", plan),
    ("program", program),
    ("rt_app", rt_app),
    ("trace", trace),
    ("wire", wire),
];

/// Any text is a plan or gets its errors; a plan stays within its limits.
pub fn plan(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let all: CpuSet = (0..4).collect();
    let machine = Topology { online: all.clone(), allowed: all, ..Topology::default() };
    let parsed = plan::parse("fuzz.toml", text, Some(&machine), schedlab::session::known());
    let mut plan = match parsed {
        Err(errors) => return check_errors(&errors),
        Ok(plan) => plan,
    };
    let cells = plan::cells(&plan);
    assert!(!cells.is_empty() && cells.len() as u64 <= plan::MAX_CELLS);
    assert_eq!(cells.len(), plan.works.len() * plan.variants.len());
    assert!(cells.len() as u64 * u64::from(plan.measure.rounds) <= plan::MAX_RUNS);
    // Millions of runs are valid and make a slow target: a few rounds show as much.
    plan.measure.rounds = plan.measure.rounds.min(3);
    for round in 0..plan.measure.rounds {
        let mut order = plan::round_order(&plan, round);
        assert!(order.iter().all(|key| key.round == round && (key.cell as usize) < cells.len()));
        order.sort();
        order.dedup();
        assert_eq!(order.len(), cells.len());
    }
}

/// Any text is a program or gets its errors, by itself and in a plan that names it.
pub fn program(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(errors) = plan::read_program("fuzz.toml", text) {
        check_errors(&errors);
    }
    let plan = "schema = 1\n[[variant]]\nname = \"a\"\n[[workload]]\nuse = \"fuzz.toml\"\n";
    let files = [("fuzz.toml".to_string(), text.to_string())];
    match plan::with_program_files(plan, &files) {
        Err(errors) => check_errors(&errors),
        Ok(whole) => {
            let parsed = plan::parse("plan.toml", &whole, None, schedlab::session::known());
            _ = parsed.map_err(|errors| check_errors(&errors));
        }
    }
}

/// Any text is a machine's model or gets its error; what is written of one reads back as the same.
pub fn machine(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Twin::parse(text) {
        Err(error) => {
            check(&error.to_string());
            assert!(!error.to_string().contains('\n') && error.hint().is_some());
        }
        Ok(twin) => {
            assert_eq!(Twin::parse(&twin.text()).expect("its own text"), twin);
            let plan = "schema = 1\n[[variant]]\nname = \"a\"\n[[workload]]\nuse = \"spin\"\n";
            _ = plan::lab("plan.toml", plan, Some(&twin)).map_err(|errors| check_errors(&errors));
        }
    }
}

/// Any bytes are patches or get their error.
pub fn mail(bytes: &[u8]) {
    let files = [("fuzz.patch".to_string(), bytes.to_vec())];
    for allow_part in [false, true] {
        match lab::kernel::build::series(&files, allow_part) {
            Err(fault) => check(&fault.to_string()),
            Ok(series) => series.notes.iter().for_each(|note| check(&note.to_string())),
        }
    }
}

/// Any bytes are a `.bench` file or get their error; what is read is planned, reported and
/// imported without a panic, and nothing of it acts on a terminal.
pub fn bench(bytes: &[u8]) {
    let path = Path::new("fuzz.bench");
    let Ok(source) = schedbench::utf8(bytes.to_vec(), path) else { return };
    let mut file = match BenchFile::parse(&source, path) {
        Ok(file) => file,
        Err(error) => return check(&error.to_string()),
    };
    match schedbench::plan_text(&file) {
        Ok(plan) => check(&plan),
        Err(error) => check(&error.to_string()),
    }
    for averages in [Averages::Right, Averages::Original] {
        let figures = match file.figures(averages) {
            Ok(figures) => figures,
            Err(error) => {
                check(&error.to_string());
                continue;
            }
        };
        for verbosity in 0..4 {
            let mut out = Vec::new();
            text::write(&mut out, &figures, verbosity, averages).expect("memory takes all");
            check(&String::from_utf8(out).expect("text"));
        }
        let mut page = Vec::new();
        html::write(&mut page, path, &figures, averages).expect("memory takes all");
        String::from_utf8(page).expect("text");
    }
    _ = file.pending().map_err(|error| check(&error.to_string()));
    file.clear_runs();
    _ = file.expand().map_err(|error| check(&error.to_string()));
}

/// Any text is a file of rt-app or gets its errors; the plan that it becomes is written as such a file, too.
pub fn rt_app(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let plan = match plan::from_rt_app("fuzz.json", text) {
        Err(errors) => return check_errors(&errors),
        Ok(plan) => plan,
    };
    let plan = match plan::parse("fuzz.json", &plan, None, schedlab::session::known()) {
        Err(errors) => return check_errors(&errors),
        Ok(plan) => plan,
    };
    match plan::to_rt_app(&plan) {
        Err(wrong) => check(&wrong.message),
        Ok(text) => {
            _ = plan::from_rt_app("fuzz.json", &text).map_err(|errors| check_errors(&errors))
        }
    }
}

/// Any bytes are a trace of another tool or get their error; its threads become a plan.
pub fn trace(bytes: &[u8]) {
    let trace = match foreign::read(bytes) {
        Err(error) => return check(&error.to_string()),
        Ok(read) => read.trace,
    };
    for is_named in [false, true] {
        let asked = plan::Asked {
            trace: &trace,
            tasks: &trace.tasks,
            settings: &BTreeMap::new(),
            title: "fuzz",
            is_named,
            fits: &[],
        };
        let Some(captured) = plan::captured(&asked) else { return };
        check(&captured.text);
        let parsed = plan::parse("fuzz.toml", &captured.text, None, schedlab::session::known());
        parsed.unwrap_or_else(|errors| panic!("{}\n{}", errors.render(), captured.text));
    }
}

/// Any bytes are a result file, an export, or get their error; what is stored is reported, exported, and comes back as
/// it was.
pub fn import(bytes: &[u8]) {
    let lines = match ResultFile::recognise(bytes, false) {
        ResultFile::Phoronix => converted(bytes, phoronix::read),
        ResultFile::Mmtests => converted(bytes, |text, file| mmtests::read(text, file, 1)),
        ResultFile::Bench => return bench(bytes),
        ResultFile::Lines | ResultFile::Other => Some(bytes.to_vec()),
    };
    let Some(lines) = lines else { return };
    thread_local! {
        static STORES: RefCell<(tempfile::TempDir, Store, Store)> = RefCell::new(stores());
    }
    STORES.with(|stores| {
        let (_, first, second) = &mut *stores.borrow_mut();
        match first.import(BufReader::new(&*lines)) {
            Err(error) => check_stored(&error),
            Ok(_) => {
                check_reports(first);
                let own = export(first);
                second.import(BufReader::new(&*own)).expect("an export of ours");
                assert_eq!(export(second), own);
                let again = second.import(BufReader::new(&*own)).expect("the same once more");
                // Parts are joined again, which changes nothing.
                assert!(again.plans + again.scores == 0 || !again.joined.is_empty());
                assert_eq!(export(second), own);
                [first, second].into_iter().for_each(empty);
            }
        }
    });
}

fn stores() -> (tempfile::TempDir, Store, Store) {
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    let folder = folder.expect("a folder");
    let open = |name: &str| Store::open(&folder.path().join(name)).expect("a store");
    let (first, second) = (open("first.db"), open("second.db"));
    (folder, first, second)
}

fn converted(
    bytes: &[u8],
    read: impl Fn(&str, &str) -> Result<imported::Results, CompatError>,
) -> Option<Vec<u8>> {
    let text = imported::text(bytes, "fuzz");
    let plan = text.and_then(|text| read(text, "fuzz")?.into_plan("fuzz", bytes));
    plan.map_err(|error| check(&error.to_string())).ok().map(|plan| plan.lines)
}

fn export(store: &Store) -> Vec<u8> {
    let mut out = Vec::new();
    store.export(None, &mut out).expect("memory takes all");
    out
}

fn check_reports(store: &Store) {
    for head in store.plan_heads().expect("heads") {
        let sampled = store.sampled(&head.id).expect("what was stored");
        let sides =
            head.variants.iter().map(|name| Selection::of_variant(&head.id, name)).collect();
        let analysis = analysis::analyse(&[sampled], &[], &Question::new(sides, String::new()));
        for name in ["text", "csv", "markdown"] {
            let options = Options { width: 100, color: false, verbose: 2 };
            let mut out = Vec::new();
            let format = report::find(name).expect("a format");
            format.render(std::slice::from_ref(&analysis), &options, &mut out).expect("memory");
            check(&String::from_utf8(out).expect("text"));
        }
    }
}

fn empty(store: &mut Store) {
    for head in store.plan_heads().expect("heads") {
        store.remove(&head.id).expect("a stored plan");
    }
    for head in store.score_heads().expect("heads") {
        store.remove_score(&head.id).expect("a stored score");
    }
}

fn check_stored(error: &StoreError) {
    check(&schedlab::model::clean_lines(&error.to_string()));
    assert!(error.hint().is_some());
}

/// Runners, guests, nodes of a cluster and caches send this: any bytes are understood or refused.
pub fn wire(bytes: &[u8]) {
    comes_back::<RunSpec>(bytes);
    comes_back::<RunnerMessage>(bytes);
    comes_back::<GuestSpec>(bytes);
    comes_back::<GuestMessage>(bytes);
    comes_back::<Event>(bytes);
    _ = lab::parse_guest_output(bytes.to_vec()).map_err(|fault| check(&fault.to_string()));
    _ = fleet::AnswerLine::parse(bytes);
    #[cfg(feature = "cache")]
    from_cache(bytes);
}

#[cfg(feature = "cache")]
fn from_cache(bytes: &[u8]) {
    _ = lab::decode_cache_entry(bytes);
    if let Ok(Some(answer)) = lab::unpack_answer(bytes, 1 << 20) {
        assert!(answer.len() <= 1 << 20);
    }
}

/// Whatever is understood is written and understood as the same.
fn comes_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(message) = serde_json::from_slice::<T>(bytes) else { return };
    let text = serde_json::to_vec(&message).expect("plain data");
    let again: T = serde_json::from_slice(&text).expect("its own text");
    assert_eq!(again, message);
}

fn check_errors(errors: &PlanErrors) {
    assert!(!errors.errors().is_empty());
    for error in errors.errors() {
        assert!(error.line >= 1 && error.column >= 1);
        assert!(!error.one_line().contains('\n'));
    }
    check(&errors.render());
}

/// Nothing in it acts on a terminal.
fn check(message: &str) {
    let active = message.chars().find(|c| *c != '\n' && is_active(*c));
    assert_eq!(active, None, "{message:?}");
}
