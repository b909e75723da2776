//! The wire format of protocol buffers: fields with numbers, of which a reader skips those it does not know. Pure.

use std::collections::BTreeMap;

/// The bytes end within a field, or are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire<'a> {
    Number(u64),
    /// A text, a message or packed numbers.
    Bytes(&'a [u8]),
    /// A number of 4 or 8 bytes, which nobody needs here.
    Fixed,
}

/// The fields of a message, each with its number. Ends at the first that is broken.
pub struct Fields<'a> {
    left: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn new(message: &'a [u8]) -> Fields<'a> {
        Fields { left: message }
    }

    fn field(&mut self) -> Result<(u64, Wire<'a>), Broken> {
        let key = varint(&mut self.left)?;
        let wire = match key & 7 {
            0 => Wire::Number(varint(&mut self.left)?),
            1 => self.take(8).map(|_| Wire::Fixed)?,
            2 => {
                let length = varint(&mut self.left)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Wire::Fixed)?,
            _ => return Err(Broken),
        };
        Ok((key >> 3, wire))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Broken> {
        let length = usize::try_from(length).map_err(|_| Broken)?;
        let (taken, left) = self.left.split_at_checked(length).ok_or(Broken)?;
        self.left = left;
        Ok(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Wire<'a>), Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.left = &[];
        }
        Some(field)
    }
}

/// Seven bits a byte, the lowest first; the eighth says that more follow.
fn varint(from: &mut &[u8]) -> Result<u64, Broken> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, left) = from.split_first().ok_or(Broken)?;
        *from = left;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Broken)
}

/// The numbers of a message by their fields; the last one counts.
pub fn numbers(message: &[u8]) -> Result<BTreeMap<u64, u64>, Broken> {
    let mut numbers = BTreeMap::new();
    for field in Fields::new(message) {
        if let (field, Wire::Number(number)) = field? {
            numbers.insert(field, number);
        }
    }
    Ok(numbers)
}

/// The text, message or packed numbers of a field, of which the first one counts.
pub fn bytes(message: &[u8], field: u64) -> Result<Option<&[u8]>, Broken> {
    let mut first = None;
    for found in Fields::new(message) {
        match found? {
            (number, Wire::Bytes(bytes)) if number == field => _ = first.get_or_insert(bytes),
            _ => {}
        }
    }
    Ok(first)
}

/// Numbers one after the other; each has a byte at least, and takes eight in memory.
pub fn packed(mut bytes: &[u8]) -> impl Iterator<Item = Result<u64, Broken>> {
    std::iter::from_fn(move || {
        let number = (!bytes.is_empty()).then(|| varint(&mut bytes))?;
        if number.is_err() {
            bytes = &[];
        }
        Some(number)
    })
}

/// The encoding of a message.
#[derive(Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    /// Seven bits a byte, the lowest first; the eighth says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub fn number(&mut self, field: u64, value: u64) -> &mut Message {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    /// int32 or int64: negative numbers as 64 bits.
    pub fn signed(&mut self, field: u64, value: i64) -> &mut Message {
        self.number(field, value as u64)
    }

    pub fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Message {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn text(&mut self, field: u64, text: &str) -> &mut Message {
        self.bytes(field, text.as_bytes())
    }

    pub fn message(&mut self, field: u64, message: &Message) -> &mut Message {
        self.bytes(field, &message.0)
    }
}
