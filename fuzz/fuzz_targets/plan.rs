//! Any bytes are a plan or get their errors; a plan stays within its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab::model::{CpuSet, Topology};
use schedlab::plan;

fuzz_target!(|text: &str| {
    let all: CpuSet = (0..4).collect();
    let machine = Topology { online: all.clone(), allowed: all, ..Topology::default() };
    match plan::parse("fuzz.toml", text, Some(&machine), schedlab::cli::known()) {
        Err(errors) => {
            assert!(!errors.errors().is_empty());
            for error in errors.errors() {
                assert!(error.line >= 1 && error.column >= 1);
                assert!(!error.one_line().contains('\n'));
            }
            assert!(!errors.render(80, false).contains('\u{1b}'));
        }
        Ok(plan) => {
            let cells = plan::cells(&plan);
            assert!(!cells.is_empty() && cells.len() as u64 <= plan::MAX_CELLS);
            assert_eq!(cells.len(), plan.works.len() * plan.variants.len());
            // Millions of runs are valid and make a slow target: a few rounds show as much.
            let mut short = plan;
            assert!(cells.len() as u64 * u64::from(short.measure.rounds) <= plan::MAX_RUNS);
            short.measure.rounds = short.measure.rounds.min(3);
            let order = plan::order(&short);
            assert_eq!(order.len(), cells.len() * short.measure.rounds as usize);
            assert!(order.iter().all(|key| (key.cell as usize) < cells.len()));
        }
    }
});
