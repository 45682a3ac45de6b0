//! A chunk as it stands in the file.

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The columns of a chunk; those that its kind does not have are empty.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    pub(super) text: Vec<String>,
    pub(super) pid: Vec<u32>,
    pub(super) tid: Vec<u32>,
    pub(super) name: Vec<u32>,
    pub(super) cat: Vec<u32>,
    pub(super) sort: Vec<i32>,
    pub(super) synthetic: Vec<u8>,
    pub(super) track: Vec<u32>,
    pub(super) start: Vec<i64>,
    pub(super) dur: Vec<u64>,
    pub(super) at: Vec<i64>,
    pub(super) series: Vec<u32>,
    pub(super) value: Vec<Number>,
    pub(super) id: Vec<i64>,
    pub(super) from: Vec<u32>,
    pub(super) to: Vec<u32>,
    pub(super) lag: Vec<i64>,
    pub(super) source: Vec<u32>,
    pub(super) total: Vec<u64>,
    pub(super) shape: Vec<u32>,
    pub(super) shapes: Vec<Vec<u32>>,
    pub(super) args: Vec<Cell>,
}

/// A number that may be `"NaN"`, `"Infinity"` or `"-Infinity"`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number(pub(super) f64);

/// The value of an argument.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cell {
    Bool(bool),
    U64(u64),
    I64(i64),
    F64(f64),
    /// The number of a string.
    Str(u32),
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Cell::deserialize(deserializer)? {
            Cell::F64(v) => Ok(Number(v)),
            Cell::U64(v) => Ok(Number(v as f64)),
            Cell::I64(v) => Ok(Number(v as f64)),
            Cell::Bool(_) | Cell::Str(_) => Err(de::Error::custom("a number was expected")),
        }
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CellVisitor)
    }
}

struct CellVisitor;

impl<'de> Visitor<'de> for CellVisitor {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, a number, or the number of a string in brackets")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Cell, E> {
        Ok(Cell::Bool(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Cell, E> {
        Ok(Cell::U64(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Cell, E> {
        Ok(Cell::I64(v))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Cell, E> {
        Ok(Cell::F64(v))
    }

    fn visit_str<E: de::Error>(self, v: &str) -> Result<Cell, E> {
        match v {
            "NaN" => Ok(Cell::F64(f64::NAN)),
            "Infinity" => Ok(Cell::F64(f64::INFINITY)),
            "-Infinity" => Ok(Cell::F64(f64::NEG_INFINITY)),
            _ => Err(E::custom("a text that is no number")),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Cell, A::Error> {
        let number = seq.next_element::<u32>()?;
        match (number, seq.next_element::<de::IgnoredAny>()?) {
            (Some(number), None) => Ok(Cell::Str(number)),
            _ => Err(de::Error::custom("brackets with other than one number")),
        }
    }
}
