//! How much a JSON text holds, before anything is made of it: a wrong text may have a value in every two bytes, and each
//! takes a hundred once it is read. Pure.

/// A lower bound for the number of values in the text.
pub fn json_nodes(text: &[u8]) -> usize {
    let mut nodes = 1;
    each_sign(text, |sign| nodes += usize::from(matches!(sign, b',' | b'[' | b'{')));
    nodes
}

/// The number of objects that stand in at most `max_depth` others and arrays.
pub fn json_objects(text: &[u8], max_depth: usize) -> usize {
    let (mut objects, mut depth) = (0, 0_usize);
    each_sign(text, |sign| match sign {
        b'[' | b'{' => {
            objects += usize::from(sign == b'{' && depth <= max_depth);
            depth += 1;
        }
        b']' | b'}' => depth = depth.saturating_sub(1),
        _ => {}
    });
    objects
}

/// Calls `see` with every byte that stands in no text.
fn each_sign(mut text: &[u8], mut see: impl FnMut(u8)) {
    while let Some((sign, after)) = text.split_first() {
        text = if *sign == b'"' { skip_text(after) } else { after };
        if *sign != b'"' {
            see(*sign);
        }
    }
}

/// The bytes behind a text that has begun.
fn skip_text(mut text: &[u8]) -> &[u8] {
    while let Some(at) = text.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        let escaped = usize::from(text[at] == b'\\');
        text = text.get(at + 1 + escaped..).unwrap_or_default();
        if escaped == 0 {
            return text;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_and_texts_are_one() {
        let cases = [("1", 1), ("[]", 2), ("[1,2]", 3), (r#"{"a,[{":[1,"\",[{"]}"#, 4), ("", 1)];
        for (text, nodes) in cases {
            assert_eq!(json_nodes(text.as_bytes()), nodes, "{text}");
        }
        let text = br#"{"a":[{"b":{}},{"c":"{{"}]}"#;
        assert_eq!([0, 1, 2, 3, 9].map(|depth| json_objects(text, depth)), [1, 1, 3, 4, 4]);
    }
}
