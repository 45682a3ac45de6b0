//! Columns of a chunk that take more than an index: sums of differences, and arguments.

use super::chunk::{Cell, Chunk};
use super::decode::Decoder;
use crate::{Arg, Args, TraceTime, Value};

/// Checks that columns belong together.
pub(super) fn same_length(lengths: &[usize]) -> Result<(), String> {
    if lengths.iter().all(|&length| length == lengths[0]) {
        Ok(())
    } else {
        Err(format!("columns of different lengths {lengths:?}"))
    }
}

/// A column of differences, summed up again modulo 2^64.
#[derive(Default)]
pub(super) struct Sum(u64);

impl Sum {
    pub(super) fn next(&mut self, delta: i64) -> u64 {
        self.0 = self.0.wrapping_add(delta as u64);
        self.0
    }

    pub(super) fn time(&mut self, delta: i64) -> TraceTime {
        TraceTime::from_nanos(self.next(delta))
    }
}

/// The arguments of the rows of a chunk, one row after the other.
pub(super) struct ArgsOf<'c> {
    shape: &'c [u32],
    shapes: &'c [Vec<u32>],
    cells: std::slice::Iter<'c, Cell>,
}

impl<'c> ArgsOf<'c> {
    pub(super) fn new(c: &'c Chunk<'_>, rows: usize) -> Result<Self, String> {
        same_length(&[rows, c.shape.len()])?;
        Ok(Self {
            shape: &c.shape,
            shapes: &c.shapes,
            cells: c.args.iter(),
        })
    }

    pub(super) fn next(&mut self, of: &Decoder, row: usize) -> Result<Args, String> {
        let keys = self
            .shapes
            .get(self.shape[row] as usize)
            .ok_or("a shape is not there")?;
        let mut args: Vec<Arg> = Vec::with_capacity(keys.len().min(self.cells.len()));
        for &key in keys {
            let cell = self.cells.next().ok_or("values of arguments are missing")?;
            let value = match *cell {
                Cell::Bool(v) => Value::Bool(v),
                Cell::U64(v) => Value::U64(v),
                Cell::I64(v) => Value::I64(v),
                Cell::F64(v) => Value::F64(v),
                Cell::Str(number) => Value::Str(of.symbol(number)?),
            };
            args.push((of.symbol(key)?, value));
        }
        Ok(args.into_boxed_slice())
    }

    pub(super) fn finish(mut self) -> Result<(), String> {
        match self.cells.next() {
            None => Ok(()),
            Some(_) => Err("values of arguments are left over".into()),
        }
    }
}
