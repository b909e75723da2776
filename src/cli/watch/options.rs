//! The arguments of `schedlab watch`, and the subject that they name.

use std::path::PathBuf;

use clap::Args;

use crate::sys::topology;

use super::super::Failure;
use super::super::score::{any_time, check_pids, known_cgroup, known_source};
use super::data::Scope;
use super::state::About;

/// The file of a trace where none is named.
pub const TRACE: &str = "schedlab-watch.pftrace";
const MIN_INTERVAL_NS: u64 = 100_000_000;

#[derive(Args)]
pub struct WatchArgs {
    /// A process that runs already, with all that descends from it; may be repeated
    #[arg(long, value_name = "PID", conflicts_with_all = ["cgroup", "command"])]
    pub pid: Vec<i32>,
    /// The tasks of a cgroup and of those below it: /user.slice
    #[arg(long, value_name = "PATH", conflicts_with = "command")]
    pub cgroup: Option<String>,
    /// Between two readings
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub interval: String,
    /// This source and no other
    #[arg(long, value_name = "NAME", value_parser = known_source)]
    pub source: Option<String>,
    /// How far back a trace goes that the key `t` writes; 0s: nothing is recorded for one
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub trace_for: String,
    /// The file that `t` writes to; a number is added where it is there
    #[arg(long, value_name = "FILE", default_value = TRACE)]
    pub trace: PathBuf,
    /// The file that the command's output goes to; without it, it is discarded
    #[arg(long, value_name = "FILE", requires = "command")]
    pub command_output: Option<PathBuf>,
    /// A command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// The subject of the view, if everything that was asked for is there.
pub fn about(args: &WatchArgs) -> Result<About, Failure> {
    let interval_ns = any_time("--interval", &args.interval)?;
    if interval_ns < MIN_INTERVAL_NS {
        let text = format!("--interval: {} is below the least, 100ms", args.interval);
        return Err(Failure::usage(text, "--interval 1s"));
    }
    check_pids(&args.pid)?;
    let (what, scope) = match (&args.cgroup, &args.command[..]) {
        (Some(path), _) => {
            let known = known_cgroup(path, "find /sys/fs/cgroup -type d")?;
            (format!("cgroup {path}"), Scope::Cgroup(known))
        }
        (None, [_, ..]) => (args.command.join(" "), Scope::Watched),
        (None, []) if args.pid.is_empty() => ("the whole machine".to_string(), Scope::All),
        (None, []) => {
            let pids: Vec<String> = args.pid.iter().map(i32::to_string).collect();
            (format!("pid {}", pids.join(", ")), Scope::Watched)
        }
    };
    Ok(About {
        what,
        scope,
        llcs: topology::llcs(),
        interval_ns,
        trace_ns: any_time("--trace-for", &args.trace_for)?,
    })
}
