//! How an analysis is written: its format, its detail, and where it goes.

use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::analysis::Analysis;
use crate::model::{Judged, SampledPlan, clean, clean_path};
use crate::report::{self, Format, Options, OtherFormats, RenderOther};
use crate::session::{Database, Problem, SessionError, unknown_name};
use crate::store::Store;
use crate::sys::replace::{self, NewFile};

use super::pictures::pictures;
use super::{Failure, Offering, help, terminal};
use crate::model::quoted;

/// How an analysis is written.
#[derive(Args, Clone, Default)]
pub struct Output {
    /// In place of the plan's own format, or else text: `schedlab list formats`; -o says it, too
    #[arg(help_heading = help::OUTPUT, long, value_name = "NAME", value_parser = format(),
        hide_possible_values = true)]
    format: Option<&'static Format>,
    /// More detail; twice for all there is
    #[arg(help_heading = help::OUTPUT, short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Write the report to this file, in the format that its ending says: page.html, report.md, chart.png
    #[arg(help_heading = help::OUTPUT, short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Output {
    /// One more file in this format, however its name ends.
    pub fn to_file(format: &str, file: &Path) -> Output {
        let output = Some(file.to_path_buf());
        Output { format: report::find(format), verbose: 0, output }
    }

    pub fn columns(&self) -> usize {
        terminal::width()
    }

    /// By its name, else by the ending of the file's name.
    fn asked(&self) -> Option<&'static Format> {
        self.format.or_else(|| {
            let ending = self.ending()?;
            report::formats().iter().copied().find(|format| ending_of(format.name) == ending)
        })
    }

    /// The ending of the file's name, in small letters.
    fn ending(&self) -> Option<String> {
        Some(self.file()?.extension()?.to_string_lossy().to_lowercase())
    }

    /// Fails where the ending of the file's name has to say the format, and says none.
    fn check_ending(&self) -> Result<(), SessionError> {
        let Some(ending) = self.ending().filter(|_| self.asked().is_none()) else { return Ok(()) };
        let known: Vec<&str> =
            report::formats().iter().map(|format| ending_of(format.name)).collect();
        let text = format!("no format has the ending `{}`", clean(&ending));
        let hint = format!("one of {}, or say it: --format text", known.join(", "));
        Err(SessionError::usage(text, hint))
    }

    /// The usual report, where what goes to the file is a page or a picture.
    pub fn usual_report(&self, plans: &[SampledPlan]) -> Option<Output> {
        let is_drawn = self.file().is_some() && self.format_for(plans).draws();
        let format = Some(report::formats()[0]);
        is_drawn.then(|| Output { format, output: None, ..self.clone() })
    }

    /// Whether the report of these plans shows every metric.
    pub fn explains(&self, judged: &Judged, plans: &[SampledPlan]) -> bool {
        (self.format_for(plans).explains)(&self.options(judged))
    }

    /// The one that the user asks for, else the one that all of the plans ask for.
    fn format_for(&self, plans: &[SampledPlan]) -> &'static Format {
        let mut asked = plans.iter().map(|plan| plan.plan.report_format.as_deref());
        let first = asked.next().flatten();
        let agreed = first.filter(|first| asked.all(|other| other == Some(first)));
        // A plan may be stored by a later version that has more formats.
        let format = self.asked().or_else(|| agreed.and_then(report::find));
        format.unwrap_or(report::formats()[0])
    }

    /// `None`: standard output, also as `-`.
    pub fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// Says where the report is, unless it is on standard output.
    pub fn say_file(&self, is_wanted: bool) {
        if let Some(path) = self.file().filter(|_| is_wanted) {
            terminal::message(&format!("the report is in {}", clean_path(path)));
        }
    }

    /// Fails where the file cannot be written or is one of `others`, before anything is measured.
    pub fn check_file<'p>(
        &self,
        others: impl IntoIterator<Item = &'p Path>,
    ) -> Result<(), SessionError> {
        self.check_ending()?;
        let Some(path) = self.file() else { return Ok(()) };
        let meant = |path: &Path| replace::meant(path).ok().flatten();
        let own = meant(path);
        let is_it = |other: &&Path| own.is_some() && meant(other) == own;
        if let Some(other) = others.into_iter().find(is_it) {
            let shown = other.display().to_string();
            let text = format!("`{}` is needed, and would be written over", clean(&shown));
            return Err(SessionError::usage(text, "name another file for what is written"));
        }
        // The reader of a pipe waits for the report.
        if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            return Ok(());
        }
        NewFile::begin(path).map(drop).map_err(|error| SessionError::unwritten(path, &error))
    }

    /// Judged metrics are shown too.
    fn options(&self, judged: &Judged) -> Options {
        let color = self.file().is_none() && terminal::color(&io::stdout());
        let verbose = self.verbose.max(u8::from(judged.all_metrics));
        Options { width: terminal::width(), color, verbose }
    }

    pub fn format_name(&self) -> &'static str {
        self.asked().unwrap_or(report::formats()[0]).name
    }

    /// The function for the format that is asked for, of something that has these alone.
    pub fn other<T: ?Sized>(
        &self,
        what: &str,
        formats: &OtherFormats<T>,
    ) -> Result<RenderOther<T>, Failure> {
        let name = self.format_name();
        let found = formats.iter().find(|(own, _)| *own == name);
        let names = || formats.iter().map(|(name, _)| *name);
        let unknown = || Failure::unknown(what, name, names(), "");
        found.map(|(_, render)| *render).ok_or_else(unknown)
    }

    /// Writes to the file, or to standard output.
    pub fn write_by(
        &self,
        judged: &Judged,
        render: impl FnOnce(&Options, &mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.check_ending()?;
        let options = self.options(judged);
        let Some(path) = self.file() else {
            let mut out = BufWriter::new(io::stdout().lock());
            render(&options, &mut out)?;
            return Ok(out.flush()?);
        };
        Ok(replace::replace(path, |out| render(&options, out))
            .map_err(|error| SessionError::unwritten(path, &error))?)
    }

    /// Writes the analyses of these plans, with what charts are drawn from where the format has charts.
    pub fn write(
        &self,
        judged: &Judged,
        store: &Store,
        analyses: &mut [Analysis],
        plans: &[SampledPlan],
    ) -> Result<(), Failure> {
        let format = self.format_for(plans);
        if format.is_binary() && self.file().is_none() && io::stdout().is_terminal() {
            let hint = format!("write it to a file: -o chart.{}", format.name);
            return Err(Failure::usage("an image is nothing for a terminal", hint));
        }
        if format.draws() {
            for analysis in analyses.iter_mut() {
                analysis.pictures = pictures(store, analysis)?;
            }
        }
        self.write_by(judged, |options, out| format.render(analyses, options, out))
    }

    /// The words that make a command read the same store and write the same format; a terminal gets text in
    /// place of what went to a file.
    pub fn words(&self, db: &Database) -> String {
        let format = self.format.filter(|_| self.file().is_none()).map(|format| format.name);
        let format = format.filter(|format| *format != report::formats()[0].name);
        let format = format.map(|format| format!(" --format {}", quoted(format)));
        format!("{}{}", format.unwrap_or_default(), db.words())
    }
}

/// How the name of a file of this format ends.
fn ending_of(format: &str) -> &str {
    match format {
        "markdown" => "md",
        "text" => "txt",
        "junit" => "xml",
        name => name,
    }
}

type ParseFormat = fn(&str) -> Result<&'static Format, Problem>;

/// The name of a format.
fn format() -> Offering<ParseFormat> {
    let words = || report::formats().iter().map(|format| format.name).collect();
    Offering { parser: parse_format, words }
}

fn parse_format(name: &str) -> Result<&'static Format, Problem> {
    let names = || report::formats().iter().map(|format| format.name);
    report::find(name).ok_or_else(|| unknown_name("format", name, names(), ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(format: Option<&'static str>, file: &str) -> Output {
        let format = format.and_then(report::find);
        Output { format, verbose: 0, output: Some(PathBuf::from(file)) }
    }

    #[test]
    fn the_ending_of_a_file_says_its_format_in_any_case_or_is_refused() {
        for (file, expected) in [
            ("page.HTML", "html"),
            ("a.b/report.Md", "markdown"),
            ("results.xml", "junit"),
            ("x.txt", "text"),
            ("report", "text"),
            ("-", "text"),
        ] {
            let own = output(None, file);
            assert_eq!(own.format_name(), expected, "{file}");
            assert!(own.check_ending().is_ok(), "{file}");
        }
        for wrong in ["x.pdf", "x.foo", "x.jsonl", "x.HTM"] {
            let said = output(None, wrong).check_ending().unwrap_err().to_string();
            assert!(said.contains("md, html") && said.contains("--format text"), "{said}");
            assert!(output(Some("text"), wrong).check_ending().is_ok());
        }
    }

    #[test]
    fn a_command_again_puts_no_page_on_a_terminal() {
        let db = Database::default();
        for (format, file, expected) in [
            (None, "host.html", ""),
            (Some("html"), "host.html", ""),
            (Some("html"), "-", " --format html"),
            (Some("text"), "-", ""),
        ] {
            assert_eq!(output(format, file).words(&db), expected, "{format:?} {file}");
        }
    }
}
