//! A stand-in for the CUDA driver's library: some of its functions, which sleep for known times. Built
//! by the tests with `rustc --crate-type cdylib`.

#![allow(non_snake_case)]

use std::hint::black_box;
use std::thread::sleep;
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: u32) -> u32 {
    black_box(0)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(_stream: usize) -> u32 {
    sleep(5 * MILLISECOND);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyHtoD_v2(to: u64, from: usize, bytes: usize) -> u32 {
    sleep(MILLISECOND);
    let inner: extern "C" fn(u64, usize, usize) -> u32 = black_box(cuMemcpyHtoD_v2_ptds);
    black_box(inner(to, from, bytes))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyHtoD_v2_ptds(_to: u64, _from: usize, _bytes: usize) -> u32 {
    sleep(2 * MILLISECOND);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpy2D_v2(_copy: *const u64) -> u32 {
    black_box(0)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD2D32Async(
    _to: u64,
    _pitch: usize,
    _value: u32,
    _width: usize,
    _height: usize,
    _stream: usize,
) -> u32 {
    black_box(0)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAlloc_v2(_pointer: *mut u64, bytes: usize) -> u32 {
    const OUT_OF_MEMORY: u32 = 2;
    if bytes > 1 << 40 { OUT_OF_MEMORY } else { 0 }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchKernel(
    _function: usize,
    _grid_x: u32,
    _grid_y: u32,
    _grid_z: u32,
    _block_x: u32,
    _block_y: u32,
    _block_z: u32,
    _shared: u32,
    stream: usize,
    _parameters: usize,
    _extra: usize,
) -> u32 {
    black_box(stream);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchKernelEx(
    _config: *const u64,
    _function: usize,
    _parameters: usize,
    _extra: usize,
) -> u32 {
    black_box(0)
}

/// Does not return.
#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(_event: usize) -> u32 {
    loop {
        sleep(Duration::from_secs(1));
    }
}
