//! `schedlab import`: `composite.xml`, the result file of the Phoronix Test Suite.
//!
//! Input: the text of the file. Output: its [`Results`], or what is wrong and where. Pure.
//!
//! Facts of the format: the suite's schema `result-file.xsd`, and what its classes write and read.
//! `System` has the facts of one identifier, as `Key: value, Key: value`. `Result` has a test
//! with its options and an `Entry` for each identifier: `Value`, and `RawString` with the value of
//! each of its runs between colons. An entry without a value is a test that failed.

use std::collections::BTreeMap;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use roxmltree::{Document, Error, Node, ParsingOptions};

use crate::model::{CpuSet, Direction, Environment, MAX_CPU, Reading, clean_start};
use crate::report::clean;

use super::CompatError;
use super::imported::{self, HINT, Results, System, WorkResults, check_size, fact, name, number};

/// Characters of a text of the file in a message.
const MAX_CHARS: usize = 200;
const ROOT: &str = "PhoronixTestSuite";
/// Elements and texts.
const MAX_NODES: u32 = 1_000_000;
/// The suite writes neither. The parser compares all attributes of a tag with each other, and namespaces with
/// those around them.
const MAX_ATTRIBUTES: usize = 10_000;
const MAX_NAMESPACES: usize = 100;
/// The form in which the suite writes a mean.
const AVERAGE: &str = r"^\s*Average: ([0-9.]+)";

/// Whether these bytes begin like XML: no other imported file begins so.
pub fn is_xml(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    bytes.trim_ascii_start().starts_with(b"<")
}

/// `file`: its name, for messages.
pub fn read(text: &str, file: &str) -> Result<Results, CompatError> {
    check_signs(text, file)?;
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..Default::default() };
    let document = Document::parse_with_options(text, options).map_err(|why| unread(file, &why))?;
    let root = document.root_element();
    if !root.has_tag_name(ROOT) {
        let found = clean_start(root.tag_name().name(), MAX_CHARS);
        let text = format!("{file}: its outermost element is `{found}`, not `{ROOT}`");
        return Err(CompatError::usage(text, HINT));
    }
    let generated = child(root, "Generated");
    let title =
        name(&format!("{file}: the title"), generated.map_or("", |of| text_of(of, "Title")))?;
    let title = if title.is_empty() { "Phoronix Test Suite".to_string() } else { title };
    let mut results = Results {
        tool: "phoronix",
        title,
        started_unix_ns: 0,
        systems: Vec::new(),
        works: Vec::new(),
        left_out: BTreeMap::new(),
    };
    let known = systems(root, file)?;
    let mut found = Columns::default();
    let mut arguments = Vec::new();
    for (at, result) in children(root, "Result").enumerate() {
        let place = format!("{file}: result {}", at + 1);
        match work(result, &place, &mut found)? {
            Ok(work) => {
                results.works.push(work);
                arguments.push(name(&format!("{place}: Arguments"), text_of(result, "Arguments"))?);
            }
            Err(why) => *results.left_out.entry(why).or_default() += 1,
        }
        check_size(file, results.works.len(), found.names.len())?;
    }
    name_arguments(&mut results.works, arguments);
    let found = found.names;
    // Entries of other systems begin further down.
    for work in &mut results.works {
        work.values.resize(found.len(), None);
    }
    let modified = generated.and_then(|of| unix_ns(text_of(of, "LastModified")));
    let first = found.iter().find_map(|name| known.get(name)?.0);
    results.started_unix_ns = first.or(modified).unwrap_or(0);
    results.systems = found.into_iter().map(|name| system(name, &known)).collect();
    Ok(results)
}

/// Fails if the parser would take long, or much memory before it has read anything.
fn check_signs(text: &str, file: &str) -> Result<(), CompatError> {
    let is_quoted = |value: &&str| value.trim_start().starts_with(['"', '\'']);
    let counts = [
        ("attributes", text.split('=').skip(1).filter(is_quoted).count(), MAX_ATTRIBUTES),
        ("namespaces", text.matches("xmlns").count(), MAX_NAMESPACES),
        ("`=`", text.matches('=').count(), MAX_NODES as usize),
        // An element has two of them.
        ("`<`", text.matches('<').count(), 2 * MAX_NODES as usize),
    ];
    let Some((what, count, max)) = counts.into_iter().find(|(_, count, max)| count > max) else {
        return Ok(());
    };
    let text = format!("{file}: it has {count} {what}");
    Err(CompatError::usage(text, format!("at most {max} are read: import a part of it")))
}

/// Puts arguments into names that results have in common.
fn name_arguments(works: &mut [WorkResults], arguments: Vec<String>) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for work in works.iter() {
        *counts.entry(work.name.clone()).or_default() += 1;
    }
    for (work, arguments) in works.iter_mut().zip(arguments) {
        if counts[&work.name] > 1 && !arguments.is_empty() {
            work.name = format!("{} {arguments}", work.name).trim_start().to_string();
        }
    }
}

/// Identifiers that have entries, in their order.
#[derive(Default)]
struct Columns {
    names: Vec<String>,
    numbers: BTreeMap<String, usize>,
}

impl Columns {
    fn number(&mut self, name: String) -> usize {
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            self.names.len() - 1
        })
    }
}

/// The time and the environment of each system, by identifier.
type Systems = BTreeMap<String, (Option<u64>, Environment)>;

fn systems(root: Node, file: &str) -> Result<Systems, CompatError> {
    let mut systems = Systems::new();
    for (at, system) in children(root, "System").enumerate() {
        let place = |what: &str| format!("{file}: system {}: {what}", at + 1);
        let identifier = name(&place("Identifier"), text_of(system, "Identifier"))?;
        let hardware = fact(&place("Hardware"), text_of(system, "Hardware"))?;
        let software = fact(&place("Software"), text_of(system, "Software"))?;
        let started = unix_ns(text_of(system, "TimeStamp"));
        systems.entry(identifier).or_insert((started, environment(&hardware, &software)));
        check_size(file, 1, systems.len())?;
    }
    Ok(systems)
}

fn system(name: String, known: &Systems) -> System {
    let nothing = || environment("", "");
    let environment = known.get(&name).map_or_else(nothing, |(_, environment)| environment.clone());
    System { name, environment }
}

fn environment(hardware: &str, software: &str) -> Environment {
    let unknown = || imported::UNKNOWN.to_string();
    let kernel = value_of(software, "Kernel").and_then(|kernel| kernel.split(' ').next());
    let processor = value_of(hardware, "Processor");
    let cpus = processor.and_then(threads).unwrap_or(0);
    // The suite names no machine: two of them most likely differ in the board.
    let hostname = value_of(hardware, "Motherboard").map_or_else(unknown, str::to_string);
    let kernel = kernel.map_or_else(unknown, str::to_string);
    let known = imported::environment(hostname, kernel, (0..cpus).collect::<CpuSet>());
    match processor {
        Some(model) => Environment { cpu_model: Reading::Known(model.to_string()), ..known },
        None => known,
    }
}

/// The value of a key in `Key: value, Key: value`.
fn value_of<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let mut parts = text.split(", ").filter_map(|part| part.split_once(": "));
    let (_, value) = parts.find(|(found, _)| found.trim() == key)?;
    Some(value.trim()).filter(|value| !value.is_empty())
}

/// `AMD Ryzen 9 5950X @ 3.40GHz (16 Cores / 32 Threads)`: 32.
fn threads(processor: &str) -> Option<u32> {
    let (_, counts) = processor.rsplit_once('(')?;
    let last = counts.trim_end_matches(')').rsplit('/').next()?;
    let last = last.trim().strip_suffix("s")?;
    let number = last.strip_suffix(" Thread").or_else(|| last.strip_suffix(" Core"))?;
    number.parse().ok().filter(|count| *count <= MAX_CPU)
}

/// The suite writes the local time of the machine without its zone: it is taken for UTC.
fn unix_ns(text: &str) -> Option<u64> {
    let moment: DateTime = text.trim().parse().ok()?;
    u64::try_from(moment.to_zoned(TimeZone::UTC).ok()?.timestamp().as_nanosecond()).ok()
}

/// One `Result`, or why it is not taken. Identifiers that it is the first to have are added to
/// `systems`.
fn work(
    result: Node,
    place: &str,
    systems: &mut Columns,
) -> Result<Result<WorkResults, String>, CompatError> {
    let of = |what: &str| name(&format!("{place}: {what}"), text_of(result, what));
    let (identifier, format) = (of("Identifier")?, of("DisplayFormat")?);
    if identifier.is_empty() {
        return Ok(Err("it has no Identifier of a test".to_string()));
    }
    // Others are series, pictures, or no numbers.
    if !(format.is_empty() || format.ends_with("BAR_GRAPH") || format.ends_with("BOX_PLOT")) {
        return Ok(Err(format!("its DisplayFormat is {format}")));
    }
    let title = format!("{} {}", of("Title")?, of("Description")?);
    let place = format!("{place} `{}`", clean(title.trim()));
    let mut values = vec![None; systems.names.len()];
    let entries = child(result, "Data").into_iter().flat_map(|data| children(data, "Entry"));
    for entry in entries {
        let system = name(&format!("{place}: Identifier"), text_of(entry, "Identifier"))?;
        let shown = clean(&system);
        let at = systems.number(system);
        values.resize(systems.names.len(), None);
        if values[at].is_some() {
            let text = format!("{place}: two entries are of `{shown}`");
            return Err(CompatError::usage(text, HINT));
        }
        values[at] = Some(measured(entry, &format!("{place}: `{shown}`"))?);
    }
    let direction = match of("Proportion")?.as_str() {
        "HIB" => Direction::HigherIsBetter,
        "LIB" => Direction::LowerIsBetter,
        _ => Direction::Neutral,
    };
    Ok(Ok(WorkResults {
        name: title.trim().to_string(),
        scale: of("Scale")?,
        direction,
        command: command(&identifier, &of("Arguments")?),
        pattern: Some(AVERAGE),
        values,
    }))
}

/// Other arguments mean another load. The suite takes no arguments, so these do not reach it.
fn command(identifier: &str, arguments: &str) -> Vec<String> {
    let setting = format!("PTS_ARGUMENTS={arguments}");
    let environment: &[&str] = if arguments.is_empty() { &[] } else { &["env", &setting] };
    let command = ["phoronix-test-suite", "batch-run", identifier];
    environment.iter().chain(&command).map(|word| word.to_string()).collect()
}

/// The value of each run, or the value of all runs if the file has no more.
fn measured(entry: Node, place: &str) -> Result<Result<Vec<f64>, String>, CompatError> {
    let (all, raw) = (text_of(entry, "Value"), text_of(entry, "RawString"));
    let written = |text: &str| !text.trim().is_empty();
    if !written(all) {
        return Ok(Err("the file has no value: the test failed".to_string()));
    }
    let each: Vec<&str> = raw.split(':').filter(|text| written(text)).collect();
    let (what, each) = if each.is_empty() { ("Value", vec![all]) } else { ("RawString", each) };
    let place = format!("{place}: {what}");
    each.into_iter().map(|text| number(&place, text)).collect::<Result<_, _>>().map(Ok)
}

fn children<'a, 'i>(of: Node<'a, 'i>, tag: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    of.children().filter(move |node| node.has_tag_name(tag))
}

fn child<'a, 'i>(of: Node<'a, 'i>, tag: &'static str) -> Option<Node<'a, 'i>> {
    children(of, tag).next()
}

/// Empty if there is no such element.
fn text_of<'a>(of: Node<'a, '_>, tag: &str) -> &'a str {
    let found = of.children().find(|node| node.has_tag_name(tag));
    found.and_then(|node| node.text()).unwrap_or_default()
}

fn unread(file: &str, why: &Error) -> CompatError {
    let text = format!(
        "{file}: it is not XML that is read here: {}",
        clean_start(&why.to_string(), MAX_CHARS)
    );
    let hint = match why {
        Error::DtdDetected => "the suite writes no DOCTYPE: entities of files are not expanded",
        _ => "is the whole file there? The suite keeps it as test-results/NAME/composite.xml",
    };
    CompatError::usage(text, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::Whose;

    fn entry(system: &str, value: &str, raw: &str) -> String {
        format!(
            "<Entry><Identifier>{system}</Identifier><Value>{value}</Value>\
             <RawString>{raw}</RawString></Entry>"
        )
    }

    fn result(about: &str, entries: &[String]) -> String {
        format!("<Result>{about}<Data>{}</Data></Result>", entries.concat())
    }

    fn file(parts: &str) -> String {
        format!("<?xml version=\"1.0\"?>\n<PhoronixTestSuite>{parts}</PhoronixTestSuite>")
    }

    const TEST: &str = "<Identifier>pts/x-1.0.0</Identifier><Title>X</Title>\
        <Description>Threads: 4</Description><Scale>Seconds</Scale><Proportion>LIB</Proportion>\
        <DisplayFormat>BAR_GRAPH</DisplayFormat>";

    fn refused(text: &str) -> String {
        match read(text, "f.xml") {
            Ok(results) => panic!("{} works were read", results.works.len()),
            Err(error) => error.text(Whose::User),
        }
    }

    #[test]
    fn entries_are_systems_and_runs_are_values() {
        let system = "<System><Identifier>b</Identifier><Hardware>Processor: A 1 @ 2GHz (4 Cores / 8 \
            Threads), Motherboard: M&amp;M, Memory: 32GB</Hardware><Software>OS: Y, Kernel: 6.6.1-x (x86_64)\
            </Software><TimeStamp>1970-01-01 00:00:02</TimeStamp></System>";
        let first = result(TEST, &[entry("a", "2", "1:2.5::3"), entry("b", "7", "")]);
        let second = TEST.replace("LIB", "HIB").replace("Threads: 4", "");
        let second = result(&second, &[entry("c", "", ""), entry("a", "1", "")]);
        let series = TEST.replace("BAR_GRAPH", "LINE_GRAPH");
        let text = file(&[system, &first, &second, &result(&series, &[])].concat());
        let results = read(&text, "f.xml").unwrap();
        let names: Vec<&str> = results.systems.iter().map(|system| system.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let [one, other] = results.works.as_slice() else { panic!("two works") };
        assert_eq!((one.name.as_str(), one.direction), ("X Threads: 4", Direction::LowerIsBetter));
        assert_eq!(one.values, [Some(Ok(vec![1.0, 2.5, 3.0])), Some(Ok(vec![7.0])), None]);
        assert_eq!((other.name.as_str(), other.direction), ("X", Direction::HigherIsBetter));
        assert_eq!(other.values[..2], [Some(Ok(vec![1.0])), None]);
        assert!(matches!(other.values[2], Some(Err(_))), "a test that failed");
        assert_eq!(results.left_out["its DisplayFormat is LINE_GRAPH"], 1);
        assert_eq!(results.started_unix_ns, 2_000_000_000);
        let known = &results.systems[1].environment;
        assert_eq!((known.hostname.as_str(), known.kernel_release.as_str()), ("M&M", "6.6.1-x"));
        assert_eq!(known.topology.online, "0-7".parse().unwrap());
        assert!(matches!(&known.cpu_model, Reading::Known(model) if model.starts_with("A 1 @")));
        let unknown = &results.systems[0].environment;
        assert!(matches!(unknown.cpu_model, Reading::Unknown(_)), "nothing of this machine");
        assert_eq!(unknown.hostname, imported::UNKNOWN);
    }

    #[test]
    fn arguments_are_a_part_of_the_load_and_of_names_that_are_alike() {
        let with = |arguments: &str, description: &str| {
            let about = TEST.replace("Threads: 4", description);
            let about =
                about.replace("<Scale>", &format!("<Arguments>{arguments}</Arguments><Scale>"));
            result(&about, &[entry("a", "1", "")])
        };
        let parts = [with("-j1", "D"), with(" -j2", "D"), with("-j2", "E"), with("", "D")];
        let works = read(&file(&parts.concat()), "f.xml").unwrap().works;
        let names: Vec<&str> = works.iter().map(|work| work.name.as_str()).collect();
        assert_eq!(names, ["X D -j1", "X D -j2", "X E", "X D"]);
        let suite = ["phoronix-test-suite", "batch-run", "pts/x-1.0.0"];
        assert_eq!(works[3].command, suite);
        for (at, arguments) in [(0, "-j1"), (1, "-j2"), (2, "-j2")] {
            let setting = format!("PTS_ARGUMENTS={arguments}");
            assert_eq!(works[at].command, [&["env", &setting], &suite[..]].concat());
        }
    }

    #[test]
    fn what_takes_the_parser_long_is_refused_before_it() {
        let attributes =
            |name: &str| (0..20_000).map(|at| format!(" {name}{at} =\n'1'")).collect::<String>();
        let cases = [
            (format!("<a{}/>", attributes("b")), "f.xml: it has 20000 attributes"),
            ("<a xmlns:b=\"c\">".repeat(101), "f.xml: it has 101 namespaces"),
            (file(&"=".repeat(1_000_001)), "f.xml: it has 1000002 `=`"),
            (file(&format!("<!--{}-->", "<".repeat(2_000_000))), "f.xml: it has 2000004 `<`"),
        ];
        for (text, expected) in cases {
            let shown = refused(&text);
            assert!(shown.starts_with(expected) && shown.contains("\nhint: at most"), "{shown}");
        }
        let entries: Vec<String> = (0..400).map(|at| entry(&at.to_string(), "1", "")).collect();
        let shown = refused(&file(&(result(TEST, &entries) + &result(TEST, &[]))));
        assert!(shown.starts_with("f.xml: it has 2 works or more, of 400 systems"), "{shown}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let of = |system: &str, value: &str, raw: &str| {
            file(&result(TEST, &[entry(system, value, raw), entry("b", "1", "")]))
        };
        let bomb = "<!DOCTYPE x [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]>".to_string();
        let elsewhere = "<!DOCTYPE x SYSTEM \"file:///etc/passwd\">".to_string();
        let cases = [
            (
                of("a", "PASS", ""),
                "f.xml: result 1 `X Threads: 4`: `a`: Value: `PASS` is not a number",
            ),
            (of("a", "1", "1:inf"), "`a`: RawString: `inf` is not a number"),
            (of("b", "1", ""), "two entries are of `b`"),
            (of("a\u{202e}", "1", ""), "result 1 `X Threads: 4`: Identifier: `a\\u{202e}` holds"),
            (of(&"a".repeat(1 << 20), "1", ""), "Identifier: it has 1048576 characters"),
            (of("a&#27;", "1", ""), "f.xml: it is not XML that is read here: "),
            (bomb + &file(""), "DTD"),
            (elsewhere + &file(""), "DTD"),
            (
                file("<Result>").replace("</Phoronix", "<"),
                "f.xml: it is not XML that is read here: ",
            ),
            ("<html>x</html>".to_string(), "its outermost element is `html`"),
            ("<a>".repeat(100_000) + &"</a>".repeat(100_000), "its outermost element is `a`"),
        ];
        for (text, expected) in cases {
            let shown = refused(&text);
            assert!(shown.contains(expected) && shown.contains("\nhint: "), "{expected}: {shown}");
            assert!(shown.len() < 600 && !shown.contains('\u{1b}'), "{shown}");
        }
    }

    #[test]
    fn threads_are_counted_where_they_are_named() {
        let cases: &[(&str, Option<u32>)] = &[
            ("A 5950X @ 3.40GHz (16 Cores / 32 Threads)", Some(32)),
            ("2 x B (TM) @ 2GHz (4 Cores)", Some(4)),
            ("C @ 2GHz (1 Core / 2 Threads)", Some(2)),
            ("D (1 Core)", None),
            ("E", None),
            ("F (99999999 Cores)", None),
        ];
        for (processor, expected) in cases {
            assert_eq!(threads(processor), *expected, "{processor}");
        }
    }
}
