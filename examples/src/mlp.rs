//! A network of two layers.

use crate::rows::{Batch, FEATURES, Rows};
use crate::ways::Way;
use burn::nn::{Linear, LinearConfig, Relu};
use burn::optim::{GradientsParams, ModuleOptimizer, SgdConfig};
use burn::prelude::*;
use gpustall::instrument; // gpustall
use std::path::Path;

/// From a row to one number.
#[derive(Module, Debug)]
pub struct Mlp {
    hidden: Linear,
    activation: Relu,
    output: Linear,
}

impl Mlp {
    /// With 32 hidden units.
    pub fn new(device: &Device) -> Self {
        Self {
            hidden: LinearConfig::new(FEATURES, 32).init(device),
            activation: Relu::new(),
            output: LinearConfig::new(32, 1).init(device),
        }
    }

    /// `[rows, FEATURES]` to `[rows, 1]`.
    pub fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        let hidden = self.activation.forward(self.hidden.forward(rows));
        self.output.forward(hidden)
    }
}

/// The network and what trains it.
pub struct Trainer {
    model: Mlp,
    optimizer: ModuleOptimizer,
}

impl Trainer {
    /// On a device with autodiff.
    pub fn new(device: &Device) -> Self {
        Self {
            model: Mlp::new(device),
            optimizer: SgdConfig::new().init(),
        }
    }

    /// One step, its parts marked.
    pub fn step(mut self, batch: Batch) -> Self {
        let forward = instrument::phase("forward"); // gpustall
        let output = self.model.forward(batch.rows.autodiff());
        let loss = (output - batch.targets.autodiff()).powf_scalar(2.0).mean();
        drop(forward);
        let backward = instrument::phase("backward"); // gpustall
        let gradients = GradientsParams::from_grads(loss.backward(), &self.model);
        drop(backward);
        let _optimizer = instrument::phase("optimizer"); // gpustall
        self.model = self.optimizer.step(0.01, self.model, gradients);
        self
    }
}

/// One step on `rows` rows, in a session of its own: a GPU's kernels are compiled in the first one.
///
/// The session keeps what compiling costs out of every other trace, and shows it in one of its own.
///
/// # Errors
///
/// Those of the device, and of a trace that cannot be written to `directory`.
pub fn warm_up(rows: usize, directory: &Path, device: &Device) -> anyhow::Result<()> {
    Way::run("warm-up", directory, device, || {
        let batch = Rows::generate(rows).slice(0..rows, device);
        Trainer::new(&device.clone().autodiff()).step(batch);
        Ok(1)
    })?;
    Ok(())
}
