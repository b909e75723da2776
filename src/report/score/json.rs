//! `json` of a scoreboard, as docs/score.md describes it. Pure.

use std::io::{self, Write};

use serde::Serialize;

use crate::model::Score;

/// Raised where a key changes its name, meaning or type.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    #[serde(flatten)]
    score: &'a Score,
}

pub fn write(score: &Score, out: &mut dyn Write) -> io::Result<()> {
    let document = Document { schema: "schedlab-score", version: VERSION, score };
    serde_json::to_writer(&mut *out, &document)?;
    out.write_all(b"\n")
}
