//! Typed argument values.

use crate::Symbol;

/// The value of an argument, its text borrowed: what a recorder hands to a writer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'a> {
    /// True or false.
    Bool(bool),
    /// A non-negative integer.
    U64(u64),
    /// An integer; readers return non-negative ones as [`ValueRef::U64`].
    I64(i64),
    /// A number; NaN and infinities too.
    F64(f64),
    /// Text.
    Str(&'a str),
}

/// The value of an argument in a [`Trace`](crate::Trace), its text interned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A non-negative integer.
    U64(u64),
    /// A negative integer.
    I64(i64),
    /// A number.
    F64(f64),
    /// Text.
    Str(Symbol),
}

impl Value {
    /// The value as an unsigned integer, if it is one.
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Value::U64(v) => Some(v),
            _ => None,
        }
    }

    /// The value as a number.
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Value::U64(v) => Some(v as f64),
            Value::I64(v) => Some(v as f64),
            Value::F64(v) => Some(v),
            Value::Bool(_) | Value::Str(_) => None,
        }
    }
}
