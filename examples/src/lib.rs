//! What several examples share. The examples themselves are the files beside this folder, one case
//! each.
//!
//! | module | what it holds |
//! |---|---|
//! | [`device`] | `--device cpu` or `cuda` |
//! | [`rows`] | rows of floats in memory: a data set, a batcher, and slices of them |
//! | [`mlp`] | a network of two layers, and one step of training it |
//! | [`ways`] | one run in a session of its own, and the table that compares several |
//! | [`fix`] | a prediction of a report beside what was measured once the fix was made |

pub mod device;
pub mod fix;
pub mod mlp;
pub mod rows;
pub mod ways;
