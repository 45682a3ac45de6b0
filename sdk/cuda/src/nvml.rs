//! What `nvidia-smi` would have said: utilisation, memory, power and clocks as counters.

use crate::emit::EventSink;
use gpustall_trace::{DeviceInfo, EventRef, MonoTime, MonotonicClock, Pid, vocab};
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::Clock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the counters are read. The driver itself renews them every 20 to 200 ms.
pub const NVML_INTERVAL: Duration = Duration::from_millis(100);

/// Samples that wait at most; more are left out, which a counter survives.
const MOST: usize = 1 << 14;

/// The library; the name without a version is only there for those who compile against it.
const LIBRARY: &str = "libnvidia-ml.so.1";

#[derive(Debug, Clone, Copy)]
struct Sample {
    device: u32,
    name: &'static str,
    at: MonoTime,
    value: f64,
}

/// Reads the counters on a thread of its own.
#[derive(Debug)]
pub struct Sampler {
    start: MonoTime,
    names: Vec<(u32, String)>,
    waiting: Arc<Mutex<Vec<Sample>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts to read the counters of the devices with these numbers of NVML; they are called 0, 1...
    /// in this order. Times are counted from `start`.
    ///
    /// # Errors
    ///
    /// One sentence that says why there are no counters.
    pub fn start(start: MonoTime, devices: &[u32]) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| {
            format!("utilization, memory and power of devices were not recorded: {error}")
        };
        let nvml = Nvml::builder()
            .lib_path(LIBRARY.as_ref())
            .init()
            .map_err(|error| failed(&error))?;
        let mut names = Vec::new();
        for (number, index) in devices.iter().enumerate() {
            let device = nvml.device_by_index(*index).map_err(|e| failed(&e))?;
            names.push((number as u32, device.name().unwrap_or_default()));
        }
        let waiting = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (into, stopped, devices) = (waiting.clone(), stop.clone(), devices.to_vec());
        let thread = std::thread::Builder::new()
            .name("gpustall-nvml".into())
            .spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    sample(&nvml, &devices, &into);
                    std::thread::park_timeout(NVML_INTERVAL);
                }
            })
            .map_err(|error| failed(&error))?;
        Ok(Self {
            start,
            names,
            waiting,
            stop,
            thread: Some(thread),
        })
    }

    /// Writes what was read since the last time.
    pub fn drain(&mut self, sink: &mut dyn EventSink) {
        for (device, name) in std::mem::take(&mut self.names) {
            sink.push(&EventRef::Process {
                pid: Pid::of_device(device),
                name: &format!("GPU {device} ({name})"),
                sort: 5_000_000 + device as i32,
            });
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for sample in std::mem::take(&mut *waiting) {
            sink.push(&EventRef::Counter {
                pid: Pid::of_device(sample.device),
                name: sample.name,
                at: sample.at.in_trace(self.start),
                value: sample.value,
            });
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn sample(nvml: &Nvml, devices: &[u32], into: &Mutex<Vec<Sample>>) {
    let mut read = Vec::with_capacity(4);
    for (number, index) in devices.iter().enumerate() {
        let Ok(device) = nvml.device_by_index(*index) else {
            continue;
        };
        use vocab::device::{MEMORY_USED, POWER, SM_CLOCK, UTILIZATION};
        let values = [
            (
                UTILIZATION,
                device.utilization_rates().map(|u| f64::from(u.gpu)),
            ),
            (MEMORY_USED, device.memory_info().map(|m| m.used as f64)),
            (POWER, device.power_usage().map(|mw| f64::from(mw) / 1e3)),
            (SM_CLOCK, device.clock_info(Clock::SM).map(f64::from)),
        ];
        let at = MonotonicClock::read();
        for (name, value) in values {
            // What a device does not tell is absent.
            if let Ok(value) = value {
                read.push(Sample {
                    device: number as u32,
                    name,
                    at,
                    value,
                });
            }
        }
    }
    let mut waiting = into.lock().unwrap_or_else(PoisonError::into_inner);
    if waiting.len() < MOST {
        waiting.append(&mut read);
    }
}

/// The numbers of NVML of the devices that a process sees as 0, 1..., where `visible` is its
/// `CUDA_VISIBLE_DEVICES`. All devices, if that names them in another way than by numbers.
pub fn visible_devices(visible: Option<&str>) -> Vec<u32> {
    let count = || {
        let nvml = Nvml::builder().lib_path(LIBRARY.as_ref()).init();
        nvml.and_then(|nvml| nvml.device_count()).unwrap_or(0)
    };
    numbers(visible).unwrap_or_else(|| (0..count()).collect())
}

/// What NVML says of the devices with these numbers, which are called 0, 1... in this order. Empty
/// without a driver.
pub fn nvml_devices(devices: &[u32]) -> Vec<DeviceInfo> {
    let Ok(nvml) = Nvml::builder().lib_path(LIBRARY.as_ref()).init() else {
        return Vec::new();
    };
    let one = |(number, index): (usize, &u32)| {
        let device = nvml.device_by_index(*index).ok()?;
        Some(DeviceInfo {
            id: number as u32,
            name: device.name().unwrap_or_default(),
            memory_bytes: device.memory_info().map_or(0, |memory| memory.total),
            uuid: device.uuid().unwrap_or_default(),
            ..DeviceInfo::default()
        })
    };
    devices.iter().enumerate().filter_map(one).collect()
}

fn numbers(visible: Option<&str>) -> Option<Vec<u32>> {
    let words = visible?.split(',').map(str::trim);
    words.map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_devices_are_named_by_numbers() {
        assert_eq!(numbers(Some("2, 0")), Some(vec![2, 0]));
        assert_eq!(numbers(Some("GPU-8f")), None);
        assert_eq!(numbers(None), None);
    }

    #[test]
    fn without_a_driver_one_sentence_says_so() {
        if let Err(error) = Sampler::start(MonotonicClock::read(), &[0]) {
            assert!(error.contains("were not recorded: "), "{error}");
        }
    }
}
