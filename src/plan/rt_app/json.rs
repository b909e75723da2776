//! JSON as rt-app takes it: with comments, a comma after the last value, and keys that repeat. Every value knows its
//! place. Pure.

use std::ops::Range;

use crate::plan::error::Faults;

const MAX_DEPTH: usize = 16;

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub value: Json,
    pub span: Range<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// In the order of the text; a key may be there again.
    Object(Vec<Member>),
    Array(Vec<Node>),
    Text(String),
    Int(i64),
    /// A number with a point or an exponent, or one that is too large for an `Int`.
    Number(f64),
    Bool(bool),
    Null,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub key: String,
    pub span: Range<usize>,
    pub node: Node,
}

impl Json {
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Object(_) => "an object",
            Json::Array(_) => "a list",
            Json::Text(_) => "a text",
            Json::Int(_) | Json::Number(_) => "a number",
            Json::Bool(_) => "true or false",
            Json::Null => "null",
        }
    }
}

/// The one value of the text.
pub fn read(text: &str) -> Result<Node, Faults> {
    let mut reader = Reader { text, at: 0, open: Vec::new() };
    reader.skip()?;
    if reader.peek().is_none() {
        let hint = "{ \"tasks\" : { \"thread0\" : { \"run\" : 10000, \"sleep\" : 90000 } } }";
        return Err(reader.fault("nothing is in this file", "its end", hint));
    }
    let node = reader.value(0).map_err(|fault| reader.cut().unwrap_or(fault))?;
    reader.skip()?;
    match reader.rest().chars().next() {
        None => Ok(node),
        Some(_) => {
            Err(reader.fault("text after the end of the JSON", "not expected", "one object"))
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// The objects and lists that are not at their end: a word for each, and where it begins.
    open: Vec<(&'static str, usize)>,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn fault(&self, message: &str, label: &'static str, hint: &str) -> Faults {
        let width = self.peek().map_or(0, char::len_utf8);
        Faults::one(&(self.at..self.at + width), message, label, hint)
    }

    /// The fault of a text that ends before its objects do.
    fn cut(&self) -> Option<Faults> {
        let (what, start) = self.open.last().filter(|_| self.rest().is_empty())?;
        let line = self.text[..*start].matches('\n').count() + 1;
        let end = self.text.trim_end().len();
        let message = format!("the file ends within {what} that begins in line {line}");
        let hint = "is the file complete? Each { needs a }, each [ a ], each text its second quote";
        Some(Faults::one(&(end..end), message, "the end", hint))
    }

    /// Goes past spaces and comments.
    fn skip(&mut self) -> Result<(), Faults> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            self.at += rest.len() - trimmed.len();
            let end = match trimmed {
                _ if trimmed.starts_with("//") => trimmed.find('\n').unwrap_or(trimmed.len()),
                _ if trimmed.starts_with("/*") => match trimmed[2..].find("*/") {
                    Some(end) => end + 4,
                    None => {
                        return Err(self.fault("a comment without an end", "begins here", "*/"));
                    }
                },
                _ => return Ok(()),
            };
            self.at += end;
        }
    }

    /// Goes past this character, if it is the next one.
    fn takes(&mut self, c: char) -> bool {
        let is_next = self.peek() == Some(c);
        self.at += if is_next { c.len_utf8() } else { 0 };
        is_next
    }

    fn value(&mut self, depth: usize) -> Result<Node, Faults> {
        self.skip()?;
        if depth > MAX_DEPTH {
            return Err(self.fault("too many values within each other", "here", "at most 16"));
        }
        let start = self.at;
        let value = match self.peek() {
            Some('{') => Json::Object(self.members(depth)?),
            Some('[') => Json::Array(self.items(depth)?),
            Some('"') => Json::Text(self.text()?),
            _ => self.word()?,
        };
        Ok(Node { value, span: start..self.at })
    }

    fn members(&mut self, depth: usize) -> Result<Vec<Member>, Faults> {
        self.open.push(("an object", self.at));
        self.at += 1;
        let mut members = Vec::new();
        loop {
            self.skip()?;
            if self.takes('}') {
                self.open.pop();
                return Ok(members);
            }
            if self.peek() != Some('"') {
                return Err(self.fault("no key in quotes", "a key or }", "\"run\" : 10000"));
            }
            let start = self.at;
            let key = self.text()?;
            let span = start..self.at;
            self.skip()?;
            if matches!(self.peek(), Some(',' | '}')) {
                // rt-app's own tool fills in what is left out.
                let node = Node { value: Json::Null, span: span.clone() };
                members.push(Member { key, span, node });
                self.comma_before('}')?;
                continue;
            }
            if !self.takes(':') {
                return Err(self.fault("no `:` after the key", "here", "\"run\" : 10000"));
            }
            let node = self.value(depth + 1)?;
            members.push(Member { key, span, node });
            self.comma_before('}')?;
        }
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Node>, Faults> {
        self.open.push(("a list", self.at));
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip()?;
            if self.takes(']') {
                self.open.pop();
                return Ok(items);
            }
            items.push(self.value(depth + 1)?);
            self.comma_before(']')?;
        }
    }

    /// After a value: a comma, which may also stand before the end.
    fn comma_before(&mut self, end: char) -> Result<(), Faults> {
        self.skip()?;
        if self.takes(',') || self.peek() == Some(end) {
            return Ok(());
        }
        Err(self.fault(
            "no comma between two values",
            "a comma here",
            "\"run\" : 10000, \"sleep\" : 5000",
        ))
    }

    fn text(&mut self) -> Result<String, Faults> {
        let start = self.at;
        let mut is_escaped = false;
        let end = self.rest()[1..].find(|c: char| {
            let ends = (c == '"' && !is_escaped) || c == '\n';
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        self.at = end.map_or(self.text.len(), |end| start + end + 2);
        let span = start..self.at;
        serde_json::from_str(&self.text[span.clone()]).map_err(|_| {
            Faults::one(
                &span,
                "not a text in quotes",
                "this text",
                "\"thread0\", with \\\" for a quote",
            )
        })
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<Json, Faults> {
        let start = self.at;
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
        let rest = self.rest();
        self.at += rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        Ok(match &self.text[start..self.at] {
            "true" | "True" => Json::Bool(true),
            "false" | "False" => Json::Bool(false),
            "null" => Json::Null,
            word => match (word.parse(), word.parse::<f64>()) {
                (Ok(number), _) => Json::Int(number),
                (_, Ok(number)) => Json::Number(number),
                _ => {
                    let span = start..self.at.max(start + 1);
                    let hint = "a number, a text in quotes, true, false, [ or {";
                    return Err(Faults::one(&span, "not a value", "here", hint));
                }
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_commas_and_repeated_keys_are_taken() {
        let text = "// first\n{ \"run\" : 1, /* two */ \"run\": [2, 3,], \"a\\\"b\" : { }, \"t\" : True , }\n";
        let node = read(text).unwrap();
        let Json::Object(members) = node.value else { panic!("no object") };
        let keys: Vec<&str> = members.iter().map(|member| member.key.as_str()).collect();
        assert_eq!(keys, ["run", "run", "a\"b", "t"]);
        assert_eq!(members[0].node.value, Json::Int(1));
        let Json::Array(items) = &members[1].node.value else { panic!("no list") };
        assert_eq!(
            items.iter().map(|item| &text[item.span.clone()]).collect::<Vec<_>>(),
            ["2", "3"]
        );
        assert_eq!(&text[members[2].span.clone()], "\"a\\\"b\"");
        assert_eq!(
            (&members[2].node.value, &members[3].node.value),
            (&Json::Object(vec![]), &Json::Bool(true))
        );
        let Json::Object(members) = read("{ \"suspend\", \"yield\" }").unwrap().value else {
            panic!()
        };
        assert!(members.iter().all(|member| member.node.value == Json::Null), "{members:?}");
        assert_eq!(read("1.5").unwrap().value, Json::Number(1.5));
        assert_eq!(read("99999999999999999999").unwrap().value, Json::Number(1e20));
        assert_eq!(read("-1").unwrap().value, Json::Int(-1));
    }

    #[test]
    fn a_fault_has_its_place() {
        let deep = "[".repeat(1_000_000);
        let cases = [
            ("{ \"a\" : 1 \"b\" : 2 }", "1:11: no comma between two values"),
            ("{ \"a\" 1 }", "1:7: no `:` after the key"),
            ("{\n a : 1 }", "2:2: no key in quotes"),
            ("{ \"a\" : x }", "1:9: not a value"),
            (
                "{\n \"t\" : { \"run\" : 1 }\n",
                "2:21: the file ends within an object that begins in line 1",
            ),
            (
                "{\n\n \"t\" : {\n \"run\" :",
                "4:9: the file ends within an object that begins in line 3",
            ),
            ("{ \"a\" : [1,", "1:12: the file ends within a list that begins in line 1"),
            ("{ \"a\" : tru", "1:12: the file ends within an object that begins in line 1"),
            ("{ \"a", "1:5: the file ends within an object that begins in line 1"),
            ("\"a", "1:1: not a text in quotes"),
            ("{ \"a\n\" : 1}", "1:3: not a text in quotes"),
            ("{ /* }", "1:3: a comment without an end"),
            ("{} x", "1:4: text after the end of the JSON"),
            ("", "1:1: nothing is in this file"),
            (" // {\n", "2:1: nothing is in this file"),
            ("{", "1:2: the file ends within an object that begins in line 1"),
            (&deep, "1:18: too many values within each other"),
        ];
        for (text, expected) in cases {
            let error = read(text).unwrap_err().into_errors("f", text).to_string();
            assert_eq!(error, format!("f:{expected}"), "{}", &text[..text.len().min(40)]);
        }
    }
}
