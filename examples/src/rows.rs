//! Rows of floats in memory, as a data set is that fits there.

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::{Dataset, DatasetError};
use burn::prelude::*;
use burn::tensor::{Bytes, DType};
use std::ops::Range;

/// Floats in one row.
pub const FEATURES: usize = 100;

/// Rows in memory, each with a target. A clone shares them.
#[derive(Debug, Clone)]
pub struct Rows {
    features: TensorData,
    targets: TensorData,
}

/// One row.
#[derive(Debug, Clone)]
pub struct Row {
    /// What the model sees.
    pub features: [f32; FEATURES],
    /// What it should say.
    pub target: f32,
}

/// Rows as the model takes them: `[rows, FEATURES]`, and `[rows, 1]`.
#[derive(Debug, Clone)]
pub struct Batch {
    /// What the model sees.
    pub rows: Tensor<2>,
    /// What it should say.
    pub targets: Tensor<2>,
}

impl Rows {
    /// So many rows of pseudo-random numbers in -0.5..0.5; a target is the sum of its row.
    pub fn generate(count: usize) -> Self {
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        let features: Vec<f32> = (0..count * FEATURES).map(|_| random()).collect();
        let targets = features.chunks(FEATURES).map(|row| row.iter().sum());
        let targets = targets.collect();
        Self {
            features: shared(features, FEATURES),
            targets: shared(targets, 1),
        }
    }

    /// These rows as one batch, by direct indexing: a view of the memory, copied once, to the device.
    ///
    /// # Panics
    ///
    /// If the rows are not all there.
    pub fn slice(&self, rows: Range<usize>, device: &Device) -> Batch {
        Batch {
            rows: Tensor::from_data(view(&self.features, &rows, FEATURES), device),
            targets: Tensor::from_data(view(&self.targets, &rows, 1), device),
        }
    }
}

fn shared(values: Vec<f32>, width: usize) -> TensorData {
    let shape = [values.len() / width, width];
    TensorData::from_bytes(Bytes::from_elems(values).shared(), shape, DType::F32)
}

fn view(data: &TensorData, rows: &Range<usize>, width: usize) -> TensorData {
    let row = width * size_of::<f32>();
    let bytes = data.bytes().view(rows.start * row, rows.end * row);
    let bytes = bytes.expect("shared bytes have views, and the rows are there");
    TensorData::from_bytes(bytes, [rows.len(), width], DType::F32)
}

impl Dataset<Row> for Rows {
    fn get(&self, index: usize) -> Result<Row, DatasetError> {
        let all: &[f32] = self.features.as_slice().expect("they are floats");
        let targets: &[f32] = self.targets.as_slice().expect("they are floats");
        let mut features = [0.0; FEATURES];
        features.copy_from_slice(&all[index * FEATURES..][..FEATURES]);
        Ok(Row {
            features,
            target: targets[index],
        })
    }

    fn len(&self) -> usize {
        self.targets.num_elements()
    }
}

/// Puts the rows one behind the other and makes one tensor of them all: a tensor for each row would
/// be a million copies to a GPU.
#[derive(Debug, Clone)]
pub struct RowBatcher;

impl Batcher<Row, Batch> for RowBatcher {
    fn batch(&self, items: Vec<Row>, device: &Device) -> Batch {
        let mut features = Vec::with_capacity(items.len() * FEATURES);
        for item in &items {
            features.extend_from_slice(&item.features);
        }
        let targets: Vec<f32> = items.iter().map(|item| item.target).collect();
        let tensor = |values, width| {
            Tensor::from_data(TensorData::new(values, [items.len(), width]), device)
        };
        Batch {
            rows: tensor(features, FEATURES),
            targets: tensor(targets, 1),
        }
    }
}
