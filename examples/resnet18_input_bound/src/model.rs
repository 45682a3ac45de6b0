//! ResNet-18 (He et al., 2015), with a choice of how wide it is.

use super::images::{CLASSES, Images};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::prelude::*;
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};

/// A convolution and the normalization after it.
#[derive(Module, Debug)]
struct ConvNorm {
    conv: Conv2d,
    norm: BatchNorm,
}

impl ConvNorm {
    fn new(channels: [usize; 2], kernel: usize, stride: usize, device: &Device) -> Self {
        let pad = kernel / 2;
        Self {
            conv: Conv2dConfig::new(channels, [kernel, kernel])
                .with_stride([stride, stride])
                .with_padding(PaddingConfig2d::Explicit(pad, pad, pad, pad))
                .with_bias(false)
                .init(device),
            norm: BatchNormConfig::new(channels[1]).init(device),
        }
    }

    fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.conv.forward(input))
    }
}

/// Two convolutions, and the way around them.
#[derive(Module, Debug)]
struct BasicBlock {
    first: ConvNorm,
    second: ConvNorm,
    /// Where the block changes the shape.
    around: Option<ConvNorm>,
    relu: Relu,
}

impl BasicBlock {
    fn new(channels: [usize; 2], stride: usize, device: &Device) -> Self {
        let [input, output] = channels;
        let reshapes = stride != 1 || input != output;
        Self {
            first: ConvNorm::new(channels, 3, stride, device),
            second: ConvNorm::new([output, output], 3, 1, device),
            around: reshapes.then(|| ConvNorm::new(channels, 1, stride, device)),
            relu: Relu::new(),
        }
    }

    fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let around = match &self.around {
            Some(around) => around.forward(input.clone()),
            None => input.clone(),
        };
        let hidden = self.relu.forward(self.first.forward(input));
        self.relu.forward(self.second.forward(hidden) + around)
    }
}

/// A stem, four stages of two blocks, and a classifier.
#[derive(Module, Debug)]
pub struct ResNet18 {
    stem: ConvNorm,
    relu: Relu,
    pool: MaxPool2d,
    stages: Vec<BasicBlock>,
    mean: AdaptiveAvgPool2d,
    classes: Linear,
}

impl ResNet18 {
    /// One with `width` channels behind the stem; the original has 64.
    pub fn new(width: usize, device: &Device) -> Self {
        let mut stages = Vec::new();
        for (before, after, stride) in [(1, 1, 1), (1, 2, 2), (2, 4, 2), (4, 8, 2)] {
            let channels = [before * width, after * width];
            stages.push(BasicBlock::new(channels, stride, device));
            stages.push(BasicBlock::new([channels[1], channels[1]], 1, device));
        }
        Self {
            stem: ConvNorm::new([3, width], 7, 2, device),
            relu: Relu::new(),
            pool: MaxPool2dConfig::new([3, 3])
                .with_strides([2, 2])
                .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                .init(),
            stages,
            mean: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            classes: LinearConfig::new(8 * width, CLASSES).init(device),
        }
    }

    /// Scores of `[batch, CLASSES]` for images of `[batch, 3, side, side]`.
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let stem = self.relu.forward(self.stem.forward(images));
        let last = self
            .stages
            .iter()
            .fold(self.pool.forward(stem), |x, block| block.forward(x));
        self.classes.forward(self.mean.forward(last).flatten(1, 3))
    }

    /// Scores, and how wrong they are.
    pub fn classify(&self, batch: Images) -> ClassificationOutput {
        let scores = self.forward(batch.images);
        let loss = CrossEntropyLossConfig::new().init(&scores.device());
        let loss = loss.forward(scores.clone(), batch.labels.clone());
        ClassificationOutput::new(loss, scores, batch.labels)
    }
}

impl TrainStep for ResNet18 {
    type Input = Images;
    type Output = ClassificationOutput;

    fn step(&self, batch: Images) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch.autodiff());
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for ResNet18 {
    type Input = Images;
    type Output = ClassificationOutput;

    fn step(&self, batch: Images) -> ClassificationOutput {
        self.classify(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_parameters_of_the_original() {
        let model = ResNet18::new(64, &Device::flex());
        // The paper's has 1000 classes: 11,689,512 parameters, 513,000 of them in the classifier.
        // A normalization has as many statistics again as it has parameters.
        let original = 11_689_512 - 513_000 + 512 * CLASSES + CLASSES;
        assert_eq!(model.num_params(), original + 9_600);
    }

    #[test]
    fn a_batch_of_any_size_gets_a_score_for_each_class() {
        let device = Device::flex();
        let model = ResNet18::new(4, &device);
        for side in [32, 64] {
            let scores = model.forward(Tensor::zeros([2, 3, side, side], &device));
            assert_eq!(scores.dims(), [2, CLASSES]);
        }
    }
}
