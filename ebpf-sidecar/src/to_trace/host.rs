//! The machine as a whole, as counters.

use super::Builder;
use crate::host::HostSample;
use gpustall_trace::Pid;
use gpustall_trace::vocab::host;

const PERCENT: f64 = 100.0;

impl Builder<'_> {
    /// The samples, as counters of a process made for them.
    pub(super) fn host(&mut self) {
        if self.recording.host.is_empty() {
            return;
        }
        self.conversion.process(Pid(host::PID), host::PROCESS);
        for sample in &self.recording.host {
            self.host_sample(sample);
        }
    }

    fn host_sample(&mut self, sample: &HostSample) {
        let mut put = |name: &str, value: f64| {
            self.conversion
                .count(Pid(host::PID), name, sample.at, value);
        };
        if let Some(busy) = sample.cpus_busy() {
            put(host::CPUS_BUSY, busy);
        }
        for &(cpu, share) in &sample.cpus {
            let name = format!("{} {cpu}", host::CPU_BUSY);
            put(&name, f64::from(share) * PERCENT);
        }
        if let Some(threads) = sample.run_queue {
            put(host::RUN_QUEUE, threads as f64);
        }
        for (what, share) in HostSample::PRESSURES.into_iter().zip(sample.pressure) {
            if let Some(share) = share {
                let name = format!("{} {what}", host::PRESSURE);
                put(&name, f64::from(share) * PERCENT);
            }
        }
        if let Some(bytes) = sample.memory_available {
            put(host::MEMORY_AVAILABLE, bytes as f64);
        }
    }
}
