//! The runners of this process: the threads on which CubeCL calls the driver.
//!
//! A task can be queued for a runner that has a service of ours, by a handle. To make one, CubeCL queues a task
//! and waits until it has run, and holds the lock meanwhile through which each handle of each device is made. A
//! runner whose tasks make handles would wait for that lock, and we for the runner: nothing would ever go on. So
//!
//! - a service is made only while its runner has nothing to do: before the program uses the first device, or
//!   when a session starts and the runner of a device is idle. One that turns up later is taken only if
//!   Burn's fusion does not use it, whose tasks make handles, and once it is idle;
//! - handles are made here, and kept while a session runs: no mark makes one.

use cubecl_common::device::{DeviceId, DeviceService, ServerUtilitiesHandle};
use cubecl_common::device_handle::DeviceHandle;
use gpustall_trace::Tid;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A runner that has our service, so that a task for it can be queued at once.
#[derive(Clone)]
pub(super) struct Runner {
    pub(super) device: DeviceId,
    pub(super) marks: DeviceHandle<Marks>,
    /// The server of fusion has one too. Whether the program uses it turns out later.
    #[cfg(feature = "burn-fusion")]
    pub(super) server: Option<DeviceHandle<super::fusion::Server>>,
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

/// The runners that are ready. Copies, since a task that is queued may wait for room, and the runner that makes
/// it may ask here.
pub(super) fn ready() -> Vec<Runner> {
    READY.read().clone()
}

/// The runner of `device`, if it is ready.
#[cfg(feature = "burn-fusion")]
pub(super) fn of(device: DeviceId) -> Option<DeviceHandle<Marks>> {
    let ready = READY.read();
    let runner = ready.iter().find(|runner| runner.device == device);
    runner.map(|runner| runner.marks.clone())
}

/// Gives all handles back, for a device whose handles live cannot be shut down.
pub(super) fn release() {
    let released = std::mem::take(&mut *READY.write());
    // Without the lock.
    drop(released);
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

/// Which thread of a device it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// `DSD-0-1`: the runner of the device 1 of the kind 0.
    Runner,
    /// `DSU-0-1`: the server of its fusion.
    Fusion,
}

/// Looks for runners among the threads of the process, by their names.
#[derive(Debug, Default)]
pub(super) struct Search {
    looked: HashMap<Tid, u8>,
    threads: HashMap<Tid, (DeviceId, Stage)>,
    devices: HashMap<DeviceId, Known>,
    idle: HashMap<DeviceId, Idle>,
}

impl Search {
    /// At the start of a session, while its program waits: takes the runners that are there and idle, and
    /// makes that of the first device if the program has not used it.
    pub(super) fn start(&mut self, at_most: Duration) {
        let deadline = Instant::now() + at_most;
        self.find();
        if !self.devices.contains_key(&FIRST) {
            self.take(FIRST, true);
            // Nobody has queued anything for it.
            wait(FIRST_WITHIN);
        }
        while self.has_found() && Instant::now() < deadline {
            std::thread::sleep(IDLE_FOR);
            self.take_idle();
        }
        wait(deadline.saturating_duration_since(Instant::now()));
    }

    /// Looks again, and says how many devices were left alone since.
    pub(super) fn look(&mut self) -> usize {
        self.find();
        let fused: Vec<DeviceId> = self.fused().collect();
        let mut left = 0;
        for (device, known) in &mut self.devices {
            // Fusion's tasks make handles.
            if *known == Known::Found && fused.contains(device) {
                *known = Known::Left;
                left += 1;
            }
        }
        self.take_idle();
        left
    }

    fn has_found(&self) -> bool {
        self.devices.values().any(|known| *known == Known::Found)
    }

    /// Devices that Burn's fusion uses.
    fn fused(&self) -> impl Iterator<Item = DeviceId> + '_ {
        let threads = self.threads.values();
        threads.filter_map(|&(device, stage)| (stage == Stage::Fusion).then_some(device))
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
                if let Some((device, stage)) = thread_of(comm.trim_end()) {
                    self.threads.insert(tid, (device, stage));
                    self.devices.entry(device).or_insert(Known::Found);
                }
            }
            there.insert(tid, looks.saturating_add(1).min(LOOKS));
        }
        self.threads.retain(|tid, _| there.contains_key(tid));
        self.looked = there;
    }

    /// Takes the found devices whose threads have been idle for two looks.
    fn take_idle(&mut self) {
        let found = self.devices.iter();
        let found = found.filter(|(_, known)| **known == Known::Found);
        let found: Vec<DeviceId> = found.map(|(&device, _)| device).collect();
        for device in found {
            let of = |stage| {
                let threads = self.threads.iter();
                let own = threads.filter(move |(_, of)| **of == (device, stage));
                own.map(|(tid, _)| time_on_cpu(*tid).unwrap_or_default())
                    .reduce(|a, b| Turns {
                        ns: a.ns.saturating_add(b.ns),
                        count: a.count.saturating_add(b.count),
                    })
            };
            let turns = [of(Stage::Runner), of(Stage::Fusion)];
            let fused = turns[1].is_some();
            let idle = self.idle.entry(device).or_default();
            if idle.look(Instant::now(), turns) {
                self.take(device, fused);
            }
        }
    }

    /// Prepares the runner of `device`, and with `fused` the server of its fusion.
    fn take(&mut self, device: DeviceId, fused: bool) {
        self.devices.insert(device, Known::Taken);
        prepare(device, fused);
    }
}

/// The first device of CUDA.
const FIRST: DeviceId = DeviceId {
    type_id: 0,
    index_id: 0,
};

/// How long the start of a session waits for a runner that nobody uses, which needs a thread to start and no
/// more.
const FIRST_WITHIN: Duration = Duration::from_secs(2);

/// How often, and for how long, threads of one name have run on a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Turns {
    ns: u64,
    count: u64,
}

/// The threads of a device as they were looked at: its runner, and the server of its fusion if there is one.
#[derive(Debug, Default)]
struct Idle {
    last: Option<(Instant, [Option<Turns>; 2])>,
    looks: u8,
}

impl Idle {
    /// Their turns by `now`. Whether they have done nothing but look for tasks for the last two looks.
    fn look(&mut self, now: Instant, turns: [Option<Turns>; 2]) -> bool {
        let idle = self.last.is_some_and(|(then, before)| {
            let passed = now.duration_since(then).as_nanos() as u64;
            passed > 0
                && (turns.iter().zip(before)).all(|(now, then)| looks_for_tasks(*now, then, passed))
        });
        self.looks = if idle { self.looks + 1 } else { 0 };
        self.last = Some((now, turns));
        self.looks >= 2
    }
}

/// A thread without tasks looks for some many times a second, each time for a moment. One that does something
/// runs for longer, and one that waits in a call does not run.
fn looks_for_tasks(now: Option<Turns>, then: Option<Turns>, passed: u64) -> bool {
    let (Some(now), Some(then)) = (now, then) else {
        return now == then;
    };
    let ran = now.ns.saturating_sub(then.ns);
    let turns = now.count.saturating_sub(then.count);
    ran.saturating_mul(IDLE_SHARE) < passed && turns.saturating_mul(LOOKS_WITHIN) >= passed
}

/// Looking for tasks takes less than this part of the time.
const IDLE_SHARE: u64 = 4;
/// Nanoseconds within which a thread without tasks looks for some at least once; CubeCL's do every 150 us.
const LOOKS_WITHIN: u64 = 2_000_000;
/// How long a runner is watched between two looks at the start of a session.
const IDLE_FOR: Duration = Duration::from_millis(10);

/// How long, and how often, a thread of this process has run; `None` if it has ended.
fn time_on_cpu(tid: Tid) -> Option<Turns> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    let ns = numbers.next()?.ok()?;
    let count = numbers.nth(1)?.ok()?;
    Some(Turns { ns, count })
}

/// What the thread called `name` is, if it is one of a device.
fn thread_of(name: &str) -> Option<(DeviceId, Stage)> {
    let runner = name.strip_prefix("DSD-").map(|rest| (rest, Stage::Runner));
    let fusion = name.strip_prefix("DSU-").map(|rest| (rest, Stage::Fusion));
    let (rest, stage) = runner.or(fusion)?;
    let (kind, index) = rest.split_once('-')?;
    let device = DeviceId::new(kind.parse().ok()?, index.parse().ok()?);
    Some((device, stage))
}

/// Puts services of ours on the threads of `device`, by a thread of its own, which waits for them.
fn prepare(device: DeviceId, fused: bool) {
    let prepare = move || {
        let _done = Done;
        // Fusion's first: once it is used, its tasks make handles.
        #[cfg(feature = "burn-fusion")]
        let server = fused.then(|| DeviceHandle::new(device));
        #[cfg(not(feature = "burn-fusion"))]
        let _ = fused;
        let runner = Runner {
            device,
            marks: DeviceHandle::new(device),
            #[cfg(feature = "burn-fusion")]
            server,
        };
        let mut ready = READY.write();
        ready.retain(|runner| runner.device != device);
        ready.push(runner);
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
        let device = DeviceId::new;
        assert_eq!(thread_of("DSD-0-1"), Some((device(0, 1), Stage::Runner)));
        assert_eq!(thread_of("DSU-2-0"), Some((device(2, 0), Stage::Fusion)));
        assert_eq!(thread_of("DSD-x"), None);
        assert_eq!(thread_of("trainer"), None);
    }

    #[test]
    fn threads_are_idle_after_two_looks_at_which_they_only_looked_for_tasks() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let turns = |ms: u64, count| {
            Some(Turns {
                ns: ms * 1_000_000,
                count,
            })
        };
        let mut idle = Idle::default();
        // 1 ms of 10 is what looking for tasks may take, 5 is work, none is a wait in a call.
        assert!(!idle.look(at(0), [turns(0, 0), None]));
        assert!(!idle.look(at(10), [turns(1, 60), None]));
        assert!(!idle.look(at(20), [turns(6, 61), None]));
        assert!(!idle.look(at(30), [turns(7, 120), None]));
        assert!(!idle.look(at(40), [turns(7, 120), None]));
        assert!(!idle.look(at(50), [turns(8, 180), None]));
        assert!(idle.look(at(60), [turns(9, 240), None]));
        // A server of fusion that turns up is looked at too.
        assert!(!idle.look(at(70), [turns(10, 300), turns(0, 0)]));
        assert!(!idle.look(at(80), [turns(11, 360), turns(1, 60)]));
        assert!(idle.look(at(90), [turns(12, 420), turns(2, 120)]));
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
        while !ready().iter().any(|runner| runner.device == device) {
            assert!(Instant::now() < deadline, "the runner was not taken");
            search.look();
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// For longer than an idle runner stays untaken.
    fn look_for_a_while(search: &mut Search) {
        for _ in 0..15 {
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
        look_for_a_while(&mut search);
        working.store(false, Ordering::Relaxed);
        let went_on = receiver.recv_timeout(Duration::from_secs(30));
        assert!(went_on.is_ok(), "the runner waits for us, and we for it");
        look_until_ready(&mut search, device);
    }

    #[test]
    fn a_runner_that_waits_in_a_call_is_not_taken() {
        let device = DeviceId::new(902, 0);
        let theirs = DeviceHandle::<Theirs>::new(device);
        let (go_on, waits) = std::sync::mpsc::channel::<()>();
        theirs.submit(move |_| {
            let _ = waits.recv();
        });
        theirs.flush_queue();
        let mut search = Search::default();
        look_for_a_while(&mut search);
        assert_eq!(search.devices.get(&device), Some(&Known::Found));
        let _ = go_on.send(());
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
        let runner = ready().into_iter().find(|runner| runner.device == device);
        runner.expect("it was taken").marks.submit(move |_| ours());
        theirs.submit(move |_| last());
        theirs.flush_queue();
        let order: Vec<_> = receiver.iter().take(3).collect();
        let name = Some("DSD-900-3".to_owned());
        let expected = ["first", "ours", "last"].map(|what| (what, name.clone()));
        assert_eq!(order, expected);
    }
}
