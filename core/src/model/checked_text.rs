//! Texts that are checked where they are read and written as they are: names and paths. Pure.

/// For a struct around a `String` that implements `FromStr`: what serde and messages need.
macro_rules! checked_text {
    ($name:ident, $error:ty) => {
        impl TryFrom<String> for $name {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, $error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> String {
                text.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

pub(super) use checked_text;
