//! Other tools for the same thing, if they are on the PATH, in turns with schedlab.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use schedlab::store::Store;
use serde_json::{Value, json};

use super::{Figure, Figures, Reach, Row, Shared, end, median, ping_pong, score};

pub const ROWS: [Row; 8] = [
    Row::pairs(
        "ping-pong on one CPU: rate under `schedlab score --system` / alone",
        "",
        Reach::AtLeast(0.75),
        || watched(|seen| Ok(seen.score)),
    ),
    Row::pairs(
        "the same under bpftrace, which adds up run and wait times by task",
        "",
        Reach::None,
        || watched(|seen| seen.bpftrace),
    ),
    Row::pairs("the same under `perf sched record`", "", Reach::None, || watched(|seen| seen.perf)),
    Row::pairs(
        "`sleep 0.05`: the time by `schedlab run` / by hyperfine",
        "",
        Reach::NearOne(0.01),
        || commands(|ours, theirs| ours.each_s / theirs.each_s),
    ),
    Row::pairs(
        "the same: all time that passes for an execution / for hyperfine's",
        "",
        Reach::None,
        || commands(|ours, theirs| ours.passes_s / theirs.passes_s),
    ),
    Row::pairs(
        "rt-app's file, 1 ms of work each 5 ms: the period / by rt-app",
        "",
        Reach::NearOne(0.01),
        || periodic(|ours, theirs| ours.period_us / theirs.period_us),
    ),
    Row::pairs("the same: CPU time of a period", "us", Reach::None, || {
        periodic(|ours, _| ours.work_us)
    }),
    Row::pairs("the same: that time by rt-app, by the clock", "us", Reach::None, || {
        periodic(|_, theirs| theirs.work_us)
    }),
];

/// Enough for an interval of 95 %.
const ROUNDS: usize = 6;

type Rounds<T> = Result<Vec<T>, String>;

/// Rates of a ping-pong under telemetry, as shares of the rate alone in the same round.
#[derive(Clone)]
struct Watched {
    score: f64,
    bpftrace: Result<f64, String>,
    perf: Result<f64, String>,
}

fn watched(share: fn(Watched) -> Figure) -> Rounds<f64> {
    static WATCHED: Shared<Rounds<Watched>> = Shared::empty();
    let rounds = WATCHED.get(|| (0..ROUNDS).map(|_| watch()).collect());
    rounds?.into_iter().map(share).collect()
}

/// The times of a task by a script of bpftrace: on a CPU, and from its wakeup or its preemption until it runs.
const TIMES: &str = "
BEGIN { printf(\"ready\\n\"); }
interval:s:4 { exit(); }
tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new { @ready[args->pid] = nsecs; }
tracepoint:sched:sched_switch {
    $from = args->prev_pid;
    $to = args->next_pid;
    if (args->prev_state == 0) { @ready[$from] = nsecs; }
    $on = @on[$from];
    if ($on) { @run[$from] = sum(nsecs - $on); }
    @on[$to] = nsecs;
    $ready = @ready[$to];
    if ($ready) {
        @wait[$to] = sum(nsecs - $ready);
        @switches[$to] = count();
        delete(@ready[$to]);
    }
}";

fn watch() -> Result<Watched, String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let alone = rate()?;
    let score = score::start(&["--system", "--duration", "4s"])?;
    let score = under(score, score::await_handlers);
    let _ = std::fs::remove_file(score::output());
    let score = score? / alone;
    let mut command = Command::new("bpftrace");
    command.args(["-e", TIMES]).stdout(Stdio::piped()).stderr(Stdio::null());
    let bpftrace = spawn(&mut command).and_then(|child| under(child, await_line));
    let mut command = Command::new("perf");
    command.args(["sched", "record", "-o"]).arg(scratch.path().join("perf.data"));
    command.args(["--", "sleep", "4"]).stdout(Stdio::null()).stderr(Stdio::null());
    let perf = spawn(&mut command).and_then(|child| under(child, await_sleep));
    let share = |rate: Result<f64, String>| rate.map(|rate| rate / alone);
    Ok(Watched { score, bpftrace: share(bpftrace), perf: share(perf) })
}

fn rate() -> Figure {
    let slices: Vec<f64> = (0..5).map(|_| ping_pong::bare()).collect::<Result<_, _>>()?;
    Ok(median(&slices))
}

/// The rate while a tool watches, which ends by itself.
fn under(mut tool: Child, is_ready: fn(&mut Child) -> Result<(), String>) -> Figure {
    let rate = is_ready(&mut tool).and_then(|()| rate());
    // bpftrace prints its maps when it ends.
    if let Some(mut output) = tool.stdout.take() {
        let _ = std::io::copy(&mut output, &mut std::io::sink());
    }
    tool.wait().map_err(|error| error.to_string())?;
    rate
}

fn spawn(command: &mut Command) -> Result<Child, String> {
    let name = command.get_program().display().to_string();
    command
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| format!("no `{name}` on the PATH ({error})"))
}

fn await_line(tool: &mut Child) -> Result<(), String> {
    let output = tool.stdout.as_mut().ok_or("no output")?;
    let is_ready = BufReader::new(output).lines().map_while(Result::ok).any(|line| line == "ready");
    if is_ready { Ok(()) } else { Err("bpftrace could not attach".to_string()) }
}

/// Waits for the command of `perf record`, which it starts when it records.
fn await_sleep(perf: &mut Child) -> Result<(), String> {
    let children = format!("/proc/{0}/task/{0}/children", perf.id());
    let is_sleep = |pid: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
    };
    loop {
        if std::fs::read_to_string(&children).unwrap_or_default().split(' ').any(is_sleep) {
            return Ok(());
        }
        if perf.try_wait().map_err(|error| error.to_string())?.is_some() {
            return Err("perf could not record".to_string());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The mean time of an execution, and the time of the tool for each.
#[derive(Clone, Copy)]
struct Executions {
    each_s: f64,
    passes_s: f64,
}

fn commands(ratio: fn(Executions, Executions) -> f64) -> Rounds<f64> {
    static COMMANDS: Shared<Rounds<(Executions, Executions)>> = Shared::empty();
    let rounds =
        COMMANDS.get(|| (0..ROUNDS).map(|_| Ok((by_schedlab()?, by_hyperfine()?))).collect());
    Ok(rounds?.into_iter().map(|(ours, theirs)| ratio(ours, theirs)).collect())
}

const SLEEP: &str = "sleep 0.05";

fn by_schedlab() -> Result<Executions, String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let began = Instant::now();
    let mut arguments = vec!["--rounds", "2", "--"];
    arguments.extend(SLEEP.split(' '));
    let store = run(scratch.path(), &arguments)?;
    let all_s = began.elapsed().as_secs_f64();
    let executions: f64 = values(&store, "executions")?.iter().sum();
    let each_s = mean(&values(&store, "time")?) / 1e9;
    Ok(Executions { each_s, passes_s: all_s / executions })
}

fn by_hyperfine() -> Result<Executions, String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = scratch.path().join("times.json");
    let mut command = Command::new("hyperfine");
    command.args(["-N", "--runs", "20", "--export-json"]).arg(&file).arg(SLEEP);
    let began = Instant::now();
    end(spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))?)?;
    let passes_s = began.elapsed().as_secs_f64() / 20.0;
    let file = File::open(file).map_err(|error| error.to_string())?;
    let times: Value = serde_json::from_reader(file).map_err(|error| error.to_string())?;
    let each_s = times["results"][0]["mean"].as_f64().ok_or("hyperfine wrote no mean")?;
    Ok(Executions { each_s, passes_s })
}

/// Times of a task that works for 1 ms in each period of 5 ms.
#[derive(Clone, Copy)]
struct Periodic {
    period_us: f64,
    /// By the clock for rt-app, which does not count CPU time.
    work_us: f64,
}

fn periodic(ratio: fn(Periodic, Periodic) -> f64) -> Rounds<f64> {
    static PERIODIC: Shared<Rounds<(Periodic, Periodic)>> = Shared::empty();
    let rounds = PERIODIC.get(|| (0..ROUNDS).map(|_| by_both()).collect());
    Ok(rounds?.into_iter().map(|(ours, theirs)| ratio(ours, theirs)).collect())
}

fn by_both() -> Result<(Periodic, Periodic), String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = scratch.path().join("app.json");
    let text = json!({
        "tasks": { "worker": {
            "loop": -1, "run": 1_000, "timer": { "ref": "tick", "period": 5_000 },
        } },
        "global": {
            "duration": 3, "calibration": "CPU0", "default_policy": "SCHED_OTHER",
            "logdir": scratch.path(), "log_basename": "rt", "gnuplot": false,
        },
    });
    std::fs::write(&file, text.to_string()).map_err(|error| error.to_string())?;
    let mut command = Command::new("rt-app");
    command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
    end(spawn(&mut command)?)?;
    let theirs = logged(&scratch.path().join("rt-worker-0.log"))?;
    let store = run(scratch.path(), &["./app.json", "--rounds", "1"])?;
    let period_us = mean(&values(&store, "pass_mean")?) / 1e3;
    let work_us = mean(&values(&store, "cpus")?) * period_us;
    Ok((Periodic { period_us, work_us }, theirs))
}

/// rt-app's log: a head, then a line for each period in microseconds.
fn logged(path: &Path) -> Result<Periodic, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let lines = BufReader::new(file).lines().skip(1).map_while(Result::ok);
    let columns = lines.filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<f64>);
        Some((numbers.nth(2)?.ok()?, numbers.next()?.ok()?))
    });
    let (works, periods): (Vec<f64>, Vec<f64>) = columns.unzip();
    Ok(Periodic { period_us: mean(&periods), work_us: mean(&works) })
}

/// Runs a plan with a store of its own.
fn run(scratch: &Path, arguments: &[&str]) -> Result<Store, String> {
    let database = scratch.join("own.db");
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(["run", "--quiet", "--db"]).arg(&database).args(arguments);
    end(spawn(command.current_dir(scratch))?)?;
    Store::open_read_only(&database).map_err(|error| error.to_string())
}

/// The values of a metric in all runs of the only plan.
fn values(store: &Store, name: &str) -> Figures {
    let heads = store.plan_heads().map_err(|error| error.to_string())?;
    let plan = heads.first().ok_or("no plan is stored")?;
    let plan = store.sampled(&plan.id).map_err(|error| error.to_string())?;
    let of_metric = |metric: u32| plan.metrics[metric as usize].kind.name == name;
    let all = plan.runs.iter().flat_map(|run| &run.values);
    Ok(all.filter(|(metric, _)| of_metric(*metric)).map(|(_, value)| *value).collect())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
