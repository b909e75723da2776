//! The live view in a terminal in memory, of plans that the null backend runs.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ratatui_core::backend::TestBackend;
use ratatui_core::buffer::Buffer;
use ratatui_core::style::Color;
use ratatui_core::terminal::Terminal;

use super::super::keys::Press;
use super::super::screen::Palette;
use super::draw::{Theme, draw};
use super::keys::Keys;
use super::state::{Scene, State};
use crate::analysis::{Analysis, Question, Selection, analyse};
use crate::backend::Null;
use crate::engine::testing::{parsed, started};
use crate::engine::{self, Emitted, HostNews, Job};
use crate::model::*;
use crate::plan;
use crate::store::Store;

const TWO_WORKS: &str = r#"
    [[variant]]
    name = "default"
    [[variant]]
    name = "batch"
    [[variant]]
    name = "slice-100us"
    [[workload]]
    name = "web"
    use = "schbench"
    [[workload]]
    name = "ping-pong"
    use = "pipe"
"#;

const COLOR: Theme = Theme { palette: Palette { color: true }, unicode: true };

fn job(title: &str, measure: &str, rest: &str) -> Job {
    let text =
        format!("schema = 1\ntitle = \"{title}\"\n[measure]\nduration = \"1s\"\n{measure}\n{rest}");
    let backend = "local".to_string();
    Job::new(PlanStarted { backend, ..started(parsed(&text), &text) })
}

/// The state after this many runs, and the stored samples.
fn after(job: &Job, mut null: Null, runs: usize) -> (State, SampledPlan) {
    let mut state = State::new(job);
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(&folder.path().join("test.db")).expect("a store");
    store.apply(&Event::PlanStarted(Box::new(job.started.clone()))).expect("a plan");
    let cancel = AtomicBool::new(false);
    let mut ended = 0;
    let mut emit = |emitted: Emitted| {
        let Emitted::Event(event) = emitted else { return Ok::<(), ()>(()) };
        if let Event::PlanEnded { .. } | Event::PlanStarted(_) = event {
            return Ok(());
        }
        state.apply(event);
        store.apply_in_group(event).expect("an event that fits");
        ended += usize::from(matches!(event, Event::RunEnded { .. }));
        cancel.store(ended >= runs, Relaxed);
        Ok(())
    };
    engine::execute(job.clone(), &mut null, &cancel, &mut emit, &mut |_| None).expect("no error");
    store.settle().expect("runs that are stored");
    (state, store.sampled("test").expect("a stored plan"))
}

fn analysis(plan: &SampledPlan, look: Option<u32>) -> Analysis {
    let names = plan.plan.variants.iter().map(|variant| &variant.name);
    let sides = names.map(|name| Selection::of_variant(&plan.id, name)).collect();
    let question = Question::new(sides, String::new());
    let question = Question { rounds_done: look, ratios_alone: look.is_none(), ..question };
    analyse(std::slice::from_ref(plan), &[], &question)
}

/// With times that do not depend on this machine.
fn scene_of(state: &State) -> Scene {
    let scene = state.scene(false);
    let runs = scene.progress.split(", ").next().expect("runs").to_string();
    Scene { progress: format!("{runs}, 39 s gone, 78 s left"), share: 0.4, ..scene }
}

fn screen(scene: &Scene, keys: &mut Keys, theme: Theme, [columns, lines]: [u16; 2]) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).expect("a terminal");
    terminal.draw(|frame| draw(frame, scene, keys, theme)).expect("a frame");
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let lines = buffer.content().chunks(usize::from(buffer.area.width).max(1));
    let lines = lines.map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>());
    lines.map(|line| line.trim_end().to_string() + "\n").collect()
}

fn shown(scene: &Scene, size: [u16; 2]) -> String {
    text(&screen(scene, &mut Keys::default(), COLOR, size))
}

/// Four rounds of ten, of which a batch is slower.
fn fixed() -> Scene {
    let job = job("Default, batch and a short slice", "rounds = 10", TWO_WORKS);
    let null = Null { effects: [("batch".to_string(), 0.9)].into(), ..Null::default() };
    let (mut state, plan) = after(&job, null, 25);
    state.answer(&analysis(&plan, None), None);
    scene_of(&state)
}

/// A look after ten rounds, two more, and something from outside.
fn looked() -> Scene {
    let measure = "rounds = 40\nuntil-decided = true\nbudget = \"2min\"";
    let job = job("Default, batch and a short slice", measure, TWO_WORKS);
    let null = || Null { effects: [("batch".to_string(), 0.9)].into(), ..Null::default() };
    let (mut state, plan) = after(&job, null(), 60);
    state.answer(&analysis(&plan, Some(10)), Some(10));
    let (later, plan) = after(&job, null(), 72);
    state.answer(&analysis(&plan, None), None);
    drop(later);
    let key = RunKey { round: 11, cell: 4 };
    let share = 0.034;
    let fact = DisturbanceFact::Steal { share, worst_cpu: 1, worst_cpu_share: 0.05 };
    let disturbances = vec![Disturbance { share: Some(share), fact }];
    let overhead = Reading::Unknown("invented".to_string());
    let result = RunResult { disturbances, ..RunResult::new(1_000_000_000, Vec::new(), overhead) };
    state.apply(&Event::RunEnded { key, outcome: Outcome::Done { result: Box::new(result) } });
    state.heat(Some(61.4));
    scene_of(&state)
}

#[test]
fn fixed_rounds_at_80_by_24_have_no_verdict_yet() {
    insta::assert_snapshot!(shown(&fixed(), [80, 24]), @r#"
    Default, batch and a short slice
    █████████░░░░░░░░░░░░░░░ 25 of 60 runs, 39 s gone, 78 s left
    now      round 5 of 10: web / default
    machine  25 runs: nothing from outside
    so far, after 5 rounds; verdicts come with the report
                          variant     to the baseline less    same     more verdict
    web       throughput  batch       -9.7 % +-1.5        ─•  ░░│░░         so far
                          slice-100us +1.0 % +-1.6            ░──•─         so far
              wakeup_p99  batch       -0.9 % -15..+15        ───•───        so far
                          slice-100us +4.1 % -6..+16          ░──•──        so far
              request_p99 batch       -2.9 % +-2.8            ░•─░░         so far
                          slice-100us -1.5 % -18..+18        ───•───        so far
    ping-pong throughput  batch       -9.2 % +-1.4        ─•  ░░│░░         so far
                          slice-100us +0.4 % +-1.9            ──•──         so far
              wakeup_p99  batch       -5.8 % -27..+21       ───•────        so far
                          slice-100us -1.9 % -25..+29       ────•────       so far







    ? help  q interrupt
    "#);
}

#[test]
fn verdicts_of_a_look_at_120_by_40() {
    insta::assert_snapshot!(shown(&looked(), [120, 40]), @"
    Default, batch and a short slice
    █████████░░░░░░░░░░░░░░░ 61 runs, 39 s gone, 78 s left
    now      round 10: web / batch
    machine  61 runs: steal in 1, up to 3.4 %; 1 spoilt; 61 C
    noted    ping-pong / batch: the hypervisor took 3.4 % of the pool's CPU time (most from CPU 1: 5.0 %)

    verdicts of the look after round 10, intervals of 12 rounds; the next look is after 15
                          variant     default variant  to the baseline   less            same             more verdict
    web       throughput  batch       1996 /s 1798 /s  -9.8 % +-0.6              •─     ░░░│░░░                WORSE
                          slice-100us 1996 /s 2005 /s  +0.1 % +-0.9                     ░──•──░                SAME
              wakeup_p99  batch       30.5 us 30.5 us  -1.9 % +-5.7                     ──•───░                <14 %
                          slice-100us 30.5 us 31.7 us  +4.2 % +-6.4                     ░░───•──               <24 %
              request_p99 batch       30.7 us 31.2 us  -0.1 % -4.0..+5.0                ░──•──░                maybe <7.7 %
                          slice-100us 30.7 us 30.7 us  -3.7 % +-4.7                     ─•──░░░                <19 %
    ping-pong throughput  batch       1004 /s 905.5 /s -9.7 % +-0.8              •─     ░░░│░░░                maybe <14 %
                          slice-100us 1004 /s 998.5 /s -0.3 % +-1.2                     ──•───░                <3.5 %
              wakeup_p99  batch       31.9 us 31.1 us  -0.8 % +-7.6                     ───•───                <23 %
                          slice-100us 31.9 us 30.2 us  -4.4 % +-6.7                    ──•───░░                <26 %





















    ? help  q interrupt
    ");
}

#[test]
fn failures_alone_and_no_result_yet() {
    let job = job("t", "rounds = 2", TWO_WORKS);
    let mut null =
        Null { missing: [("batch".into(), "no such knob".into())].into(), ..Null::default() };
    let begun = scene_of(&State::new(&job));
    null.faults.extend((0..6).map(|cell| (cell, "the worker died".to_string())));
    let (mut state, plan) = after(&job, null, 12);
    state.answer(&analysis(&plan, None), None);
    let both = shown(&begun, [80, 10]) + &shown(&scene_of(&state), [80, 12]);
    insta::assert_snapshot!(both, @r#"
    t
    █████████░░░░░░░░░░░░░░░ 0 of 12 runs, 39 s gone, 78 s left
    no result yet; verdicts come with the report






    ? help  q interrupt
    t
    █████████░░░░░░░░░░░░░░░ 6 of 12 runs (2 skipped), 39 s gone, 78 s left
    now      round 1 of 2: web / slice-100us
    failed   4 runs, the last of web / slice-100us: the worker died
    skipped  2 runs, the last of web / batch: no such knob
    no result yet; verdicts come with the report





    ? help  q interrupt
    "#);
}

#[test]
fn spoilt_rounds_that_will_count_are_shown() {
    let job = job("t", "rounds = 10", TWO_WORKS);
    let (mut state, mut plan) = after(&job, Null::default(), 12);
    for run in &mut plan.runs {
        let (kind, detail) = (DisturbanceKind::Steal, String::new());
        let fact = DisturbanceFact::Text { kind, detail };
        run.disturbances = vec![Disturbance { share: Some(0.3), fact }];
    }
    state.answer(&analysis(&plan, None), None);
    let scene = scene_of(&state);
    assert_eq!(scene.rows.len(), 10);
    assert_eq!(
        scene.standing,
        "so far, after 2 rounds, most of them spoilt; verdicts come with the report"
    );
}

#[test]
fn what_the_host_does_is_shown() {
    let mut state = State::new(&job("t", "rounds = 2", TWO_WORKS));
    state.host(&HostNews::Starved { share: 0.04 });
    let host = |state: &State| {
        let facts = state.scene(false).facts;
        facts.into_iter().find(|(label, ..)| *label == "host").expect("a fact").2
    };
    assert_eq!(host(&state), "this host gives QEMU 4 % of a CPU: it is waited for");
    let (key, reason) = (RunKey { round: 1, cell: 2 }, "killed".to_string());
    state.host(&HostNews::Ended { key, reason, is_made_again: true });
    assert_eq!(host(&state), "round 2, web / slice-100us: killed; the run is made again");
}

#[test]
fn one_variant_has_values_and_nothing_to_compare() {
    let one = "[[variant]]\nname = \"default\"\n[[workload]]\nname = \"web\"\nuse = \"schbench\"\n";
    let (mut state, plan) = after(&job("t", "rounds = 3", one), Null::default(), 3);
    state.answer(&analysis(&plan, None), None);
    insta::assert_snapshot!(shown(&scene_of(&state), [80, 10]), @r#"
    t
    █████████░░░░░░░░░░░░░░░ 3 of 3 runs, 39 s gone, 78 s left
    now      round 3 of 3: web / default
    machine  3 runs: nothing from outside
    so far, after 3 rounds; one variant alone, so nothing is compared
                    default
    web throughput  1986 /s
        wakeup_p99  30.8 us
        request_p99 30.9 us
    ? help  q interrupt
    "#);
}

#[test]
fn no_meaning_is_by_color_alone_and_none_by_signs_that_a_terminal_lacks() {
    let scene = looked();
    let with = screen(&scene, &mut Keys::default(), COLOR, [100, 30]);
    let plain = Theme { palette: Palette { color: false }, ..COLOR };
    let without = screen(&scene, &mut Keys::default(), plain, [100, 30]);
    assert_eq!(text(&with), text(&without));
    let colors =
        |buffer: &Buffer| buffer.content().iter().filter(|cell| cell.fg != Color::Reset).count();
    assert!(colors(&with) > 0);
    assert_eq!(colors(&without), 0);
    let ascii = Theme { unicode: false, ..plain };
    let ascii = text(&screen(&scene, &mut Keys::default(), ascii, [100, 30]));
    // Shortened texts have a sign of their own.
    assert!(ascii.replace('…', "").is_ascii(), "{ascii}");
    assert_eq!(ascii.lines().count(), text(&with).lines().count());
}

#[test]
fn many_variants_scroll_to_the_last() {
    let variants = (0..40).map(|at| format!("[[variant]]\nname = \"variant-{at}\"\n"));
    let works = "[[workload]]\nname = \"web\"\nuse = \"schbench\"\nthreads = [2, 4]\n";
    let job = job("t", "rounds = 2", &(variants.collect::<String>() + works));
    let (mut state, plan) = after(&job, Null::default(), 160);
    state.answer(&analysis(&plan, None), None);
    let scene = scene_of(&state);
    let mut keys = Keys::default();
    let first = text(&screen(&scene, &mut keys, COLOR, [80, 24]));
    assert!(first.contains("rows 1-") && first.contains("variant-1 "), "{first}");
    assert!(!first.contains("variant-39 "), "{first}");
    keys.press(Press::End);
    let last = text(&screen(&scene, &mut keys, COLOR, [80, 24]));
    assert!(last.contains("variant-39 ") && last.contains(&keys.shown().unwrap()), "{last}");
    assert!(last.contains("\nweb threads=4 "), "the first row shown has its place: {last}");
}

#[test]
fn every_size_has_something_and_nothing_overflows() {
    for scene in [fixed(), looked(), scene_of(&State::new(&job("t", "rounds = 2", TWO_WORKS)))] {
        for columns in (1..140).step_by(7) {
            for lines in 1..45 {
                let text = shown(&scene, [columns, lines]);
                assert!(!text.trim().is_empty(), "{columns}x{lines}");
            }
        }
        // The line of a terminal too small for more.
        let line = shown(&scene, [40, 8]);
        assert!(line.contains(" runs") && line.lines().skip(1).all(str::is_empty), "{line}");
    }
    let mut keys = Keys::default();
    keys.press(Press::Char('?'));
    let help = text(&screen(&fixed(), &mut keys, COLOR, [80, 24]));
    let last = super::draw::HELP.last().expect("help");
    assert!(help.contains(last) && super::draw::HELP.iter().all(|line| line.len() <= 80), "{help}");
}

#[test]
fn names_from_outside_are_text() {
    // A plan from outside may have such names when it is resumed; a plan file may not.
    let mut job = job("<script>alert(1)</script>", "rounds = 2", TWO_WORKS);
    job.started.plan.title.push_str("\u{1b}]0;x\u{7}");
    job.started.plan.variants[1].name = "b\u{1b}[31match".to_string();
    job.started.plan.works[0].name = "w\u{202e}eb".to_string();
    job.started.cells = plan::cells(&job.started.plan);
    let (mut state, plan) = after(&job, Null::default(), 12);
    state.answer(&analysis(&plan, None), None);
    let text = shown(&scene_of(&state), [120, 24]);
    assert!(text.contains("<script>alert(1)</script>\\u{1b}]0;x\\u{7}"), "{text}");
    assert!(
        !text.chars().any(|c| c != '\n' && crate::report::clean(&c.to_string()) != c.to_string()),
        "{text}"
    );
}
