//! The machine as a whole, as `/proc` shows it.

use ::procfs::{
    CpuPressure, CpuTime, Current, CurrentSI, IoPressure, KernelStats, Meminfo, MemoryPressure,
    PressureRecord,
};
use aya::util::online_cpus;
use gpustall_trace::{Nanos, TraceTime};
use std::time::{Duration, Instant};

/// What the machine did between two looks.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSample {
    /// When the second look was taken.
    pub at: TraceTime,
    /// How busy each CPU was, share (0..1), with its number; a CPU that has just come is missing.
    pub cpus: Vec<(u32, f32)>,
    /// Threads that ran or waited for a CPU, without the one that looked.
    pub run_queue: Option<u64>,
    /// Share (0..1) of the time in which some task waited for a CPU, for memory, for I/O.
    pub pressure: [Option<f32>; 3],
    /// Memory that could be had without swapping, bytes.
    pub memory_available: Option<u64>,
}

impl HostSample {
    /// What the pressures are for, in their order.
    pub const PRESSURES: [&'static str; 3] = ["cpu", "memory", "io"];

    /// How many CPUs were busy. `None` when no CPU was looked at.
    pub fn cpus_busy(&self) -> Option<f64> {
        let busy = self.cpus.iter().map(|&(_, share)| f64::from(share));
        (!self.cpus.is_empty()).then(|| busy.sum())
    }
}

/// Counts of one CPU since the machine started, ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Ticks {
    busy: u64,
    idle: u64,
}

impl Ticks {
    /// The time that was stolen by other virtual machines is busy: somebody wanted the CPU.
    fn of(time: &CpuTime) -> Self {
        let rare = [time.irq, time.softirq, time.steal];
        Self {
            busy: time.user + time.nice + time.system + rare.into_iter().flatten().sum::<u64>(),
            idle: time.idle + time.iowait.unwrap_or(0),
        }
    }

    /// Share (0..1) of the time since `before` that was busy. `None` when no tick has passed.
    fn share_since(self, before: Self) -> Option<f32> {
        // Counts of idle time can go back by a tick.
        let busy = self.busy.saturating_sub(before.busy);
        let idle = self.idle.saturating_sub(before.idle);
        (busy + idle > 0).then(|| busy as f32 / (busy + idle) as f32)
    }
}

/// One look at the machine.
#[derive(Debug, Default)]
struct Look {
    /// Numbers of the CPUs, with their ticks.
    cpus: Vec<(u32, Ticks)>,
    run_queue: Option<u64>,
    /// Microseconds in which some task waited, since the machine started.
    pressure: [Option<u64>; 3],
    memory_available: Option<u64>,
}

impl Look {
    fn take() -> Self {
        let stats = KernelStats::current().ok();
        let online = online_cpus().unwrap_or_default();
        let times = stats.as_ref().map_or(&[][..], |stats| &stats.cpu_time);
        // The crate leaves the CPUs' numbers out: without one for each nobody knows which is which.
        let cpus = match times.len() == online.len() {
            true => online
                .into_iter()
                .zip(times.iter().map(Ticks::of))
                .collect(),
            false => Vec::new(),
        };
        Self {
            cpus,
            run_queue: stats.and_then(|stats| u64::from(stats.procs_running?).checked_sub(1)),
            pressure: pressure(),
            memory_available: Meminfo::current().ok().and_then(|all| all.mem_available),
        }
    }
}

/// Microseconds in which some task waited for a CPU, memory, I/O; `None` where the kernel does not
/// say.
fn pressure() -> [Option<u64>; 3] {
    let total = |record: PressureRecord| record.total;
    [
        CpuPressure::current().ok().map(|p| total(p.some)),
        MemoryPressure::current().ok().map(|p| total(p.some)),
        IoPressure::current().ok().map(|p| total(p.some)),
    ]
}

/// What keeps the kernel from saying how long tasks wait; `None` when it says.
pub(crate) fn pressure_problem() -> Option<String> {
    let missing = HostSample::PRESSURES.into_iter().zip(pressure());
    let missing: Vec<&str> = missing
        .filter(|(_, total)| total.is_none())
        .map(|(name, _)| name)
        .collect();
    let read = |name: &&str| std::fs::read_to_string(format!("/proc/pressure/{name}"));
    let error = read(missing.first()?).err();
    let error = error.map_or("not understood".to_owned(), |error| error.to_string());
    Some(format!("/proc/pressure/{}: {error}", missing.join(", ")))
}

/// Looks at the machine from time to time.
#[derive(Debug)]
pub(crate) struct Host {
    before: Look,
    looked: Instant,
}

impl Host {
    /// How often it is looked at.
    pub(crate) const EVERY: Duration = Duration::from_millis(200);
    /// Between looks that are closer the ticks of the kernel are too coarse.
    pub(crate) const AT_LEAST: Duration = Duration::from_millis(50);

    /// Takes the first look.
    pub(crate) fn start() -> Self {
        Self {
            before: Look::take(),
            looked: Instant::now(),
        }
    }

    /// What the machine did since the last look, when that is at least `after` ago.
    pub(crate) fn look(
        &mut self,
        after: Duration,
        now: impl FnOnce() -> TraceTime,
    ) -> Option<HostSample> {
        let elapsed = self.looked.elapsed();
        if elapsed < after {
            return None;
        }
        self.looked = Instant::now();
        let look = Look::take();
        let sample = between(
            &self.before,
            &look,
            Nanos::new(elapsed.as_nanos() as u64),
            now(),
        );
        self.before = look;
        Some(sample)
    }
}

fn between(before: &Look, after: &Look, elapsed: Nanos, at: TraceTime) -> HostSample {
    let share = |&(cpu, ticks): &(u32, Ticks)| {
        let found = before.cpus.iter().find(|(before, _)| *before == cpu)?;
        Some((cpu, ticks.share_since(found.1)?))
    };
    let pressure = |n: usize| {
        let waited = after.pressure[n]?.saturating_sub(before.pressure[n]?) as f64 * 1000.0;
        Some((waited / elapsed.get().max(1) as f64).min(1.0) as f32)
    };
    HostSample {
        at,
        cpus: after.cpus.iter().filter_map(share).collect(),
        run_queue: after.run_queue,
        pressure: [0, 1, 2].map(pressure),
        memory_available: after.memory_available,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(cpus: &[(u32, u64, u64)], io_us: Option<u64>) -> Look {
        let cpus = cpus.iter();
        Look {
            cpus: cpus
                .map(|&(cpu, busy, idle)| (cpu, Ticks { busy, idle }))
                .collect(),
            run_queue: Some(3),
            pressure: [Some(7), None, io_us],
            memory_available: Some(1 << 30),
        }
    }

    #[test]
    fn a_sample_is_what_changed_between_two_looks() {
        let before = look(&[(0, 100, 100), (2, 50, 10)], Some(1_000));
        let after = look(&[(0, 115, 105), (2, 50, 30), (3, 9, 9)], Some(51_000));
        let at = TraceTime::from_nanos(5);
        let sample = between(&before, &after, Nanos::new(200_000_000), at);
        assert_eq!(sample.cpus, [(0, 0.75), (2, 0.0)]);
        assert_eq!(sample.cpus_busy(), Some(0.75));
        assert_eq!(sample.pressure, [Some(0.0), None, Some(0.25)]);
        assert_eq!((sample.at, sample.run_queue), (at, Some(3)));
    }

    #[test]
    fn a_cpu_without_a_tick_and_counts_that_go_back_give_no_nonsense() {
        let ticks = |busy, idle| Ticks { busy, idle };
        assert_eq!(ticks(5, 5).share_since(ticks(5, 5)), None);
        assert_eq!(ticks(7, 4).share_since(ticks(5, 5)), Some(1.0));
    }

    #[test]
    fn this_machine_is_looked_at() {
        let mut host = Host::start();
        assert_eq!(host.look(Duration::MAX, || TraceTime::ZERO), None);
        std::thread::sleep(Host::AT_LEAST);
        let sample = host.look(Host::AT_LEAST, || TraceTime::ZERO);
        let sample = sample.expect("a sample");
        let busy = sample.cpus_busy().expect("CPUs");
        assert!((0.0..=sample.cpus.len() as f64).contains(&busy));
        assert!(sample.memory_available.is_some_and(|bytes| bytes > 0));
    }
}
