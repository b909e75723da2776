//! Draws a [`Scene`] in whatever room there is. Pure, but for the place of the first row shown.

use std::borrow::Cow;

use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::terminal::Frame;
use ratatui_core::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::report::shortened;

use super::super::screen::Palette;
use super::keys::Keys;
use super::state::{Headline, Scene, Tone};

/// In less room there is one line alone.
const MIN_COLUMNS: u16 = 50;
const MIN_LINES: u16 = 9;
/// Screens of this height or more have empty lines between parts.
const AIRY_LINES: u16 = 30;
/// Places and names of variants have a column of their own up to this part of the width.
const NAME_PART: usize = 5;
const MAX_NAME: usize = 28;
/// A picture of an interval is worth no fewer columns, and no more.
const PLOT_COLUMNS: [usize; 2] = [13, 61];
/// The values of both sides have columns where this much is left to the picture.
const ROOMY_PLOT: usize = 31;
/// How far from 1 a picture goes, in margins.
const REACH: f64 = 40.0;
const BAR_COLUMNS: usize = 24;

/// The capabilities of the terminal.
#[derive(Debug, Clone, Copy)]
pub struct Theme {
    pub palette: Palette,
    /// Else ASCII alone.
    pub unicode: bool,
}

/// The signs of pictures: done and left of a bar; the band of SAME, its middle, an interval and
/// the ratio.
struct Signs {
    done: char,
    left: char,
    band: char,
    middle: char,
    interval: char,
    ratio: char,
}

const UNICODE: Signs =
    Signs { done: '█', left: '░', band: '░', middle: '│', interval: '─', ratio: '•' };
const ASCII: Signs =
    Signs { done: '#', left: '.', band: ':', middle: '|', interval: '-', ratio: 'o' };

const KEYS: &str = "? help  q interrupt";

pub const HELP: &[&str] = &[
    "up down PgUp PgDn Home End   scroll",
    "q, Ctrl-C   interrupt: what was measured is stored, and schedlab run --resume",
    "            goes on; once more ends it at once",
    "Ctrl-Z      stop; fg goes on",
    "?           this, and back",
    "",
    "A row is a headline metric of a variant against the baseline: its change with",
    "the 95 % interval of this metric alone. The picture has less on the left, more",
    "on the right; the band in its middle is SAME, a difference too small to matter.",
    "Its scale is even inside the band, logarithmic outside; < and >: it goes on.",
    "",
    "so far      no look at the verdicts yet: an interval may still go anywhere",
    "BETTER WORSE SAME   shown, with the error rate of the whole table",
    "maybe open  not decided by the last look; schedlab help verdicts",
    "noted       what the last disturbed run had; a spoilt round is measured again",
];

impl Theme {
    fn signs(self) -> &'static Signs {
        if self.unicode { &UNICODE } else { &ASCII }
    }

    fn style(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Good => self.palette.foreground(Color::Green).add_modifier(Modifier::BOLD),
            Tone::Bad => self.palette.foreground(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Warning => self.palette.foreground(Color::Yellow),
            Tone::Faint => Style::new().add_modifier(Modifier::DIM),
        }
    }
}

pub fn draw(frame: &mut Frame, scene: &Scene, keys: &mut Keys, theme: Theme) {
    let area = frame.area();
    if area.width < MIN_COLUMNS || area.height < MIN_LINES {
        let now = scene.facts.iter().find(|(label, ..)| *label == "now");
        let now = now.map_or("", |(.., text)| text);
        let line = shortened(&format!("{}  {now}", scene.progress), area.width.into());
        return put(frame, area, vec![Line::raw(line)]);
    }
    let mut top = head(scene, area.width.into(), theme);
    if area.height >= AIRY_LINES {
        top.push(Line::default());
    }
    let room = usize::from(area.height).saturating_sub(top.len() + 1);
    let body = if keys.help {
        HELP.iter().map(|line| Line::raw(*line)).take(room).collect()
    } else {
        body(scene, (area.width.into(), room), keys, theme)
    };
    top.extend(body);
    put(frame, Rect { height: area.height - 1, ..area }, top);
    let foot = Rect { y: area.y + area.height - 1, height: 1, ..area };
    put(frame, foot, vec![foot_line(keys, area.width.into(), theme)]);
}

fn put(frame: &mut Frame, area: Rect, lines: Vec<Line>) {
    for (line, row) in lines.into_iter().zip(area.rows()) {
        frame.render_widget(line, row);
    }
}

/// Title, progress and facts.
fn head(scene: &Scene, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let signs = theme.signs();
    let done = (scene.share * BAR_COLUMNS as f64).floor() as usize;
    let bar = |sign: char, count: usize| sign.to_string().repeat(count);
    let bar = bar(signs.done, done) + &bar(signs.left, BAR_COLUMNS - done.min(BAR_COLUMNS));
    let progress = format!("{bar} {}", scene.progress);
    let title = shortened(&scene.title, columns);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = vec![Line::styled(title, bold), Line::raw(shortened(&progress, columns))];
    lines.extend(scene.facts.iter().map(|(label, tone, text)| {
        let text = shortened(text, columns.saturating_sub(LABEL_COLUMNS));
        Line::from(vec![
            Span::styled(format!("{label:LABEL_COLUMNS$}"), theme.style(Tone::Faint)),
            Span::styled(text, theme.style(*tone)),
        ])
    }));
    lines
}

const LABEL_COLUMNS: usize = 9;

/// The table: its heads and as many rows as there is room for.
fn body(
    scene: &Scene,
    (columns, room): (usize, usize),
    keys: &mut Keys,
    theme: Theme,
) -> Vec<Line<'static>> {
    let standing = Line::raw(shortened(&scene.standing, columns));
    if scene.rows.is_empty() {
        keys.page(0, 0);
        return vec![standing];
    }
    let layout = Layout::for_scene(scene, columns);
    let differs = |at: usize, of: fn(&Headline) -> &str| {
        at == 0 || of(&scene.rows[at - 1]) != of(&scene.rows[at])
    };
    let is_first = |at: usize| differs(at, |row| &row.place);
    // Each line belongs to a row, or to the place above it.
    let lines = (0..scene.rows.len()).flat_map(|at| {
        let place = (layout.place.is_none() && is_first(at)).then_some((at, true));
        place.into_iter().chain([(at, false)])
    });
    let lines: Vec<(usize, bool)> = lines.collect();
    let heads = [standing, layout.head(scene, theme)];
    let room = room.saturating_sub(heads.len());
    let top = keys.page(lines.len(), room);
    let shown = lines.into_iter().enumerate().skip(top).take(room);
    let shown = shown.map(|(line, (at, is_place))| match (&scene.rows[at], is_place) {
        (row, true) => Line::raw(shortened(&row.place, columns)),
        (row, false) => {
            // The first row shown repeats the words that the hidden rows above it have.
            let is_new = is_first(at) || line == top;
            layout.row(row, [is_new, is_new || differs(at, |row| &row.metric)], theme)
        }
    });
    heads.into_iter().chain(shown).collect()
}

fn foot_line(keys: &Keys, columns: usize, theme: Theme) -> Line<'static> {
    let shown = keys.shown().unwrap_or_default();
    let gap = columns.saturating_sub(KEYS.width() + shown.width());
    Line::styled(format!("{KEYS}{:gap$}{shown}", ""), theme.style(Tone::Faint))
}

/// The columns of the table.
struct Layout {
    /// None: places have lines of their own.
    place: Option<usize>,
    metric: usize,
    variant: usize,
    /// The widths for the baseline and the variant; 0: not shown.
    values: [usize; 2],
    change: usize,
    /// 0: not shown.
    plot: usize,
    verdict: usize,
}

impl Layout {
    fn for_scene(scene: &Scene, columns: usize) -> Layout {
        let name = (columns / NAME_PART).min(MAX_NAME);
        let widest = |of: &dyn Fn(&Headline) -> usize| scene.rows.iter().map(of).max().unwrap_or(0);
        let places = widest(&|row| row.place.width());
        let variant = widest(&|row| row.variant.as_ref().map_or(0, |name| name.width()));
        let mut layout = Layout {
            place: (places <= name).then_some(places),
            metric: widest(&|row| row.metric.width()).min(name.max(11)),
            variant: if variant > 0 { variant.clamp("variant".len(), name.max(7)) } else { 0 },
            values: [0, 1].map(|side| widest(&|row| row.values[side].width())),
            change: widest(&|row| change(row).width()),
            plot: 0,
            verdict: widest(&|row| row.word().width()),
        };
        let is_compared = layout.variant > 0;
        if !is_compared {
            layout.values[1] = 0;
            return layout;
        }
        layout.change = layout.change.max("to the baseline".len());
        layout.verdict = layout.verdict.max("verdict".len());
        let left = |layout: &Layout| columns.saturating_sub(layout.width() + 1);
        if left(&layout) < ROOMY_PLOT {
            layout.values = [0; 2];
        }
        let plot = left(&layout).min(PLOT_COLUMNS[1]);
        // Odd, so that there is a middle.
        layout.plot = if plot < PLOT_COLUMNS[0] { 0 } else { plot - (plot + 1) % 2 };
        layout
    }

    fn width(&self) -> usize {
        let [one, other] = self.values;
        let place = self.place.unwrap_or(1);
        let all =
            [place, self.metric, self.variant, one, other, self.change, self.plot, self.verdict];
        let shown = all.into_iter().filter(|columns| *columns > 0);
        shown.map(|columns| columns + 1).sum::<usize>().saturating_sub(1)
    }

    fn head(&self, scene: &Scene, theme: Theme) -> Line<'static> {
        let [less, same, more] = ["less", "same", "more"];
        let side = self.plot.saturating_sub(same.len()) / 2;
        let plot = format!("{less:<side$}{same}{more:>0$}", self.plot.saturating_sub(side + 4));
        let against = if self.variant > 0 { "variant" } else { "" };
        let change = if self.variant > 0 { "to the baseline" } else { "" };
        let cells = [
            (self.place.unwrap_or(1), Cow::from("")),
            (self.metric, "".into()),
            (self.variant, against.into()),
            (self.values[0], scene.baseline.clone().into()),
            (self.values[1], "variant".into()),
            (self.change, change.into()),
            (self.plot, plot.into()),
            (self.verdict, "verdict".into()),
        ];
        let cells = cells.into_iter().filter(|(columns, _)| *columns > 0);
        let text: Vec<String> = cells.map(|(columns, text)| padded(&text, columns)).collect();
        Line::styled(text.join(" "), theme.style(Tone::Faint))
    }

    /// `shown`: whether the place and the metric are not those of the row before.
    fn row(&self, row: &Headline, shown: [bool; 2], theme: Theme) -> Line<'static> {
        let place = if shown[0] && self.place.is_some() { &*row.place } else { "" };
        let metric = if shown[1] { &*row.metric } else { "" };
        let left = [
            (self.place.unwrap_or(1), place),
            (self.metric, metric),
            (self.variant, row.variant.as_deref().unwrap_or_default()),
            (self.values[0], &row.values[0]),
            (self.values[1], &row.values[1]),
            (self.change, &change(row)),
        ];
        let left = left.into_iter().filter(|(columns, _)| *columns > 0);
        let mut spans: Vec<Span> =
            left.map(|(columns, text)| Span::raw(padded(text, columns) + " ")).collect();
        if self.plot > 0 {
            spans.extend(picture(row, self.plot, theme));
            spans.push(Span::raw(" "));
        }
        if self.verdict > 0 {
            spans.push(Span::styled(padded(row.word(), self.verdict), theme.style(row.tone)));
        }
        Line::from(spans)
    }
}

/// `-8.7 % +-4.7`.
fn change(row: &Headline) -> String {
    match &row.variant {
        Some(_) if row.change.is_empty() => "not compared".to_string(),
        _ => row.change.clone(),
    }
}

/// Cut to its column, or filled up.
fn padded(text: &str, columns: usize) -> String {
    let text = shortened(text, columns);
    let gap = columns.saturating_sub(text.width());
    text + &" ".repeat(gap)
}

/// The interval over the band of SAME.
fn picture(row: &Headline, columns: usize, theme: Theme) -> Vec<Span<'static>> {
    let signs = theme.signs();
    let half = (columns / 2) as f64;
    let column = |ratio: f64| half + half * position(ratio, row.margin);
    let band = half * position(1.0 + row.margin, row.margin);
    let mut cells: Vec<(char, Tone)> = (0..columns)
        .map(|at| match (at as f64 - half).abs() {
            0.0 => (signs.middle, Tone::Faint),
            off if off <= band => (signs.band, Tone::Faint),
            _ => (' ', Tone::Faint),
        })
        .collect();
    if let Some(ratio) = &row.ratio {
        let within = |column: f64| column.round().clamp(0.0, columns as f64 - 1.0) as usize;
        let tone = if row.tone == Tone::Faint { Tone::Plain } else { row.tone };
        if let Some(interval) = ratio.interval {
            let [low, high] = [interval.low, interval.high].map(column);
            cells[within(low)..=within(high)].fill((signs.interval, tone));
            if low < 0.0 {
                cells[0] = ('<', tone);
            }
            if high > columns as f64 - 1.0 {
                cells[columns - 1] = ('>', tone);
            }
        }
        let at = column(ratio.ratio);
        if (0.0..=columns as f64 - 1.0).contains(&at) {
            cells[within(at)] = (signs.ratio, tone);
        }
    }
    let alike = cells.chunk_by(|(_, one), (_, other)| one == other);
    let spans = alike.map(|cells| {
        let text: String = cells.iter().map(|(sign, _)| sign).collect();
        Span::styled(text, theme.style(cells[0].1))
    });
    spans.collect()
}

/// Where a ratio lies, from -1 to 1 within [`REACH`] margins: even near 1, logarithmic further out.
fn position(ratio: f64, margin: f64) -> f64 {
    (ratio.ln() / margin.ln_1p()).asinh() / REACH.asinh()
}
