//! The arguments that are kept, of all that PyTorch writes.

use super::cursor::{Cursor, Fault, Raw, Text};
use super::number::integer;
use super::text::{Texts, decode};
use crate::vocab::arg;
use crate::{Arg, Args, Strings, Symbol, Value};

/// Keys of the arguments that are kept, in the order in which a slice has them.
const KEYS: [&str; COUNT] = [
    arg::DEVICE,
    arg::STREAM,
    arg::CORRELATION,
    arg::EXTERNAL_ID,
    arg::BYTES,
    arg::BANDWIDTH,
    arg::SYNC_KIND,
    arg::WAIT_ON_STREAM,
    arg::WAIT_ON_RECORD,
    arg::COLLECTIVE,
];
const COUNT: usize = 10;
const DEVICE: usize = 0;
const STREAM: usize = 1;

/// The kept arguments of one event, by the position of their key.
#[derive(Debug, Default)]
pub(super) struct Kept<'b>([Option<Raw<'b>>; COUNT]);

impl<'b> Kept<'b> {
    /// Reads them from the object with all arguments at which the cursor stands.
    #[inline]
    pub(super) fn read(&mut self, cursor: &mut Cursor<'b>) -> Result<(), Fault> {
        cursor.object(|cursor, key| {
            let position = if key.escaped {
                position(decode(key).0.as_bytes())
            } else {
                position(key.raw)
            };
            let value = cursor.value()?;
            if let Some(position) = position {
                self.0[position] = Some(value);
            }
            Ok(())
        })
    }

    /// Number of the device, if the event names it.
    pub(super) fn device(&self) -> Option<i64> {
        number(self.0[DEVICE]?)
    }

    /// Number of the stream, if the event names it.
    pub(super) fn stream(&self) -> Option<i64> {
        number(self.0[STREAM]?)
    }
}

/// The position of `key`, in today's spelling or that of earlier versions.
fn position(key: &[u8]) -> Option<usize> {
    Some(match key {
        b"device" => DEVICE,
        b"stream" => STREAM,
        b"correlation" => 2,
        b"External id" | b"external id" => 3,
        b"bytes" => 4,
        b"memory bandwidth (GB/s)" => 5,
        b"cuda_sync_kind" => 6,
        b"wait_on_stream" => 7,
        b"wait_on_cuda_event_record_corr_id" => 8,
        b"Collective name" => 9,
        _ => return None,
    })
}

/// Whether the argument at this position is a whole number, however the file writes it.
fn is_number(position: usize) -> bool {
    !matches!(
        KEYS[position],
        arg::BANDWIDTH | arg::SYNC_KIND | arg::COLLECTIVE
    )
}

/// A whole number: `7`, `"7"`, `7.0`.
fn number(value: Raw<'_>) -> Option<i64> {
    let (Raw::Bare(raw) | Raw::Text(Text { raw, .. })) = value else {
        return None;
    };
    integer(raw).or_else(|| {
        let number = float(std::str::from_utf8(raw).ok()?)?;
        (number.fract() == 0.0 && number.abs() < EXACT).then_some(number as i64)
    })
}

/// Below this, every whole number is a different floating-point number.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Makes arguments of what was kept.
#[derive(Debug)]
pub(super) struct Keeper {
    keys: [Option<Symbol>; COUNT],
    scratch: Vec<Arg>,
}

impl Default for Keeper {
    fn default() -> Self {
        Self {
            keys: [None; COUNT],
            scratch: Vec::with_capacity(COUNT),
        }
    }
}

impl Keeper {
    /// The arguments of an event; `lane`, its device and stream, if it lies on a device.
    pub(super) fn args(
        &mut self,
        kept: &Kept<'_>,
        lane: Option<(i64, i64)>,
        strings: &mut Strings,
        texts: &mut Texts,
    ) -> Args {
        self.scratch.clear();
        for (position, raw) in kept.0.iter().enumerate() {
            let given = match (position, lane) {
                (DEVICE, Some((device, _))) => Some(signed(device)),
                (STREAM, Some((_, stream))) => Some(signed(stream)),
                _ if is_number(position) => raw.and_then(|raw| {
                    let number = number(raw).map(signed);
                    number.or_else(|| value(raw, strings, texts))
                }),
                _ => raw.and_then(|raw| value(raw, strings, texts)),
            };
            if let Some(value) = given {
                let key =
                    *self.keys[position].get_or_insert_with(|| strings.intern(KEYS[position]));
                self.scratch.push((key, value));
            }
        }
        self.scratch.as_slice().into()
    }
}

/// An integer as [`Value`] has it.
fn signed(number: i64) -> Value {
    match u64::try_from(number) {
        Ok(number) => Value::U64(number),
        Err(_) => Value::I64(number),
    }
}

/// A number, a truth value or a text; `None` for `null`, lists, objects, and words that are no
/// JSON (`nan`).
pub(super) fn value(raw: Raw<'_>, strings: &mut Strings, texts: &mut Texts) -> Option<Value> {
    match raw {
        Raw::Text(text) => Some(Value::Str(texts.symbol(text, strings))),
        Raw::Nested(_) => None,
        Raw::Bare(b"true") => Some(Value::Bool(true)),
        Raw::Bare(b"false") => Some(Value::Bool(false)),
        Raw::Bare(raw) => {
            if let Some(number) = integer(raw) {
                return Some(signed(number));
            }
            let text = std::str::from_utf8(raw).ok()?;
            // Longer than what `integer` takes.
            if let Ok(large) = text.parse() {
                return Some(Value::U64(large));
            }
            if let Ok(large) = text.parse() {
                return Some(signed(large));
            }
            float(text).map(Value::F64)
        }
    }
}

/// A finite number.
pub(super) fn float(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kept_key_is_found_at_its_position() {
        for (expected, key) in KEYS.iter().enumerate() {
            assert_eq!(position(key.as_bytes()), Some(expected), "{key}");
        }
        assert_eq!(position(b"cbid"), None);
    }

    #[test]
    fn a_number_may_stand_as_text_or_with_a_point() {
        for raw in ["7", "7.0", "7e0"] {
            let text = Text {
                raw: raw.as_bytes(),
                escaped: false,
            };
            assert_eq!(number(Raw::Bare(raw.as_bytes())), Some(7), "{raw}");
            assert_eq!(number(Raw::Text(text)), Some(7), "\"{raw}\"");
        }
        for raw in ["7.5", "stream 7", "nan", "1e300"] {
            assert_eq!(number(Raw::Bare(raw.as_bytes())), None, "{raw}");
        }
    }
}
