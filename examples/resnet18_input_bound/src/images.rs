//! A data set of JPEG images in memory, and batches of their pixels.

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::{Dataset, DatasetError};
use burn::prelude::*;
use jpeg_encoder::{ColorType, Encoder, EncodingError};
use std::io::{self, Cursor};
use std::ops::Range;
use std::sync::Arc;
use zune_jpeg::JpegDecoder;

/// What the images show.
pub const CLASSES: usize = 10;

/// Encoded images, decoded, cropped and scaled when they are read.
#[derive(Debug, Clone)]
pub struct Jpegs {
    encoded: Arc<Vec<Vec<u8>>>,
    len: usize,
    side: usize,
}

/// A decoded image: `side * side` pixels, red, green and blue of each.
#[derive(Debug, Clone)]
pub struct Decoded {
    pixels: Vec<u8>,
    label: u8,
}

impl Jpegs {
    /// A data set of `len` images, which are `different` ones in turn. Each is made here, of `width` to
    /// `height` pixels, and encoded; one that is read is a square of `side` pixels.
    ///
    /// # Errors
    ///
    /// Those of the encoder: an image has at least one pixel.
    pub fn generate(
        different: usize,
        (width, height): (u16, u16),
        side: usize,
        len: usize,
    ) -> Result<Self, EncodingError> {
        let encode = |number: usize| {
            let mut jpeg = Vec::new();
            let pixels = picture(number, width, height);
            Encoder::new(&mut jpeg, 90).encode(&pixels, width, height, ColorType::Rgb)?;
            Ok(jpeg)
        };
        let encoded: Result<Vec<_>, EncodingError> = (0..different.max(1)).map(encode).collect();
        Ok(Self {
            encoded: Arc::new(encoded?),
            len,
            side,
        })
    }

    /// The first `len` of them.
    pub fn first(&self, len: usize) -> Self {
        Self {
            len: len.min(self.len),
            ..self.clone()
        }
    }

    /// Mean size of an encoded image, bytes.
    pub fn mean_bytes(&self) -> usize {
        self.encoded.iter().map(Vec::len).sum::<usize>() / self.encoded.len()
    }

    fn decode(&self, index: usize) -> io::Result<Decoded> {
        let _decode = gpustall::span("decode"); // gpustall
        let number = index % self.encoded.len();
        let mut decoder = JpegDecoder::new(Cursor::new(self.encoded[number].as_slice()));
        let pixels = decoder.decode().map_err(io::Error::other)?;
        let size = decoder.dimensions();
        let (width, height) = size.ok_or_else(|| io::Error::other("an image without a size"))?;
        // Three quarters of each side, at a place that follows from the index.
        let mut random = Random::new(index);
        let mut part = |of: usize| {
            let start = random.below((of - of * 3 / 4) as u32 + 1) as usize;
            start..start + (of * 3 / 4).max(1)
        };
        Ok(Decoded {
            pixels: shrink(&pixels, width, part(width), part(height), self.side),
            label: (number % CLASSES) as u8,
        })
    }
}

impl Dataset<Decoded> for Jpegs {
    fn get(&self, index: usize) -> Result<Decoded, DatasetError> {
        self.decode(index).map_err(DatasetError::new)
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// A picture of class `number % CLASSES`: stripes whose direction is the class, and noise, so that it
/// is as hard to encode as a photograph.
fn picture(number: usize, width: u16, height: u16) -> Vec<u8> {
    let angle = (number % CLASSES) as f32 * std::f32::consts::PI / CLASSES as f32;
    let (sin, cos) = angle.sin_cos();
    let mut random = Random::new(number);
    let mut pixels = Vec::with_capacity(3 * usize::from(width) * usize::from(height));
    for y in 0..height {
        for x in 0..width {
            let across = (f32::from(x) * cos + f32::from(y) * sin) * 0.15;
            let stripe = 110.0 + 80.0 * across.sin();
            let noise = random.below(40) as f32;
            pixels.extend([stripe + noise, 255.0 - stripe, 60.0 + 2.0 * noise].map(|c| c as u8));
        }
    }
    pixels
}

/// The part of an image of `width` pixels a row, as a square of `side` pixels: each the mean of those
/// that it stands for.
fn shrink(
    pixels: &[u8],
    width: usize,
    columns: Range<usize>,
    rows: Range<usize>,
    side: usize,
) -> Vec<u8> {
    // At least one pixel, where the part is smaller than the square.
    let cut = |of: &Range<usize>, at: usize| {
        let start = of.start + at * of.len() / side;
        start..(of.start + (at + 1) * of.len() / side).max(start + 1)
    };
    let mut square = Vec::with_capacity(3 * side * side);
    for y in 0..side {
        let rows = cut(&rows, y);
        for x in 0..side {
            let columns = cut(&columns, x);
            let mut sum = [0u32; 3];
            for row in rows.clone() {
                let row = &pixels[3 * (row * width + columns.start)..][..3 * columns.len()];
                for pixel in row.chunks_exact(3) {
                    sum = std::array::from_fn(|colour| sum[colour] + u32::from(pixel[colour]));
                }
            }
            let count = (rows.len() * columns.len()) as u32;
            square.extend(sum.map(|sum| (sum / count) as u8));
        }
    }
    square
}

/// Numbers that look random and are the same each time.
struct Random(u32);

impl Random {
    fn new(seed: usize) -> Self {
        Self((seed as u32).wrapping_mul(2_654_435_761).wrapping_add(1))
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) % limit
    }
}

/// A batch: images of `[batch, 3, side, side]`, and their classes.
#[derive(Debug, Clone)]
pub struct Images {
    /// The pixels, about 0 and of about unit variance.
    pub images: Tensor<4>,
    /// The classes.
    pub labels: Tensor<1, Int>,
}

impl Images {
    /// The same, for a model that learns.
    pub fn autodiff(self) -> Self {
        Self {
            images: self.images.autodiff(),
            labels: self.labels.autodiff(),
        }
    }
}

/// Joins images to a batch: one tensor of all pixels, so that one copy takes them to the device.
#[derive(Debug, Clone)]
pub struct ToImages {
    /// Pixels a side.
    pub side: usize,
}

/// Mean and standard deviation of each colour, those that are usual for photographs.
const COLOURS: [(f32, f32); 3] = [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)];

impl Batcher<Decoded, Images> for ToImages {
    fn batch(&self, items: Vec<Decoded>, device: &Device) -> Images {
        let (count, side) = (items.len(), self.side);
        let mut values = Vec::with_capacity(count * 3 * side * side);
        for item in &items {
            for (colour, (mean, deviation)) in COLOURS.into_iter().enumerate() {
                let of_colour = item.pixels.iter().skip(colour).step_by(3);
                let scaled = of_colour.map(|&value| (f32::from(value) / 255.0 - mean) / deviation);
                values.extend(scaled);
            }
        }
        let labels: Vec<i32> = items.iter().map(|item| i32::from(item.label)).collect();
        Images {
            images: Tensor::from_data(TensorData::new(values, [count, 3, side, side]), device),
            labels: Tensor::from_data(TensorData::new(labels, [count]), device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_read_back_as_a_square_of_its_class() {
        let data = Jpegs::generate(12, (64, 48), 24, 100).expect("encodes");
        assert_eq!(data.len(), 100);
        let image = data.get(23).expect("decodes");
        assert_eq!(image.pixels.len(), 24 * 24 * 3);
        assert_eq!(image.label, 1, "23 is the 12th of 12 again, of 10 classes");
        let again = data.get(23).expect("decodes");
        assert_eq!(image.pixels, again.pixels);
    }

    #[test]
    fn a_pixel_of_the_square_is_the_mean_of_those_it_stands_for() {
        // Two rows of four pixels; the left column is not part.
        let row = |values: [u8; 4]| values.into_iter().flat_map(|value| [value, 0, value]);
        let pixels: Vec<u8> = row([9, 10, 20, 50]).chain(row([9, 30, 40, 70])).collect();
        assert_eq!(shrink(&pixels, 4, 1..3, 0..2, 1), [25, 0, 25]);
        let large = shrink(&pixels, 4, 3..4, 0..1, 2);
        assert_eq!(large, [50, 0, 50].repeat(4));
    }

    #[test]
    fn a_batch_holds_the_colours_one_after_the_other() {
        let item = |value| Decoded {
            pixels: vec![value, 0, 255, value, 0, 255, value, 0, 255, value, 0, 255],
            label: 3,
        };
        let batch = ToImages { side: 2 }.batch(vec![item(255), item(0)], &Device::flex());
        assert_eq!(batch.images.dims(), [2, 3, 2, 2]);
        let values: Vec<f32> = batch.images.into_data().try_to_vec().expect("floats");
        assert!((values[0] - (1.0 - 0.485) / 0.229).abs() < 1e-5);
        assert!((values[4] + 0.456 / 0.224).abs() < 1e-5);
        assert!((values[12] + 0.485 / 0.229).abs() < 1e-5);
    }
}
