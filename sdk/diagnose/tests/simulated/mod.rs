//! A simulator of training programs and their devices, which knows what it plants.
#![allow(
    missing_docs,
    unreachable_pub,
    reason = "the parts of one test, not an interface"
)]

pub mod calls;
pub mod frames;
pub mod healthy;
pub mod machine;
pub mod rare;
pub mod starved_data;
pub mod starved_host;
pub mod torch;
pub mod truth;
pub mod unmarked;
pub mod writing;

use machine::Machine;

/// What stands for a cause where nothing is planted, or nothing found.
pub const NOTHING: &str = "nothing";

/// What a program is, the cause that must be found first (several, divided by `|`, where two are
/// planted), and how it is played.
pub type Program = (&'static str, &'static str, fn(&mut Machine));
