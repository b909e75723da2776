//! Any bytes are a `.bench` file or get their error; what is read is planned, reported and
//! imported without a panic, and nothing of it acts on a terminal.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use schedlab::compat::schedbench::{self, Averages, BenchFile, html, text};

fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("fuzz.bench");
    schedbench::is_bench(bytes);
    schedbench::is_whole_object(bytes);
    let Ok(source) = schedbench::utf8(bytes.to_vec(), path) else { return };
    let mut file = match BenchFile::parse(&source, path) {
        Ok(file) => file,
        Err(error) => return check(&error.to_string()),
    };
    match schedbench::plan_text(&file) {
        Ok(plan) => check(&plan),
        Err(error) => check(&error.to_string()),
    }
    for averages in [Averages::Right, Averages::Original] {
        let figures = match file.figures(averages) {
            Ok(figures) => figures,
            Err(error) => {
                check(&error.to_string());
                continue;
            }
        };
        for verbosity in 0..4 {
            let mut out = Vec::new();
            text::write(&mut out, &figures, verbosity, averages).expect("memory takes all");
            check(&String::from_utf8(out).expect("text"));
        }
        let mut page = Vec::new();
        html::write(&mut page, path, &figures, averages).expect("memory takes all");
        String::from_utf8(page).expect("text");
    }
    let _ = file.pending().map_err(|error| check(&error.to_string()));
    file.clear_runs();
    let _ = file.expand().map_err(|error| check(&error.to_string()));
});

fn check(message: &str) {
    assert!(!message.contains('\u{1b}'));
}
