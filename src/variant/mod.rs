//! Knobs: the settings that a variant applies, reads back and undoes.

use crate::model::Field;

/// Every knob's field, in the order of `schedlab list variants`.
pub fn fields() -> Vec<Field> {
    Vec::new()
}
