//! The smallest training that burn-train's learner runs: one weight vector, fitted to a line.

use crate::Numbers;
use burn_core as burn;
use burn_core::data::dataloader::batcher::Batcher;
use burn_core::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn_core::module::{Module, Param, ParamId};
use burn_core::tensor::{Device, Tensor, TensorData};
use burn_optim::SgdConfig;
use burn_optim::lr_scheduler::constant::ConstantLr;
use burn_train::logger::{EvaluationProgressLogger, InMemoryMetricLogger, TrainingProgressLogger};
use burn_train::metric::MetricDefinition;
use burn_train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};
use burn_train::{
    ExecutionStrategy, InferenceStep, Learner, MultiDeviceOptim, RegressionOutput,
    SupervisedTraining, TrainOutput, TrainStep,
};
use std::path::Path;
use std::sync::Arc;

/// Items in the training data; those to validate with are as many.
pub const ITEMS: usize = 24;
/// Items in one batch.
pub const BATCH: usize = 4;
/// How often all batches are trained on.
pub const EPOCHS: usize = 2;

/// One weight for each of two inputs.
#[derive(Module, Debug)]
pub struct Line {
    weight: Param<Tensor<2>>,
}

/// Inputs and what they should give.
#[derive(Clone, Debug)]
pub struct Points {
    x: Tensor<2>,
    y: Tensor<2>,
}

/// Makes points of numbers.
#[derive(Clone, Debug)]
pub struct ToPoints;

impl Batcher<usize, Points> for ToPoints {
    fn batch(&self, items: Vec<usize>, device: &Device) -> Points {
        let n = items.len();
        let x: Vec<f32> = items
            .iter()
            .flat_map(|&i| [i as f32 / ITEMS as f32, 1.0])
            .collect();
        let y: Vec<f32> = items
            .iter()
            .map(|&i| 3.0 * i as f32 / ITEMS as f32 - 1.0)
            .collect();
        Points {
            x: Tensor::from_data(TensorData::new(x, [n, 2]), device),
            y: Tensor::from_data(TensorData::new(y, [n, 1]), device),
        }
    }
}

impl Line {
    /// A `tracing` span of the model's own, as users have them.
    #[tracing::instrument(skip_all, fields(rows = points.x.dims()[0]))]
    fn forward(&self, points: Points) -> RegressionOutput {
        tracing::info!("forward runs");
        let output = points.x.matmul(self.weight.val());
        let loss = (output.clone() - points.y.clone()).powi_scalar(2).mean();
        RegressionOutput::new(loss, output, points.y)
    }
}

impl TrainStep for Line {
    type Input = Points;
    type Output = RegressionOutput;

    fn step(&self, points: Points) -> TrainOutput<RegressionOutput> {
        let output = self.forward(points);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Line {
    type Input = Points;
    type Output = RegressionOutput;

    fn step(&self, points: Points) -> RegressionOutput {
        self.forward(points)
    }
}

/// A loader of the points, as a program without gpustall builds it.
pub fn plain_loader(workers: usize) -> Arc<dyn DataLoader<Points>> {
    DataLoaderBuilder::new(ToPoints)
        .batch_size(BATCH)
        .num_workers(workers)
        .build(Numbers::new(ITEMS))
}

/// The same loader, instrumented.
pub fn traced_loader(name: &str, workers: usize) -> Arc<dyn DataLoader<Points>> {
    use gpustall::instrument;
    let inner = DataLoaderBuilder::new(instrument::batcher(ToPoints))
        .batch_size(BATCH)
        .num_workers(workers)
        .build(instrument::dataset(Numbers::new(ITEMS)));
    instrument::loader(name, inner)
}

/// A training in `directory` with all of burn-train's defaults but a quiet display and a metric
/// logger without files.
pub fn training(
    directory: &Path,
    train: Arc<dyn DataLoader<Points>>,
    valid: Arc<dyn DataLoader<Points>>,
) -> SupervisedTraining<Line> {
    SupervisedTraining::new(directory, train, valid)
        .num_epochs(EPOCHS)
        .renderer(Box::new(Quiet))
        .with_metric_logger(InMemoryMetricLogger::new())
}

/// The same with loaders that a program without gpustall has: one worker to train, none to validate.
pub fn plain(directory: &Path) -> SupervisedTraining<Line> {
    training(directory, plain_loader(1), plain_loader(0))
}

/// Two devices, of which a machine has one.
pub fn several(optim: MultiDeviceOptim) -> ExecutionStrategy {
    ExecutionStrategy::multi(vec![Device::flex(), Device::flex()], optim)
}

/// What is trained: the same weights, under the same id, each time.
pub fn learner() -> Learner<Line> {
    let device = Device::flex().autodiff();
    let start = Tensor::from_data(TensorData::new(vec![0.5_f32, 0.25], [2, 1]), &device);
    let model = Line {
        weight: Param::initialized(ParamId::from(1), start.require_grad()),
    };
    Learner::new(model, SgdConfig::new().init(), ConstantLr::new(0.1))
}

/// Launches the training; returns the weights.
pub fn launch(training: SupervisedTraining<Line>) -> Vec<f32> {
    let result = training.launch(learner());
    assert!(result.error.is_none(), "{:?}", result.error);
    let weights = result.model.weight.val().into_data();
    weights.try_to_vec().unwrap()
}

/// Trains in `directory`; returns the weights.
pub fn train(
    directory: &Path,
    train: Arc<dyn DataLoader<Points>>,
    valid: Arc<dyn DataLoader<Points>>,
) -> Vec<f32> {
    launch(training(directory, train, valid))
}

/// Shows nothing.
struct Quiet;

impl MetricsRendererTraining for Quiet {
    fn update_train(&mut self, _: MetricState) {}
    fn update_valid(&mut self, _: MetricState) {}
}

impl MetricsRendererEvaluation for Quiet {
    fn update_test(&mut self, _: EvaluationName, _: MetricState) {}
}

impl TrainingProgressLogger for Quiet {
    fn start(&mut self, _: usize, _: usize, _: Option<usize>, _: Option<&str>) {}
    fn update_epoch(&mut self, _: usize) {}
    fn start_split(&mut self, _: &str, _: usize) {}
    fn update_split(&mut self, _: usize) {}
    fn end_split(&mut self) {}
    fn end(&mut self) {}
    fn log_event_training(&mut self, _: String) {}
}

impl EvaluationProgressLogger for Quiet {
    fn start_global_progress(&mut self, _: usize) {}
    fn start_test(&mut self, _: &str, _: usize) {}
    fn update_test_progress(&mut self, _: usize) {}
    fn end_test(&mut self) {}
    fn end_global_progress(&mut self) {}
    fn log_event_evaluation(&mut self, _: String) {}
}

impl MetricsRenderer for Quiet {
    fn manual_close(&mut self) {}
    fn register_metric(&mut self, _: MetricDefinition) {}
}
