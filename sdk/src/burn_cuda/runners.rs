//! The runners of this process: the threads on which CubeCL calls the driver.

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
    /// Fusion's server of the device has one too.
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

/// Waits until the runners that were found so far are ready, for so long at most.
pub(super) fn wait(at_most: Duration) {
    let deadline = Instant::now() + at_most;
    while PREPARING.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Looks for runners among the threads of the process, by their names.
#[derive(Debug, Default)]
pub(super) struct Search {
    looked: HashMap<Tid, u8>,
}

impl Search {
    /// Takes in the threads that are new.
    pub(super) fn look(&mut self) {
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
                take(comm.trim_end());
            }
            there.insert(tid, looks.saturating_add(1).min(LOOKS));
        }
        self.looked = there;
    }
}

/// Prepares the runner, or the server of fusion, that the thread called `name` is.
fn take(name: &str) {
    if let Some(device) = device_of("DSD-", name) {
        prepare(
            device,
            move || drop(DeviceHandle::<Marks>::new(device)),
            false,
        );
    }
    #[cfg(feature = "burn-fusion")]
    if let Some(device) = device_of("DSU-", name) {
        let service = move || drop(DeviceHandle::<super::fusion::Server>::new(device));
        prepare(device, service, true);
    }
}

/// The device of the thread called `name`: `DSD-0-1` is the runner of the device 1 of the kind 0.
fn device_of(prefix: &str, name: &str) -> Option<DeviceId> {
    let (kind, index) = name.strip_prefix(prefix)?.split_once('-')?;
    Some(DeviceId::new(kind.parse().ok()?, index.parse().ok()?))
}

/// Puts a service of ours on a thread of `device`. That waits for what is in its queue, so a thread of
/// its own does.
fn prepare(device: DeviceId, service: impl FnOnce() + Send + 'static, fused: bool) {
    let new = Runner { device, fused };
    if READY.read().contains(&new) {
        return;
    }
    let prepare = move || {
        let _done = Done;
        service();
        let mut ready = READY.write();
        match ready.iter_mut().find(|runner| runner.device == device) {
            Some(runner) => runner.fused |= fused,
            None => ready.push(new),
        }
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
        assert_eq!(device_of("DSD-", "DSD-0-1"), Some(DeviceId::new(0, 1)));
        assert_eq!(device_of("DSU-", "DSD-0-1"), None);
        assert_eq!(device_of("DSD-", "DSD-x"), None);
        assert_eq!(device_of("DSD-", "trainer"), None);
    }

    #[test]
    fn a_runner_that_is_there_is_found_and_runs_our_tasks_in_order() {
        // Starts the runner, as a program does that uses the device.
        let device = DeviceId::new(900, 3);
        struct Theirs;
        impl DeviceService for Theirs {
            fn init(_: DeviceId) -> Self {
                Self
            }
            fn utilities(&self) -> ServerUtilitiesHandle {
                Arc::new(())
            }
        }
        let theirs = DeviceHandle::<Theirs>::new(device);
        let mut search = Search::default();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !READY.read().iter().any(|runner| runner.device == device) {
            assert!(Instant::now() < deadline, "the runner was not found");
            search.look();
            std::thread::sleep(Duration::from_millis(5));
        }
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
