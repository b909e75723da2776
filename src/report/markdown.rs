//! `markdown`: the headline table and the answer for an issue, a merge request or a wiki. Pure.

use std::io::{self, Write};

use crate::analysis::{Analysis, Family};

use super::answer::{self, View};
use super::hosts;
use super::layout::{Data, Page, clean, replaced};
use super::numbers::{Change, Scale};
use super::phrases;
use super::{Format, Options, Render};

pub const MARKDOWN: Format = Format {
    name: "markdown",
    about: "the table and the answer for an issue or a merge request",
    explains: |_| false,
    render: Render::Each(write),
};

fn write(analysis: &Analysis, _: &Options, out: &mut dyn Write) -> io::Result<()> {
    let names = phrases::names(&analysis.sides, usize::MAX, clean, "");
    if let [plan] = analysis.plans.as_slice() {
        writeln!(out, "**{}**\n", cell(&plan.title))?;
        writeln!(out, "{}\n", cell(&phrases::plan(analysis, plan)))?;
    }
    if let Some(hosts) = phrases::over_hosts(analysis) {
        writeln!(out, "{}\n", cell(&hosts))?;
    }
    let shown: Vec<String> = names.iter().map(|name| cell(name)).collect();
    writeln!(out, "| | metric | {} |", shown.join(" | "))?;
    writeln!(out, "|---|---|{}", "---:|".repeat(names.len()))?;
    for (work, set, row) in analysis.rows_of(Family::Headline) {
        let scale = Scale::of_row(row);
        let mut cells = vec![
            cell(&phrases::place(work, set)),
            cell(&row.kind.name),
            scale.with_suffix(row.cells[0].median),
        ];
        cells.extend(row.cells.iter().skip(1).map(|of| {
            let effect = of.judged.as_ref().and_then(|judged| judged.effect.ok());
            let change =
                effect.map(|effect| Change::from_effect(&effect, row.kind.unit).with_interval());
            let verdict = phrases::verdict(analysis, row, of).unwrap_or_default();
            let shown = change.unwrap_or_else(|| scale.with_suffix(of.median));
            let bold = if phrases::is_good(row, of).is_some() { "**" } else { "" };
            let verdict = cell(&verdict);
            format!("{shown} {bold}{verdict}{bold}").trim_end().to_string()
        }));
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    writeln!(out)?;
    for (_, word, text) in phrases::folded_notes(analysis, |note| answer::is_shown(note, 0)) {
        writeln!(out, "- {word}: {}", cell(&text))?;
    }
    for Data { head, rows } in hosts::grids(View { analysis, names: &names }, false) {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
            format!("| {} |", cells.join(" | "))
        };
        writeln!(out, "\n{}\n|{}", line(&head), "---|".repeat(head.len()))?;
        rows.iter().try_for_each(|row| writeln!(out, "{}", line(row)))?;
    }
    let mut page = Page::new(&Options::default());
    let names = phrases::names(&analysis.sides, page.width() / 3, clean, "…");
    answer::write(View { analysis, names: &names }, None, &mut page);
    // A fence that no name can close.
    let longest = page.text().split(|c| c != '`').map(str::len).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    write!(out, "\n{fence}\n{}{fence}\n", page.text())
}

/// Text from outside in a cell: nothing in it is markup.
pub(super) fn cell(text: &str) -> String {
    replaced(&clean(text), |c| match c {
        '<' => Some("&lt;".to_string()),
        '>' => Some("&gt;".to_string()),
        '&' => Some("&amp;".to_string()),
        c => "|\\`*_[]#!~@".contains(c).then(|| format!("\\{c}")),
    })
}

#[cfg(test)]
mod tests;
