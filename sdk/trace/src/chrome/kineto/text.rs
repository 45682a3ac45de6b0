//! Texts of events, and the symbols of those that were seen before.

use super::cursor::Text;
use crate::{Strings, Symbol};
use std::borrow::Cow;

/// Places for texts that were seen before; a power of two.
const PLACES: usize = 1 << 13;
/// Longest text that is remembered, in bytes.
const REMEMBERED_BYTES: usize = 1 << 12;

/// Finds the symbol of a text without decoding it a second time.
///
/// Each text has one place; two that share it push each other out. So a file that aims at
/// collisions makes reading slower by a constant, and memory stays bounded.
#[derive(Debug)]
pub(super) struct Texts {
    places: Vec<Option<(Symbol, Box<[u8]>)>>,
    /// Bytes of the different texts.
    pub(super) bytes: usize,
    /// Texts that had to be mended, because they were no UTF-8 or had a broken escape.
    pub(super) mended: u64,
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            places: vec![None; PLACES],
            bytes: 0,
            mended: 0,
        }
    }
}

impl Texts {
    /// The symbol of `text` in `strings`.
    pub(super) fn symbol(&mut self, text: Text<'_>, strings: &mut Strings) -> Symbol {
        let place = hash(text.raw) as usize & (PLACES - 1);
        if let Some((symbol, raw)) = &self.places[place]
            && **raw == *text.raw
        {
            return *symbol;
        }
        let (decoded, mended) = decode(text);
        self.mended += u64::from(mended);
        let before = strings.len();
        let symbol = strings.intern(&decoded);
        if strings.len() > before {
            self.bytes += decoded.len();
        }
        if text.raw.len() <= REMEMBERED_BYTES && !mended {
            self.places[place] = Some((symbol, text.raw.into()));
        }
        symbol
    }

    /// The symbol of a text of ours.
    pub(super) fn plain(&mut self, text: &str, strings: &mut Strings) -> Symbol {
        if text.contains('\\') {
            return strings.intern(text);
        }
        let raw = text.as_bytes();
        self.symbol(
            Text {
                raw,
                escaped: false,
            },
            strings,
        )
    }
}

fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = mix(bytes.len() as u64, FACTOR);
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash = mix(hash, u64::from_le_bytes(last));
    hash ^ (hash >> 32)
}

/// The characters of `text`, and whether some of them had to be replaced.
pub(super) fn decode(text: Text<'_>) -> (Cow<'_, str>, bool) {
    if !text.escaped {
        return match String::from_utf8_lossy(text.raw) {
            Cow::Borrowed(good) => (Cow::Borrowed(good), false),
            Cow::Owned(mended) => (Cow::Owned(mended), true),
        };
    }
    let mut out = Vec::with_capacity(text.raw.len());
    let mut mended = false;
    let mut rest = text.raw;
    while let Some(at) = rest.iter().position(|&b| b == b'\\') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let Some((&kind, after)) = rest.split_first() else {
            break;
        };
        rest = after;
        match kind {
            b'"' | b'\\' | b'/' => out.push(kind),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let character = unicode(&mut rest);
                mended |= character.is_none();
                let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            // No escape of JSON: a path of Windows, say.
            other => {
                mended = true;
                out.extend_from_slice(&[b'\\', other]);
            }
        }
    }
    out.extend_from_slice(rest);
    match String::from_utf8(out) {
        Ok(good) => (Cow::Owned(good), mended),
        Err(bad) => (
            Cow::Owned(String::from_utf8_lossy(bad.as_bytes()).into_owned()),
            true,
        ),
    }
}

/// The character after `\u`; takes what belongs to it from `rest`.
fn unicode(rest: &mut &[u8]) -> Option<char> {
    let first = hex(rest)?;
    *rest = &rest[4..];
    if !(0xd800..0xe000).contains(&first) {
        return char::from_u32(first);
    }
    let second = hex(rest.strip_prefix(b"\\u")?)?;
    if first >= 0xdc00 || !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    *rest = &rest[6..];
    char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
}

fn hex(text: &[u8]) -> Option<u32> {
    let mut value = 0;
    for &byte in text.get(..4)? {
        value = value * 16 + char::from(byte).to_digit(16)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_decode_as_serde_decodes_them() {
        for json in [
            r#""""#,
            r#""plain""#,
            r#""a\"b\\c\/d\b\f\n\r\t""#,
            r#""\u0041\u00e9\u6f22\ud83d\ude80 漢 🚀""#,
        ] {
            let raw = &json.as_bytes()[1..json.len() - 1];
            let escaped = json.contains('\\');
            let (text, mended) = decode(Text { raw, escaped });
            let expected: String = serde_json::from_str(json).expect("JSON");
            assert_eq!((&*text, mended), (&*expected, false), "{json}");
        }
    }

    #[test]
    fn broken_texts_are_mended_and_counted() {
        let mut texts = Texts::default();
        let mut strings = Strings::default();
        for (raw, expected) in [
            (&b"\\ud800"[..], "\u{fffd}"),
            (b"\\ud800\\u0041", "\u{fffd}A"),
            (b"\\udc00x", "\u{fffd}x"),
            (b"\\u12", "\u{fffd}12"),
            (b"C:\\data", "C:\\data"),
            (b"\xff\xfe", "\u{fffd}\u{fffd}"),
        ] {
            let escaped = raw.contains(&b'\\');
            let symbol = texts.symbol(Text { raw, escaped }, &mut strings);
            assert_eq!(strings.get(symbol), expected);
        }
        assert_eq!(texts.mended, 6);
    }
}
