//! One Chrome event as it stands in a file.

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The parts of an event that our own events have.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow)]
    pub(super) ph: Cow<'a, str>,
    #[serde(default)]
    pub(super) pid: u32,
    #[serde(default)]
    pub(super) tid: u32,
    #[serde(borrow, default)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) cat: Cow<'a, str>,
    #[serde(borrow, default)]
    ts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    dur: Option<&'a RawValue>,
    /// Of a flow.
    #[serde(default)]
    pub(super) id: Option<i64>,
    /// Of an async slice.
    #[serde(borrow, default)]
    id2: Option<LocalId<'a>>,
    /// Own time of a flow end that viewers see at another time.
    #[serde(default)]
    pub(super) at_ns: Option<u64>,
    /// On an instant that only carries a flow end.
    #[serde(default)]
    pub(super) marker: bool,
    /// Lost events.
    #[serde(default)]
    pub(super) total: Option<u64>,
    #[serde(borrow, default)]
    pub(super) open: Option<OpenPart<'a>>,
    #[serde(borrow, default)]
    pub(super) args: Option<&'a RawValue>,
}

/// An id that is unique in the process and category of the event.
#[derive(Debug, serde::Deserialize)]
struct LocalId<'a> {
    #[serde(borrow)]
    local: Cow<'a, str>,
}

/// What an instant for a slice that is still open says about the slice.
#[derive(Debug, serde::Deserialize)]
pub(super) struct OpenPart<'a> {
    pub(super) start_ns: u64,
    #[serde(borrow, default)]
    pub(super) cat: Cow<'a, str>,
}

impl Line<'_> {
    /// Time of the event in nanoseconds.
    pub(super) fn ts(&self) -> Option<u64> {
        nanos(self.ts?.get())
    }

    /// Length of the event in nanoseconds.
    pub(super) fn dur(&self) -> Option<u64> {
        nanos(self.dur?.get())
    }

    /// The id of an async slice.
    pub(super) fn local_id(&self) -> Option<u64> {
        let hex = self.id2.as_ref()?.local.strip_prefix("0x")?;
        u64::from_str_radix(hex, 16).ok()
    }

    /// The arguments, in order.
    pub(super) fn args(&self) -> Result<Vec<(Cow<'_, str>, Arg<'_>)>, serde_json::Error> {
        match self.args {
            Some(raw) => serde_json::from_str::<Pairs<'_>>(raw.get()).map(|pairs| pairs.0),
            None => Ok(Vec::new()),
        }
    }
}

/// Nanoseconds from the text of a number of microseconds, exact when it has up to three decimals.
fn nanos(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if digits(whole) && digits(fraction) && fraction.len() <= 3 {
        let rest = format!("{fraction:0<3}").parse::<u64>().ok()?;
        return whole
            .parse::<u64>()
            .ok()?
            .checked_mul(1000)?
            .checked_add(rest);
    }
    // Another program rewrote the file.
    let ns = (text.parse::<f64>().ok()? * 1000.0).round();
    (ns >= 0.0 && ns < u64::MAX as f64).then_some(ns as u64)
}

/// The value of an argument.
#[derive(Debug)]
pub(super) enum Arg<'a> {
    Bool(bool),
    U64(u64),
    I64(i64),
    F64(f64),
    Str(Cow<'a, str>),
    /// Null, a list or an object: not ours.
    Other,
}

/// The members of an object in their order, with repetitions.
struct Pairs<'a>(Vec<(Cow<'a, str>, Arg<'a>)>);

#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Pairs<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the arguments of an event")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some((key, value)) = map.next_entry::<Key<'de>, Arg<'de>>()? {
                    pairs.push((key.0, value));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(V)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Arg<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Arg<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the value of an argument")
            }
            fn visit_bool<E>(self, v: bool) -> Result<Self::Value, E> {
                Ok(Arg::Bool(v))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Self::Value, E> {
                Ok(Arg::U64(v))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Self::Value, E> {
                Ok(Arg::I64(v))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Self::Value, E> {
                Ok(Arg::F64(v))
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
                Ok(Arg::Str(Cow::Borrowed(v)))
            }
            fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
                Ok(Arg::Str(Cow::Owned(v.into())))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Arg::Other)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Arg::Other)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                // One member that names the type of a value for which JSON has no number.
                let typed = match map.next_key::<Key<'de>>()? {
                    Some(Key(key)) => {
                        let value: Arg<'de> = map.next_value()?;
                        let text = value.as_str().unwrap_or_default();
                        match &*key {
                            "u64" => text.parse().ok().map(Arg::U64),
                            "f64" => number(text).map(Arg::F64),
                            _ => None,
                        }
                    }
                    None => None,
                };
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(typed.unwrap_or(Arg::Other))
            }
        }
        deserializer.deserialize_any(V)
    }
}

impl Arg<'_> {
    /// The value as a number.
    pub(super) fn as_f64(&self) -> Option<f64> {
        match self {
            Arg::U64(v) => Some(*v as f64),
            Arg::I64(v) => Some(*v as f64),
            Arg::F64(v) => Some(*v),
            Arg::Bool(_) | Arg::Str(_) | Arg::Other => None,
        }
    }

    pub(super) fn as_u64(&self) -> Option<u64> {
        match self {
            Arg::U64(v) => Some(*v),
            _ => None,
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Arg::Str(v) => Some(v),
            _ => None,
        }
    }
}

/// A number that stands as text.
fn number(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// The argument `key`.
pub(super) fn find<'a, 'b>(args: &'b [(Cow<'a, str>, Arg<'a>)], key: &str) -> Option<&'b Arg<'a>> {
    args.iter().find(|(k, _)| k == key).map(|(_, value)| value)
}

/// The schema and the meta in the event that makes a file ours.
#[derive(Debug, serde::Deserialize)]
pub(super) struct MetaPart {
    pub(super) schema: u32,
    pub(super) meta: Option<serde_json::Value>,
}

impl Line<'_> {
    pub(super) fn meta(&self) -> Result<MetaPart, serde_json::Error> {
        let raw = self.args.ok_or_else(|| de::Error::missing_field("args"))?;
        serde_json::from_str(raw.get())
    }
}

#[cfg(test)]
mod tests {
    use super::nanos;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        assert_eq!(nanos("1234.567"), Some(1_234_567));
        assert_eq!(nanos("18446744073709551.615"), Some(u64::MAX));
        assert_eq!(nanos("5"), Some(5_000));
        assert_eq!(nanos("1.5e3"), Some(1_500_000));
        for bad in ["-1.000", "18446744073709551.616", "1e400", "null", "\"3\""] {
            assert_eq!(nanos(bad), None, "{bad}");
        }
    }
}
