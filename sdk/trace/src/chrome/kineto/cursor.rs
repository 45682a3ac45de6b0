//! Walking over the JSON of one event without copying.
//!
//! It takes what other readers take, and some of what they refuse: words such as `nan` where a
//! value stands, control characters and unknown escapes in a text. Depth costs no stack.

/// Why a cursor cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The bytes end inside the value.
    Cut,
    /// The bytes are not JSON there.
    Syntax,
}

/// A text as it stands between its quotes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Text<'b> {
    pub(super) raw: &'b [u8],
    /// It has backslashes.
    pub(super) escaped: bool,
}

/// A value that is not looked into.
#[derive(Debug, Clone, Copy)]
pub(super) enum Raw<'b> {
    /// A text.
    Text(Text<'b>),
    /// A number, `true`, `false`, `null` or another word.
    Bare(&'b [u8]),
    /// A list or an object, with its brackets.
    Nested(&'b [u8]),
}

/// A place in a JSON text.
pub(super) struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Cursor<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes behind the cursor.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next byte that is not blank; it is not consumed.
    #[inline(always)]
    pub(super) fn peek(&mut self) -> Result<u8, Fault> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if byte > b' ' {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(Fault::Cut)
    }

    #[inline(always)]
    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.peek()? != byte {
            return Err(Fault::Syntax);
        }
        self.at += 1;
        Ok(())
    }

    /// Walks over an object; `entry` gets each key, and consumes its value.
    #[inline(always)]
    pub(super) fn object(
        &mut self,
        mut entry: impl FnMut(&mut Self, Text<'b>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            if self.peek()? != b'"' {
                return Err(Fault::Syntax);
            }
            let key = self.text()?;
            self.expect(b':')?;
            entry(self, key)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(Fault::Syntax),
            }
        }
    }

    /// Walks over the members of an object.
    pub(super) fn members(
        &mut self,
        mut member: impl FnMut(Text<'b>, Raw<'b>),
    ) -> Result<(), Fault> {
        self.object(|cursor, key| {
            member(key, cursor.value()?);
            Ok(())
        })
    }

    /// What was consumed since the cursor was at `start`.
    pub(super) fn since(&self, start: usize) -> &'b [u8] {
        &self.bytes[start..self.at]
    }

    /// Any value.
    #[inline]
    pub(super) fn value(&mut self) -> Result<Raw<'b>, Fault> {
        match self.peek()? {
            b'"' => self.text().map(Raw::Text),
            b'{' | b'[' => self.nested().map(Raw::Nested),
            b',' | b':' | b']' | b'}' => Err(Fault::Syntax),
            _ => {
                let start = self.at;
                let length = self.bytes[start..]
                    .iter()
                    .position(|&b| ENDS_WORD[usize::from(b)])
                    .ok_or(Fault::Cut)?;
                self.at += length;
                Ok(Raw::Bare(self.since(start)))
            }
        }
    }

    /// A text; the cursor stands at its first quote.
    #[inline(always)]
    fn text(&mut self) -> Result<Text<'b>, Fault> {
        let start = self.at + 1;
        let mut at = start;
        let mut escaped = false;
        loop {
            at += quote_or_backslash(self.bytes.get(at..).ok_or(Fault::Cut)?)?;
            if self.bytes[at] == b'"' {
                break;
            }
            escaped = true;
            at += 2;
        }
        self.at = at + 1;
        let raw = &self.bytes[start..at];
        Ok(Text { raw, escaped })
    }

    /// A list or an object; the cursor stands at its first bracket.
    fn nested(&mut self) -> Result<&'b [u8], Fault> {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.bytes.get(self.at) {
                None => return Err(Fault::Cut),
                Some(b'"') => {
                    self.text()?;
                    continue;
                }
                Some(b'{' | b'[') => depth += 1,
                Some(b'}' | b']') => depth -= 1,
                Some(_) => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(self.since(start));
            }
        }
    }
}

/// The bytes at which a number or a word ends.
const ENDS_WORD: [bool; 256] = {
    let mut ends = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        ends[byte] =
            byte <= 32 || matches!(byte as u8, b',' | b'}' | b']' | b':' | b'"' | b'{' | b'[');
        byte += 1;
    }
    ends
};

/// The position of the first quote or backslash, eight bytes at a time.
#[inline(always)]
fn quote_or_backslash(bytes: &[u8]) -> Result<usize, Fault> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // The high bit of each zero byte; above the lowest, of other bytes too.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let (words, rest) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zeros(word ^ (ONES * b'"' as u64)) | zeros(word ^ (ONES * b'\\' as u64));
        if found != 0 {
            return Ok(8 * i + found.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|&b| b == b'"' || b == b'\\');
    at.map(|at| 8 * words.len() + at).ok_or(Fault::Cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_found_wherever_it_stands() {
        for length in 0..40 {
            for at in 0..length {
                for byte in [b'"', b'\\'] {
                    let mut text: Vec<u8> = (0..length).map(|i| 0x80 | i as u8).collect();
                    text[at] = byte;
                    assert_eq!(quote_or_backslash(&text), Ok(at));
                }
            }
            assert_eq!(quote_or_backslash(&vec![0x23; length]), Err(Fault::Cut));
        }
    }

    #[test]
    fn every_cut_of_an_object_is_seen_as_one() {
        let json = br#"{"a":[{"b":"]}\"\\"},1],"c":nan, "d" : "x" , "e":{}} "#;
        let mut keys = Vec::new();
        let mut cursor = Cursor::new(json);
        let walked = cursor.members(|key, _| keys.push(key.raw));
        assert_eq!(walked, Ok(()));
        assert_eq!(cursor.position(), json.len() - 1);
        assert_eq!(keys, [b"a", b"c", b"d", b"e"]);
        for length in 0..json.len() - 1 {
            let walked = Cursor::new(&json[..length]).members(|_, _| ());
            assert_eq!(walked, Err(Fault::Cut), "cut after {length} bytes");
        }
    }
}
