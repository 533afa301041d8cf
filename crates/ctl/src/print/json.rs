//! JSON as Go's `encoding/json` writes etcd's messages: fields that are empty are left out, bytes are base64, numbers
//! of 64 bits are numbers, and enumerations too.

use std::fmt::Write;

use bytes::Bytes;
use cli::text::quote::json_quoted as text;

/// A value with a form in JSON.
pub(crate) trait ToJson {
    /// Appends the value.
    fn json(&self, out: &mut String);

    /// Whether a field with this value is left out.
    fn is_left_out(&self) -> bool;
}

macro_rules! number {
    ($($kind:ty),*) => {
        $(impl ToJson for $kind {
            fn json(&self, out: &mut String) {
                let _ = write!(out, "{self}");
            }
            fn is_left_out(&self) -> bool {
                *self == 0
            }
        })*
    };
}

number!(i32, i64, u32, u64);

impl ToJson for bool {
    fn json(&self, out: &mut String) {
        let _ = write!(out, "{self}");
    }

    fn is_left_out(&self) -> bool {
        !self
    }
}

impl ToJson for String {
    fn json(&self, out: &mut String) {
        text(self, out);
    }

    fn is_left_out(&self) -> bool {
        self.is_empty()
    }
}

impl ToJson for Bytes {
    fn json(&self, out: &mut String) {
        out.push('"');
        base64(self, out);
        out.push('"');
    }

    fn is_left_out(&self) -> bool {
        self.is_empty()
    }
}

impl<T: ToJson> ToJson for Option<T> {
    fn json(&self, out: &mut String) {
        match self {
            Some(value) => value.json(out),
            None => out.push_str("null"),
        }
    }

    fn is_left_out(&self) -> bool {
        self.is_none()
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn json(&self, out: &mut String) {
        self.as_slice().json(out);
    }

    fn is_left_out(&self) -> bool {
        self.is_empty()
    }
}

impl<T: ToJson> ToJson for [T] {
    fn json(&self, out: &mut String) {
        out.push('[');
        for (at, value) in self.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            value.json(out);
        }
        out.push(']');
    }

    fn is_left_out(&self) -> bool {
        self.is_empty()
    }
}

/// An object that is being written, field by field.
pub(crate) struct Object<'a> {
    out: &'a mut String,
    begun: bool,
}

impl<'a> Object<'a> {
    /// Begins an object.
    pub(crate) fn new(out: &'a mut String) -> Self {
        out.push('{');
        Self { out, begun: false }
    }

    /// A field, unless it is empty.
    pub(crate) fn field<T: ToJson + ?Sized>(&mut self, name: &str, value: &T) -> &mut Self {
        if value.is_left_out() { self } else { self.always(name, value) }
    }

    /// A field, even if it is empty.
    pub(crate) fn always<T: ToJson + ?Sized>(&mut self, name: &str, value: &T) -> &mut Self {
        self.name(name);
        value.json(self.out);
        self
    }

    /// A field whose value is already JSON.
    pub(crate) fn raw(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(name);
        self.out.push_str(value);
        self
    }

    fn name(&mut self, name: &str) {
        if self.begun {
            self.out.push(',');
        }
        self.begun = true;
        let _ = write!(self.out, "\"{name}\":");
    }

    /// Ends the object.
    pub(crate) fn end(&mut self) {
        self.out.push('}');
    }
}

/// Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8], out: &mut String) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
            out.push(if at <= group.len() { char::from(letter) } else { '=' });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: &impl ToJson) -> String {
        let mut text = String::new();
        value.json(&mut text);
        text
    }

    #[test]
    fn bytes_are_base64_and_lists_are_arrays() {
        for (bytes, text) in [("", "\"\""), ("a", "\"YQ==\""), ("ab", "\"YWI=\""), ("abc", "\"YWJj\"")] {
            assert_eq!(json(&Bytes::from(bytes)), text);
        }
        assert_eq!(json(&vec![1i64, -2]), "[1,-2]");
    }
}
