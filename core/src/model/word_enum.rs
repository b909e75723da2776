//! Enums of plain words: each variant with the word that is written for it. Pure.

/// An enum whose variants have no fields: `ALL` of them and their `WORDS` in the order of the text, the `word` of one,
/// and the one `from_word`.
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $word:literal,)+
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$doc])* $variant,)+
        }

        #[allow(dead_code, reason = "no enum needs all of them")]
        impl $name {
            pub const WORDS: &[&str] = &[$($word),+];
            pub const ALL: [$name; $name::WORDS.len()] = [$($name::$variant),+];

            pub fn word(self) -> &'static str {
                Self::WORDS[self as usize]
            }

            pub fn from_word(word: &str) -> Option<$name> {
                Self::ALL.into_iter().find(|known| known.word() == word)
            }
        }
    };
}

pub use words;
