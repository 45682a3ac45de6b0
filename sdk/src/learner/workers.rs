//! The threads that run the steps of several devices.

use crate::instrument::phase;
use burn_core::data::dataloader::{DataLoaderIterator, Progress};
use burn_core::tensor::Device;
use burn_train::train::{MultiDeviceStepError, WorkerFailure};
use burn_train::{LearnerModel, TrainOutput, TrainStep};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};

type Input<M> = <M as TrainStep>::Input;
/// What a step gives beside the gradients.
pub(super) type Output<M> = <M as TrainStep>::Output;
type Batches<'a, M> = Box<dyn DataLoaderIterator<Input<M>> + 'a>;

/// What one device made of its batch.
pub(super) struct Answer<M: LearnerModel> {
    /// Its position among the devices.
    pub(super) device: usize,
    pub(super) output: TrainOutput<Output<M>>,
}

/// One thread for each device; they end when this is dropped.
pub(super) struct Workers<M: LearnerModel> {
    inputs: Vec<Sender<(M, Input<M>)>>,
    answers: Receiver<Result<Answer<M>, WorkerFailure>>,
}

impl<M: LearnerModel> Workers<M> {
    /// # Panics
    /// When the system gives no more threads.
    pub(super) fn start(devices: &[Device]) -> Self {
        let (sender, answers) = channel();
        let start = |(number, device): (usize, &Device)| {
            let (input, work) = channel();
            let (device, sender) = (device.clone(), sender.clone());
            std::thread::Builder::new()
                .name(format!("trainer-{number}"))
                .spawn(move || run::<M>(number, &device, &work, &sender))
                .expect("a thread for each device");
            input
        };
        Self {
            inputs: devices.iter().enumerate().map(start).collect(),
            answers,
        }
    }

    /// One step: a batch of each slice that has one left, and what the devices made of them.
    pub(super) fn step(
        &self,
        slices: &mut [Batches<'_, M>],
        model: &M,
    ) -> Result<(Vec<Answer<M>>, Progress), MultiDeviceStepError> {
        let (mut sent, mut processed, mut total) = (0, 0, 0);
        let mut unread = None;
        for (slice, input) in slices.iter_mut().zip(&self.inputs) {
            match slice.next() {
                Some(Ok(batch)) => {
                    // A thread ends only when its input does.
                    sent += usize::from(input.send((model.clone(), batch)).is_ok());
                    let progress = slice.progress();
                    total += progress.items_total;
                    processed += progress.items_processed;
                }
                Some(Err(error)) => {
                    unread = Some(error);
                    break;
                }
                None => {}
            }
        }
        let _step = (sent > 0).then(|| phase("train step"));
        // All answer before this returns: one left behind would be taken for the next step's.
        let (mut answers, mut failures) = (Vec::with_capacity(sent), Vec::new());
        for answer in self.answers.iter().take(sent) {
            match answer {
                Ok(answer) => answers.push(answer),
                Err(failure) => failures.push(failure),
            }
        }
        if let Some(error) = unread {
            return Err(MultiDeviceStepError::Dataset(error));
        }
        if !failures.is_empty() {
            return Err(MultiDeviceStepError::Workers(failures));
        }
        let progress = Progress::new(processed, total, Some("items".to_owned()));
        Ok((answers, progress))
    }
}

fn run<M: LearnerModel>(
    number: usize,
    device: &Device,
    work: &Receiver<(M, Input<M>)>,
    answers: &Sender<Result<Answer<M>, WorkerFailure>>,
) {
    for (model, batch) in work {
        let step = || {
            let _step = phase("train step");
            TrainStep::step(&model.fork(device), batch)
        };
        let answer = match catch_unwind(AssertUnwindSafe(step)) {
            Ok(output) => Ok(Answer {
                device: number,
                output,
            }),
            Err(panic) => Err(WorkerFailure {
                device_id: number,
                message: message(panic.as_ref()),
            }),
        };
        if answers.send(answer).is_err() {
            break;
        }
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "unknown panic in a training worker".to_owned())
}
