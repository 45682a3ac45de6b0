//! What a trainer wraps: loaders, data sets, batchers, phases and steps.
//!
//! `use gpustall::instrument;` brings this module and, in the macro namespace, the attribute
//! `#[instrument]` of `tracing`.
//!
//! ```
//! # #[cfg(feature = "burn")]
//! # fn example<I, O, B, D>(batcher: B, data: D)
//! # where
//! #     I: Send + Sync + Clone + std::fmt::Debug + 'static,
//! #     O: Send + Clone + std::fmt::Debug + 'static,
//! #     B: burn_core::data::dataloader::batcher::Batcher<I, O> + 'static,
//! #     D: burn_core::data::dataset::Dataset<I> + 'static,
//! # {
//! use burn_core::data::dataloader::DataLoaderBuilder;
//! use gpustall::instrument;
//!
//! let loader = instrument::loader(
//!     "train",
//!     DataLoaderBuilder::new(instrument::batcher(batcher))
//!         .batch_size(256)
//!         .num_workers(4)
//!         .build(instrument::dataset(data)),
//! );
//! for batch in loader.iter() {
//!     let batch = batch.expect("the data set reads");
//!     let _forward = instrument::phase("forward");
//!     // ...
//! #   drop(batch);
//! }
//! # }
//! ```

#[cfg(feature = "burn")]
mod batcher;
#[cfg(feature = "burn")]
mod dataset;
#[cfg(feature = "burn")]
mod epochs;
#[cfg(feature = "burn")]
mod get;
#[cfg(feature = "burn")]
mod loader;
mod phase;
#[cfg_attr(
    not(feature = "burn"),
    allow(dead_code, reason = "batches come from Burn")
)]
pub(crate) mod queue;
#[cfg(feature = "burn")]
mod stage;
mod step;
mod steps;
#[cfg(feature = "burn")]
mod thread_time;
#[cfg(feature = "burn")]
mod traced;

#[cfg(feature = "burn-cuda")]
pub use crate::burn_cuda::device_phase;
#[cfg(feature = "cuda")]
pub use crate::cuda::{TracedLaunch, TracedStream, stream};
#[cfg(feature = "burn-train")]
pub use crate::learner::{training_strategy, training_strategy_on};
#[cfg(feature = "burn")]
pub use batcher::{Tagged, TracedBatcher, batcher};
#[cfg(feature = "burn")]
pub use dataset::{TracedDataset, dataset};
#[cfg(feature = "burn")]
pub use loader::{loader, loader_of_kind, untagged_loader, untagged_loader_of_kind};
pub use phase::phase;
pub use step::{StepGuard, step};
pub use steps::LoaderKind;
#[cfg(feature = "burn-train")]
pub(crate) use traced::traced_loader;

/// Sets how many reads of items go by between two that are recorded; 0 records none.
pub(crate) fn sample_items(every: u32) {
    #[cfg(feature = "burn")]
    stage::sample_items(every);
    #[cfg(not(feature = "burn"))]
    let _ = every;
}
