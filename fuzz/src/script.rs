//! Inputs that are a list of things: small numbers and pieces of bytes, one behind the other. Every input is a script.

/// Takes a script apart; at its end there is nothing more.
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    /// A script to be read.
    pub fn new(bytes: &'a [u8]) -> Script<'a> {
        Script(bytes)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next two bytes.
    pub fn half(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte()?, self.byte()?]))
    }

    /// Bytes with their length before them; fewer at the end of the script.
    pub fn piece(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.half()?).min(self.0.len());
        let (piece, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(piece)
    }
}

/// Appends bytes with their length before them.
///
/// # Panics
/// When they are longer than a length can say.
pub fn put_piece(script: &mut Vec<u8>, piece: &[u8]) {
    let length = u16::try_from(piece.len()).expect("a piece is shorter than 64 KiB");
    script.extend(length.to_le_bytes());
    script.extend(piece);
}
