//! Huffman decoding (RFC 7541, appendix B).
//!
//! The code is canonical: codes of one length are consecutive numbers in the order of their symbols, and each length
//! begins where the one before ended, doubled. So the lengths say everything. Example: the ten symbols of 5 bits are
//! `0 1 2 a c e i o s t` with the codes 00000 to 01001; 6 bits begin with 010100, which is ` `.
//!
//! Codes of up to 8 bits, which all usual characters have, are found by a look at the next 8 bits; a longer one by
//! comparing with the range of each length.

/// Bits of the code of each byte, and of the end of a string, which is only used to pad.
#[rustfmt::skip]
pub(super) const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11,
    10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8,
    15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5,
    6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23,
    23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21,
    23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25,
    26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26,
    28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const END: u16 = 256;
const MAX_BITS: usize = 30;
/// Codes up to this length are found at once.
const SHORT_BITS: usize = 8;

/// The codes, made from their lengths.
struct Codes {
    /// All symbols, by length and then by number.
    symbols: [u16; 257],
    /// For each length its first code, how many there are, and where they begin in `symbols`.
    first: [u32; MAX_BITS + 1],
    count: [u32; MAX_BITS + 1],
    start: [usize; MAX_BITS + 1],
    /// For each 8 bits the symbol whose code they begin with, and its length; 0 if it is longer.
    short: [(u8, u8); 1 << SHORT_BITS],
}

const CODES: Codes = codes();

const fn codes() -> Codes {
    let mut codes = Codes {
        symbols: [0; 257],
        first: [0; MAX_BITS + 1],
        count: [0; MAX_BITS + 1],
        start: [0; MAX_BITS + 1],
        short: [(0, 0); 1 << SHORT_BITS],
    };
    let (mut length, mut code, mut next) = (1, 0, 0);
    while length <= MAX_BITS {
        code <<= 1;
        codes.first[length] = code;
        codes.start[length] = next;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                if length <= SHORT_BITS {
                    let free = SHORT_BITS - length;
                    let mut rest = 0;
                    while rest < 1 << free {
                        codes.short[((code as usize) << free) + rest] = (symbol as u8, length as u8);
                        rest += 1;
                    }
                }
                codes.symbols[next] = symbol as u16;
                next += 1;
                code += 1;
            }
            symbol += 1;
        }
        codes.count[length] = code - codes.first[length];
        length += 1;
    }
    codes
}

/// Decodes a string and adds it to `into`.
///
/// # Errors
/// When the bits are no code, or the padding is not the beginning of the end's code, shorter than a byte.
pub(super) fn decode(encoded: &[u8], into: &mut Vec<u8>) -> Result<(), ()> {
    static TABLE: Codes = CODES;
    // The last `bits` bits of `pending` are not decoded: at most those of an incomplete code, and a byte.
    let (mut pending, mut bits): (u64, usize) = (0, 0);
    for byte in encoded {
        pending = pending << 8 | u64::from(*byte);
        bits += 8;
        while let Some((symbol, length)) = TABLE.next(pending, bits) {
            bits -= length;
            into.push(u8::try_from(symbol).map_err(|_| ())?);
        }
    }
    let padding = (1 << bits) - 1;
    if bits < 8 && pending & padding == padding { Ok(()) } else { Err(()) }
}

impl Codes {
    /// The symbol that the last `bits` bits of `pending` begin with, and the length of its code.
    fn next(&self, pending: u64, bits: usize) -> Option<(u16, usize)> {
        let byte = match SHORT_BITS.checked_sub(bits) {
            // The shortest code has 5 bits.
            Some(4..) => return None,
            // Padded with ones, like the end of a string.
            Some(free) => (pending << free) as u8 | ((1 << free) - 1),
            None => (pending >> (bits - SHORT_BITS)) as u8,
        };
        let (symbol, length) = self.short[usize::from(byte)];
        if length != 0 {
            return (usize::from(length) <= bits).then_some((u16::from(symbol), usize::from(length)));
        }
        (SHORT_BITS + 1..=bits.min(MAX_BITS)).find_map(|length| {
            let code = (pending >> (bits - length)) as u32 & ((1 << length) - 1);
            let number =
                code.checked_sub(self.first[length]).filter(|number| *number < self.count[length])?;
            Some((self.symbols[self.start[length] + number as usize], length))
        })
    }
}

/// The code of a symbol and its length, for tests.
#[cfg(test)]
pub(super) fn code(symbol: u8) -> (u32, usize) {
    let length = usize::from(LENGTHS[usize::from(symbol)]);
    let start = CODES.start[length];
    let number =
        CODES.symbols[start..].iter().position(|other| *other == u16::from(symbol)).expect("all are there");
    (CODES.first[length] + number as u32, length)
}

const _: () = assert!(CODES.symbols[256] == END, "the end has the last code");
