//! How many expectations hold, in words. Pure.

use crate::analysis::{Outcome, Tested};

/// `2 hold, 1 fails`.
pub fn counts<'a>(tested: impl Iterator<Item = &'a Tested> + Clone) -> String {
    let words = [
        (Outcome::Holds, "holds", "hold"),
        (Outcome::Fails, "fails", "fail"),
        (Outcome::Open, "is open", "are open"),
    ];
    let counts = words.map(|(outcome, one, many)| {
        match tested.clone().filter(|tested| tested.outcome == outcome).count() {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {many}")),
        }
    });
    counts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
