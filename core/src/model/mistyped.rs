//! Guesses the word that somebody meant who mistyped it. Pure.

/// The known word that `word` is a slip of, if there is one.
pub fn mistyped<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let word = word.to_lowercase();
    known
        // Far words are not compared: the distance takes the product of both lengths.
        .filter(|known| word.len() <= 4 * known.len() && known.len() <= 4 * word.len())
        .map(|known| (strsim::osa_distance(&word, &known.to_lowercase()), known))
        .filter(|(distance, known)| *distance <= (known.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_about_a_third_is_understood() {
        let known = ["batch", "Default", "x"];
        for (word, expected) in [
            ("btach", Some("batch")),
            ("DEFUALT", Some("Default")),
            ("y", Some("x")),
            ("bat", None),
            ("", None),
        ] {
            assert_eq!(mistyped(word, known.into_iter()), expected, "{word}");
        }
        assert_eq!(mistyped(&"b".repeat(1_000_000), known.into_iter()), None);
    }
}
