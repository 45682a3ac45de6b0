//! Training programs with one planted cause of starvation each, and healthy ones.
//!
//! A plant knows what it took from the training, by its own clocks ([`truth`]): gpustall's
//! measurements play no part in it. `tests/planted_stalls.rs` runs them and compares.

pub mod catalogue;
pub mod outside;
pub mod run;
pub mod store;
pub mod trainer;
pub mod truth;
pub mod work;

pub use catalogue::{PLANTS, Plant, Planted};
