//! The lossless block: everything in a trace, column by column, in chunks.
//!
//! Layout, for another reader, in `docs/trace-format.md`.

mod chunk;
mod columns;
mod decode;
mod write;

pub(crate) use decode::Decoder;
pub(crate) use write::write;

/// Rows of a chunk at most.
const CHUNK_ROWS: usize = 4096;
/// Rows and arguments of a chunk together, roughly.
const CHUNK_CELLS: usize = 1 << 16;
/// Bytes of text in a chunk of strings, roughly.
const CHUNK_TEXT: usize = 1 << 20;
