//! A ResNet-18 that learns from JPEG images, which the host decodes.

pub mod advise;
pub mod images;
pub mod model;
pub mod training;

pub use images::{Images, Jpegs};
pub use model::ResNet18;
pub use training::{Loop, Training};
