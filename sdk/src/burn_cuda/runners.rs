//! The runners of this process: the threads on which CubeCL calls the driver.

use cubecl_common::device::{DeviceId, DeviceService, ServerUtilitiesHandle};
use cubecl_common::device_handle::DeviceHandle;
use gpustall_trace::Tid;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;

/// Devices whose runner has our service, so that a task for it can be queued at once.
static READY: RwLock<Vec<DeviceId>> = RwLock::new(Vec::new());

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

/// Calls `each` with every runner that is ready.
pub(super) fn each(mut each: impl FnMut(DeviceHandle<Marks>)) {
    let mut devices = [DeviceId::new(0, 0); MOST];
    let mut count = 0;
    for (place, device) in devices.iter_mut().zip(READY.read().iter()) {
        *place = *device;
        count += 1;
    }
    // Handles are not kept: a device whose handles live cannot be shut down.
    devices[..count]
        .iter()
        .for_each(|device| each(DeviceHandle::new(*device)));
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
                if let Some(device) = device_of(comm.trim_end()) {
                    prepare(device);
                }
            }
            there.insert(tid, looks.saturating_add(1).min(LOOKS));
        }
        self.looked = there;
    }
}

/// The device of the runner called `name`: `DSD-0-1` is that of the device 1 of the kind 0.
fn device_of(name: &str) -> Option<DeviceId> {
    let (kind, index) = name.strip_prefix("DSD-")?.split_once('-')?;
    Some(DeviceId::new(kind.parse().ok()?, index.parse().ok()?))
}

/// Puts our service on the runner of `device`. That waits for what is in its queue, so a thread of
/// its own does.
fn prepare(device: DeviceId) {
    let known = move |ready: &[DeviceId]| ready.contains(&device) || ready.len() >= MOST;
    if known(&READY.read()) {
        return;
    }
    let prepare = move || {
        drop(DeviceHandle::<Marks>::new(device));
        let mut ready = READY.write();
        if !known(&ready) {
            ready.push(device);
        }
    };
    // Without the thread the runner stays unmarked, and what it launches untied.
    let _ = std::thread::Builder::new()
        .name("gpustall-runner".into())
        .spawn(prepare);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn runners_are_known_by_their_names() {
        assert_eq!(device_of("DSD-0-1"), Some(DeviceId::new(0, 1)));
        assert_eq!(device_of("DSU-0-1"), None);
        assert_eq!(device_of("DSD-x"), None);
        assert_eq!(device_of("trainer"), None);
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
        while !READY.read().contains(&device) {
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
