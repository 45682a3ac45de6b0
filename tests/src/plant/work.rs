//! Work of a known size.

use burn_core::tensor::{Device, Tensor};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Duration;

/// CPU time of the calling thread.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Keeps the calling thread busy until it has used `cpu` of CPU time.
#[inline(never)]
pub fn spin(cpu: Duration) {
    let until = cpu_time() + cpu;
    let mut state = 1_u64;
    while cpu_time() < until {
        for _ in 0..500 {
            state = black_box(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1),
            );
        }
    }
}

/// Multiplies matrices on the calling thread until it has used `cpu` of CPU time.
#[inline(never)]
pub fn multiply(cpu: Duration) {
    let until = cpu_time() + cpu;
    let matrix = Tensor::<2>::ones([24, 24], &Device::flex());
    while cpu_time() < until {
        black_box(matrix.clone().matmul(matrix.clone()));
    }
}
