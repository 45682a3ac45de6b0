//! The runners of this process: the threads on which CubeCL calls the driver.
//!
//! A task can be queued for a runner that has a service of ours. To make one, CubeCL queues a task and waits
//! until it has run, and holds the lock meanwhile through which each handle of each device is made. A runner
//! whose tasks make handles would wait for that lock, and we for the runner: nothing would ever go on. So a
//! service is made only while its runner has nothing to do: before the program uses the first device, or
//! when a session starts and the runner of a device is idle. One that turns up later is taken only if
//! Burn's fusion does not use it, whose tasks make handles, and once it is idle.

use cubecl_common::device::{DeviceId, DeviceService, ServerUtilitiesHandle};
use cubecl_common::device_handle::DeviceHandle;
use gpustall_trace::Tid;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A runner that has our service, so that a task for it can be queued at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Runner {
    pub(super) device: DeviceId,
    /// There is a server of fusion that has one too. Whether the program uses it turns out later.
    pub(super) fused: bool,
}

static READY: RwLock<Vec<Runner>> = RwLock::new(Vec::new());

/// Devices that are marked, at most.
const MOST: usize = 16;

/// How often the name of a new thread is read: it may not have it at once.
const LOOKS: u8 = 3;

/// A service without a state: a reason to run on the runner's thread.
#[derive(Debug)]
pub(super) struct Marks;

impl DeviceService for Marks {
    fn init(_: DeviceId) -> Self {
        Self
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        Arc::new(())
    }
}

/// Runners that are being prepared.
static PREPARING: AtomicUsize = AtomicUsize::new(0);

/// Counts one of them out.
struct Done;

impl Drop for Done {
    fn drop(&mut self) {
        PREPARING.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Calls `each` with every runner that is ready.
pub(super) fn each(each: impl FnMut(Runner)) {
    let nothing = Runner {
        device: DeviceId::new(0, 0),
        fused: false,
    };
    let (mut runners, mut count) = ([nothing; MOST], 0);
    for (place, runner) in runners.iter_mut().zip(READY.read().iter()) {
        *place = *runner;
        count += 1;
    }
    runners.into_iter().take(count).for_each(each);
}

/// Whether `device` has our services, of this session or one before.
fn is_ready(device: DeviceId) -> bool {
    READY.read().iter().any(|runner| runner.device == device)
}

/// Waits until the runners that were found so far are ready, for so long at most.
pub(super) fn wait(at_most: Duration) {
    let deadline = Instant::now() + at_most;
    while PREPARING.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// What is known of a device whose runner was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It is waited for until it is idle.
    Found,
    /// It has our services, or will.
    Taken,
    /// It is left alone.
    Left,
}

/// Looks for runners among the threads of the process, by their names.
#[derive(Debug, Default)]
pub(super) struct Search {
    looked: HashMap<Tid, u8>,
    threads: HashMap<Tid, DeviceId>,
    devices: HashMap<DeviceId, Known>,
    idle: HashMap<DeviceId, Idle>,
}

impl Search {
    /// At the start of a session, while its program waits: takes the runners that are there and idle, and
    /// makes that of the first device if the program has not used it.
    pub(super) fn start(&mut self, at_most: Duration) {
        let deadline = Instant::now() + at_most;
        self.find();
        if !self.devices.contains_key(&FIRST) && !is_ready(FIRST) {
            self.take(FIRST, cfg!(feature = "burn-fusion"));
        }
        while self.has_found() && Instant::now() < deadline {
            std::thread::sleep(IDLE_FOR);
            self.take_idle(|_| true);
        }
        wait(deadline.saturating_duration_since(Instant::now()));
    }

    /// Looks again, and says how many devices were left alone since.
    pub(super) fn look(&mut self) -> usize {
        self.find();
        // Fusion's tasks make handles.
        let fused = fused_devices(&self.threads);
        let mut left = 0;
        for (device, known) in &mut self.devices {
            if *known == Known::Found && fused.contains(device) {
                *known = Known::Left;
                left += 1;
            }
        }
        self.take_idle(|device| !fused.contains(&device));
        left
    }

    fn has_found(&self) -> bool {
        self.devices.values().any(|known| *known == Known::Found)
    }

    /// Takes in the threads that are new.
    fn find(&mut self) {
        let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
            return;
        };
        let mut there = HashMap::new();
        for task in tasks.flatten() {
            let name = task.file_name();
            let Some(tid) = name.to_str().and_then(|tid| tid.parse().ok()).map(Tid) else {
                continue;
            };
            let looks = self.looked.get(&tid).copied().unwrap_or(0);
            if looks < LOOKS {
                let comm = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
                if let Some(device) = device_of(comm.trim_end()) {
                    self.threads.insert(tid, device);
                    let known = || {
                        if is_ready(device) {
                            Known::Taken
                        } else {
                            Known::Found
                        }
                    };
                    self.devices.entry(device).or_insert_with(known);
                }
            }
            there.insert(tid, looks.saturating_add(1).min(LOOKS));
        }
        self.threads.retain(|tid, _| there.contains_key(tid));
        self.looked = there;
    }

    /// Takes the found devices that `may` be taken and whose threads have been idle for two looks.
    fn take_idle(&mut self, may: impl Fn(DeviceId) -> bool) {
        let found = self
            .devices
            .iter()
            .filter(|(_, known)| **known == Known::Found);
        let found: Vec<DeviceId> = found
            .map(|(&device, _)| device)
            .filter(|&d| may(d))
            .collect();
        let fused = fused_devices(&self.threads);
        for device in found {
            let threads = self.threads.iter().filter(|(_, of)| **of == device);
            let ran: Option<u64> = threads.map(|(tid, _)| run_time(*tid)).sum();
            let idle = self.idle.entry(device).or_default();
            if idle.look(Instant::now(), ran) {
                let fused = cfg!(feature = "burn-fusion") && fused.contains(&device);
                self.take(device, fused);
            }
        }
    }

    /// Prepares the runner of `device`, and with `fused` the server of its fusion.
    fn take(&mut self, device: DeviceId, fused: bool) {
        if self.devices.insert(device, Known::Taken) == Some(Known::Taken) {
            return;
        }
        let services = move || {
            drop(DeviceHandle::<Marks>::new(device));
            #[cfg(feature = "burn-fusion")]
            if fused {
                drop(DeviceHandle::<super::fusion::Server>::new(device));
            }
        };
        prepare(device, services, fused);
    }
}

/// The first device of CUDA.
const FIRST: DeviceId = DeviceId {
    type_id: 0,
    index_id: 0,
};

/// How long a runner has run on a CPU, as it was looked at.
#[derive(Debug, Default)]
struct Idle {
    last: Option<(Instant, u64)>,
    looks: u8,
}

impl Idle {
    /// It has run for `ran` nanoseconds by `now`. Whether it has done nothing but look for tasks for the
    /// last two looks.
    fn look(&mut self, now: Instant, ran: Option<u64>) -> bool {
        let Some(ran) = ran else { return false };
        let idle = self.last.is_some_and(|(then, before)| {
            let passed = now.duration_since(then).as_nanos() as u64;
            passed > 0 && ran.saturating_sub(before) * IDLE_SHARE < passed
        });
        self.looks = if idle { self.looks + 1 } else { 0 };
        self.last = Some((now, ran));
        self.looks >= 2
    }
}

/// A runner without tasks looks for some many times a second, which takes less than this part of the time.
const IDLE_SHARE: u64 = 4;
/// How long a runner is watched between two looks at the start of a session.
const IDLE_FOR: Duration = Duration::from_millis(10);

/// How long a thread of this process has run, nanoseconds; `None` if it has ended.
fn run_time(tid: Tid) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The device of the thread called `name`: `DSD-0-1` is the runner of the device 1 of the kind 0, `DSU-0-1`
/// the server of its fusion.
fn device_of(name: &str) -> Option<DeviceId> {
    let rest = name
        .strip_prefix("DSD-")
        .or_else(|| name.strip_prefix("DSU-"))?;
    let (kind, index) = rest.split_once('-')?;
    Some(DeviceId::new(kind.parse().ok()?, index.parse().ok()?))
}

/// Of these threads' devices, those that Burn's fusion uses.
fn fused_devices(threads: &HashMap<Tid, DeviceId>) -> Vec<DeviceId> {
    let fused = threads.iter().filter(|(tid, _)| {
        let comm = std::fs::read_to_string(format!("/proc/self/task/{tid}/comm"));
        comm.is_ok_and(|name| name.starts_with("DSU-"))
    });
    fused.map(|(_, &device)| device).collect()
}

/// Puts services of ours on threads of `device`, by a thread of its own, which waits for them.
fn prepare(device: DeviceId, services: impl FnOnce() + Send + 'static, fused: bool) {
    let prepare = move || {
        let _done = Done;
        services();
        let mut ready = READY.write();
        ready.retain(|runner| runner.device != device);
        ready.push(Runner { device, fused });
        ready.truncate(MOST);
    };
    PREPARING.fetch_add(1, Ordering::AcqRel);
    let thread = std::thread::Builder::new().name("gpustall-runner".into());
    // Without the thread the runner stays unmarked, and what it launches untied.
    if thread.spawn(prepare).is_err() {
        drop(Done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_are_known_by_their_names() {
        assert_eq!(device_of("DSD-0-1"), Some(DeviceId::new(0, 1)));
        assert_eq!(device_of("DSU-2-0"), Some(DeviceId::new(2, 0)));
        assert_eq!(device_of("DSD-x"), None);
        assert_eq!(device_of("trainer"), None);
    }

    #[test]
    fn a_runner_is_idle_after_two_looks_at_which_it_hardly_ran() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut idle = Idle::default();
        // 1 ms of 10 is what looking for tasks may take, 5 is work.
        assert!(!idle.look(at(0), Some(0)));
        assert!(!idle.look(at(10), Some(1_000_000)));
        assert!(!idle.look(at(20), Some(6_000_000)));
        assert!(!idle.look(at(30), Some(7_000_000)));
        assert!(idle.look(at(40), Some(8_000_000)));
        assert!(!idle.look(at(50), None), "it has ended");
    }

    /// A service as a program has it on its runner.
    struct Theirs;

    impl DeviceService for Theirs {
        fn init(_: DeviceId) -> Self {
            Self
        }
        fn utilities(&self) -> ServerUtilitiesHandle {
            Arc::new(())
        }
    }

    fn look_until_ready(search: &mut Search, device: DeviceId) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_ready(device) {
            assert!(Instant::now() < deadline, "the runner was not taken");
            search.look();
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_runner_that_makes_handles_goes_on() {
        let device = DeviceId::new(901, 0);
        let theirs = DeviceHandle::<Theirs>::new(device);
        let working = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let (sender, receiver) = std::sync::mpsc::channel();
        let still = working.clone();
        theirs.submit(move |_| {
            while still.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            drop(DeviceHandle::<Theirs>::new(DeviceId::new(901, 1)));
            let _ = sender.send(());
        });
        theirs.flush_queue();
        let mut search = Search::default();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            search.look();
            std::thread::sleep(Duration::from_millis(20));
        }
        working.store(false, Ordering::Relaxed);
        let went_on = receiver.recv_timeout(Duration::from_secs(30));
        assert!(went_on.is_ok(), "the runner waits for us, and we for it");
        look_until_ready(&mut search, device);
    }

    #[test]
    fn a_runner_that_is_there_is_found_and_runs_our_tasks_in_order() {
        // Starts the runner, as a program does that uses the device.
        let device = DeviceId::new(900, 3);
        let theirs = DeviceHandle::<Theirs>::new(device);
        look_until_ready(&mut Search::default(), device);
        let (sender, receiver) = std::sync::mpsc::channel();
        let send = |what: &'static str| {
            let sender = sender.clone();
            move || drop(sender.send((what, std::thread::current().name().map(str::to_owned))))
        };
        let (first, ours, last) = (send("first"), send("ours"), send("last"));
        theirs.submit(move |_| first());
        DeviceHandle::<Marks>::new(device).submit(move |_| ours());
        theirs.submit(move |_| last());
        theirs.flush_queue();
        let order: Vec<_> = receiver.iter().take(3).collect();
        let name = Some("DSD-900-3".to_owned());
        let expected = ["first", "ours", "last"].map(|what| (what, name.clone()));
        assert_eq!(order, expected);
    }
}
