//! The time of schbench's work, by itself. Side by side with the program: `drop_in`.

use std::time::Duration;

use schedlab::model::Raw;

use super::{Figure, Reach, Row, worker_group};

pub const OPERATION: Row =
    Row::once("schbench: one operation at 256 KiB, median", "us", Reach::None, operation_us);

/// The median request of one worker, with one operation and nothing else per request.
fn operation_us() -> Figure {
    let given = [
        ("calibrate", Raw::Bool(true)),
        ("cache-footprint", Raw::Text("256KiB".to_string())),
        ("operations", Raw::Int(1)),
        ("threads", Raw::Int(1)),
    ];
    let done = worker_group::run("schbench", &given, None, Duration::from_secs(1))?;
    let p50_ns = done.histograms[1].quantile_ns(0.5).ok_or("no request ended")?;
    Ok(p50_ns / 1e3)
}
