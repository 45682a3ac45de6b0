//! Where a model runs.

use burn::prelude::Device;

/// The choices of `--device`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum On {
    /// Burn's CPU backend.
    Cpu,
    /// The first NVIDIA GPU.
    #[cfg(feature = "cuda")]
    Cuda,
}

impl On {
    /// The device of Burn.
    pub fn device(self) -> Device {
        match self {
            Self::Cpu => Device::flex(),
            #[cfg(feature = "cuda")]
            Self::Cuda => Device::cuda(0),
        }
    }
}
