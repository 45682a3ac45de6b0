//! The same training twice: as a loop written by hand, and by burn-train's learner.

use super::images::{Images, Jpegs, ToImages};
use super::model::ResNet18;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder, batcher::Batcher};
use burn::data::dataset::Dataset;
use burn::optim::lr_scheduler::constant::ConstantLr;
use burn::optim::{GradientsParams, ModuleOptimizer, SgdConfig};
use burn::prelude::*;
use burn::train::metric::LossMetric;
use burn::train::{Learner, SupervisedTraining};
use gpustall::instrument; // gpustall
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const LEARNING_RATE: f64 = 0.01;

/// Every how many steps the loop that is written by hand reads the loss back.
const LOG_EVERY: usize = 10;

/// Who runs the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Loop {
    /// A loop in this file.
    ByHand,
    /// burn-train's `SupervisedTraining`.
    Learner,
}

/// What is trained, and on what.
#[derive(Debug)]
pub struct Training {
    /// Where the model runs, able to compute gradients.
    pub device: Device,
    /// Channels behind the stem.
    pub width: usize,
    /// The images to train on.
    pub data: Jpegs,
    /// Pixels a side.
    pub side: usize,
    /// Images in a batch.
    pub batch: usize,
}

impl Training {
    /// Runs all batches once, made by so many workers; returns how many steps that took.
    ///
    /// # Errors
    ///
    /// Those of the data set, of the device and of the learner.
    pub fn run(&self, by: Loop, workers: usize, directory: &Path) -> anyhow::Result<usize> {
        match by {
            Loop::ByHand => self.by_hand(self.loader("train", self.data.clone(), workers)),
            Loop::Learner => self.learner(workers, directory),
        }
    }

    /// Runs a few steps, and one of validation, since kernels are compiled and tuned when they first
    /// run; then as many again, and returns how long one of those takes, in seconds: the step of a
    /// training that has its batches for nothing.
    ///
    /// # Errors
    ///
    /// Those of the data set and of the device.
    pub fn warm_up(&self, steps: usize) -> anyhow::Result<f64> {
        let batch = self.batch.min(self.data.len());
        let items: Result<Vec<_>, _> = (0..batch).map(|index| self.data.get(index)).collect();
        let batch = ToImages { side: self.side }.batch(items?, &self.device.clone().inner());
        let mut model = ResNet18::new(self.width, &self.device);
        let mut optimizer = SgdConfig::new().init();
        let mut train = |mut model| {
            for _ in 0..steps {
                model = self.step(model, &mut optimizer, batch.clone()).0;
            }
            model
        };
        model = train(model);
        let output = model.valid().classify(batch.clone());
        output.loss.try_into_scalar::<f32>()?;
        self.device.sync()?;
        let start = Instant::now();
        train(model);
        self.device.sync()?;
        Ok(start.elapsed().as_secs_f64() / steps as f64)
    }

    fn loader(&self, name: &str, data: Jpegs, workers: usize) -> Arc<dyn DataLoader<Images>> {
        let to_images = ToImages { side: self.side };
        let loader = DataLoaderBuilder::new(instrument::batcher(to_images)) // gpustall
            .batch_size(self.batch)
            .shuffle(7)
            .num_workers(workers)
            .set_device(self.device.clone().inner())
            .build(instrument::dataset(data)); // gpustall
        instrument::loader(name, loader) // gpustall
    }

    fn by_hand(&self, loader: Arc<dyn DataLoader<Images>>) -> anyhow::Result<usize> {
        let mut model = ResNet18::new(self.width, &self.device);
        let mut optimizer = SgdConfig::new().init();
        let mut steps = 0;
        for batch in loader.iter() {
            let loss;
            (model, loss) = self.step(model, &mut optimizer, batch?);
            steps += 1;
            if steps % LOG_EVERY == 0 {
                let _log = instrument::phase("metrics"); // gpustall
                let loss = loss.try_into_scalar::<f32>()?;
                anyhow::ensure!(loss.is_finite(), "the loss of step {steps} is {loss}");
            }
        }
        Ok(steps)
    }

    fn step(
        &self,
        model: ResNet18,
        optimizer: &mut ModuleOptimizer,
        batch: Images,
    ) -> (ResNet18, Tensor<1>) {
        let forward = instrument::phase("forward"); // gpustall
        let loss = model.classify(batch.autodiff()).loss;
        drop(forward);
        let backward = instrument::phase("backward"); // gpustall
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        drop(backward);
        let _optimizer = instrument::phase("optimizer"); // gpustall
        (optimizer.step(LEARNING_RATE, model, gradients), loss)
    }

    fn learner(&self, workers: usize, directory: &Path) -> anyhow::Result<usize> {
        let steps = self.data.len().div_ceil(self.batch);
        let (train, valid) = (
            self.loader("train", self.data.clone(), workers),
            self.loader("valid", self.data.first(self.batch), 0),
        );
        let model = ResNet18::new(self.width, &self.device);
        let rate = ConstantLr::new(LEARNING_RATE);
        let result = SupervisedTraining::new(directory, train, valid)
            .metrics((LossMetric::new(),))
            .num_epochs(1)
            .with_training_strategy(instrument::training_strategy()) // gpustall
            .launch(Learner::new(model, SgdConfig::new().init(), rate));
        match result.error {
            Some(error) => Err(anyhow::anyhow!("{error}")),
            None => Ok(steps),
        }
    }
}
