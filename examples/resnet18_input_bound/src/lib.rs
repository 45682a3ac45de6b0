//! A ResNet-18 that learns from JPEG images, which the host decodes.
//!
//! | module | what it holds |
//! |---|---|
//! | [`images`] | a data set of JPEG images, and batches of their pixels |
//! | [`model`] | the network |
//! | [`training`] | the training, as a loop written by hand and by burn-train's learner |
//! | [`advise`] | a run without workers, and one with as many as its report advises |
//!
//! It is a package of its own since the learner and the decoder need more of Burn than the other
//! examples.

pub mod advise;
pub mod images;
pub mod model;
pub mod training;

pub use images::{Images, Jpegs};
pub use model::ResNet18;
pub use training::{Loop, Training};
