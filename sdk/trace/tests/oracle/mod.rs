//! A reader to compare with.

mod generate;
mod lines;
mod reader;

pub(crate) use generate::event;
pub(crate) use lines::lines;
pub(crate) use reader::oracle;
