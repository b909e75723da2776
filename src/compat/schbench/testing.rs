//! Figures for the tests of text and JSON: invented ones, and any at all.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::model::Reading;
use crate::stats::Histogram;

use super::{Closing, Delays, Figures, Mode};

pub fn histogram(samples: &[(u64, u64)]) -> Histogram {
    let mut histogram = Histogram::default();
    for &(value_ns, times) in samples {
        histogram.add(value_ns, times);
    }
    histogram
}

/// A run of two seconds.
pub fn figures() -> Figures {
    Figures {
        wakeup: histogram(&[
            (700, 100),
            (2_000, 8_000),
            (2_400, 1_700),
            (19_250, 199),
            (796_400, 1),
        ]),
        request: histogram(&[
            (129_000, 1_000),
            (180_200, 6_000),
            (184_900, 2_600),
            (209_000, 398),
            (1_346_000, 2),
        ]),
        response: None,
        rps: vec![5296.4, 5315.5],
    }
}

pub fn closing() -> Closing {
    Closing {
        seconds: 2,
        average_rps: 5_307.5,
        mode: Mode::Requests,
        goal: None,
        dropped: None,
        under_way: 0,
        delays: Reading::Known(Delays { message_ns: 1_400, worker_ns: 2_600 }),
        worker_ops_per_s: 5_307.5,
    }
}

/// Impossible figures too: any value, any count, rates that are not numbers.
pub fn any_figures() -> impl Strategy<Value = Figures> {
    let samples = || vec((any::<u64>(), 0u64..1 << 40), 0..30);
    let parts = (samples(), samples(), proptest::option::of(samples()), vec(any::<f64>(), 0..30));
    parts.prop_map(|(wakeup, request, response, rps)| Figures {
        wakeup: histogram(&wakeup),
        request: histogram(&request),
        response: response.map(|samples| histogram(&samples)),
        rps,
    })
}

pub fn any_closing() -> impl Strategy<Value = Closing> {
    let mode =
        prop_oneof![Just(Mode::Requests), any::<u64>().prop_map(|bytes| Mode::Pipe { bytes })];
    let delays = prop_oneof![
        any::<String>().prop_map(Reading::Unknown),
        any::<(u64, u64)>().prop_map(|(message_ns, worker_ns)| {
            Reading::Known(Delays { message_ns, worker_ns })
        }),
    ];
    let numbers = (any::<u64>(), any::<f64>(), any::<[Option<u64>; 2]>(), any::<f64>());
    (mode, delays, numbers).prop_map(
        |(mode, delays, (seconds, average_rps, [goal, dropped], worker_ops_per_s))| Closing {
            seconds,
            average_rps,
            mode,
            goal,
            dropped,
            under_way: dropped.unwrap_or(0),
            delays,
            worker_ops_per_s,
        },
    )
}
