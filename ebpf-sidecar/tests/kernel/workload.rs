//! The planted workloads. Each runs in a process of its own, which is this test binary again.

use crate::cuda_job;
use crate::harness::DEADLINE;
use gpustall::Sidecar;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

/// Environment variable that names the workload.
pub(crate) const NAME: &str = "GPUSTALL_TEST_WORKLOAD";

/// Environment variables with the trace and the socket of a session.
pub(crate) const OUTPUT: &str = "GPUSTALL_TEST_OUTPUT";
pub(crate) const SOCKET: &str = "GPUSTALL_TEST_SOCKET";

/// Does nothing in a test run. In a process that a test started it is the workload.
#[test]
fn entry() {
    let Ok(name) = std::env::var(NAME) else {
        return;
    };
    // Whatever happens to the test, nothing stays behind.
    thread::spawn(|| {
        thread::sleep(2 * DEADLINE);
        std::process::exit(1);
    });
    match name.as_str() {
        "spinners" => spinners(),
        "ping-pong" => ping_pong(Duration::from_micros(300)),
        "fast ping-pong" => ping_pong(Duration::ZERO),
        "sleeper" => sleeper(),
        "mixed" => mixed(),
        "late" => late(),
        "many" => many(),
        "storm" => storm(),
        "stuck" => stuck(),
        "exec" => exec_from_a_thread(),
        "burners" => burners(),
        "session" => session(),
        "asks for another's process" => asks_for_anothers_process(),
        "cuda early" => cuda_job::early(),
        "cuda late" => cuda_job::late(),
        "cuda flood" => cuda_job::flood(),
        "cuda stuck" => cuda_job::stuck(),
        other => {
            crate::kernel_work::run(other);
            panic!("no workload {other}");
        }
    }
    std::process::exit(0);
}

fn spinners() {
    for _ in 0..2 {
        spawn("spinner", || {
            pin();
            loop {
                std::hint::spin_loop();
            }
        });
    }
    ready();
    forever();
}

/// Two threads take turns: each works so long, hands over, and waits.
fn ping_pong(work: Duration) {
    let turns = Arc::new((Mutex::new(0_usize), Condvar::new()));
    for me in 0..2 {
        let turns = turns.clone();
        spawn("pong", move || {
            loop {
                spin(work);
                let (turn, changed) = &*turns;
                let mut turn = turn.lock().unwrap();
                *turn = 1 - me;
                changed.notify_one();
                while *turn != me {
                    turn = changed.wait(turn).unwrap();
                }
            }
        });
    }
    ready();
    forever();
}

fn sleeper() {
    spawn("sleeper", || {
        loop {
            thread::sleep(Duration::from_millis(5));
        }
    });
    ready();
    forever();
}

fn mixed() {
    spawn("spinner", || {
        loop {
            std::hint::spin_loop();
        }
    });
    spawn("worker", || {
        loop {
            spin(Duration::from_millis(2));
            thread::sleep(Duration::from_millis(1));
        }
    });
    spawn("yielder", || {
        loop {
            thread::yield_now();
        }
    });
    ping_pong(Duration::from_micros(50));
}

/// Makes a thread and a process once it is told to.
fn late() {
    ready();
    wait_for_go();
    let thread = spawn("late", || {
        spin(Duration::from_millis(30));
        std::fs::write("/proc/thread-self/comm", "renamed").unwrap();
        thread::sleep(Duration::from_millis(20));
    });
    thread.join().unwrap();
    let mut child = Command::new("sleep").arg("0.05").spawn().unwrap();
    say(&format!("child {}", child.id()));
    child.wait().unwrap();
    say("done");
    forever();
}

fn many() {
    for _ in 0..200 {
        spawn("one-of-many", || {
            loop {
                thread::sleep(Duration::from_millis(10));
            }
        });
    }
    ready();
    forever();
}

fn storm() {
    ready();
    wait_for_go();
    for _ in 0..2_000 {
        assert!(Command::new("true").status().unwrap().success());
    }
    say("done");
    forever();
}

/// A thread that waits for ever.
fn stuck() {
    spawn("stuck", forever);
    ready();
    forever();
}

/// The process becomes another program by a thread that is not its first.
fn exec_from_a_thread() {
    ready();
    wait_for_go();
    spawn("executor", || {
        panic!("{}", Command::new("sleep").arg("0.2").exec());
    });
    forever();
}

/// One thread computes, one makes the kernel handle page faults.
fn burners() {
    spawn("burner", || {
        let mut x = 1;
        loop {
            x = gpustall_test_burn(std::hint::black_box(x));
        }
    });
    spawn("faulter", || {
        loop {
            // Large enough to be mapped and unmapped each time.
            let mut fresh = vec![0_u8; 32 << 20];
            for page in fresh.chunks_mut(4096) {
                page[0] = 1;
            }
            std::hint::black_box(&fresh);
        }
    });
    ready();
    forever();
}

/// Calls nothing, so that it is the innermost function in every build.
#[inline(never)]
fn gpustall_test_burn(seed: u64) -> u64 {
    let (mut x, mut n) = (seed | 1, 0);
    while n < 1_000_000 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        n += 1;
    }
    x
}

/// A session of the SDK that takes kernel events from the sidecar under test. One thread naps and one
/// spins, with a CPU of its own that it shares with whom the test puts there.
/// Two children sleep, one that was there before the session and one that came after.
fn session() {
    let child = || Command::new("sleep").arg("30").spawn().unwrap().id();
    let before = child();
    let session = gpustall::session("job")
        .output(std::env::var_os(OUTPUT).unwrap())
        .sidecar(Sidecar::Path(std::env::var_os(SOCKET).unwrap().into()))
        .start()
        .unwrap();
    let (sender, tids) = std::sync::mpsc::channel();
    let own = sender.clone();
    spawn("napper", move || {
        own.send(rustix::thread::gettid()).unwrap();
        loop {
            let _nap = gpustall::span("nap");
            thread::sleep(Duration::from_millis(3));
        }
    });
    let napper = tids.recv().unwrap();
    spawn("spinner", move || {
        pin();
        sender.send(rustix::thread::gettid()).unwrap();
        loop {
            std::hint::spin_loop();
        }
    });
    let spinner = tids.recv().unwrap();
    let after = child();
    ready();
    let me = std::process::id();
    say(&format!("ids {me} {napper} {spinner} {before} {after}"));
    wait_for_go();
    let summary = session.finish().unwrap();
    say(&format!("finished {}", summary.report().is_some()));
    forever();
}

/// Says hello for the process that started it.
fn asks_for_anothers_process() {
    let path = std::env::var_os(SOCKET).unwrap();
    let parent = std::os::unix::process::parent_id();
    ready();
    say(&format!(
        "answer {:?}",
        crate::client::ask(path.as_ref(), parent)
    ));
    forever();
}

pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    Builder::new().name(name.to_owned()).spawn(run).unwrap()
}

fn pin() {
    let mut cpus = CpuSet::new();
    cpus.set(0);
    sched_setaffinity(None, &cpus).unwrap();
}

fn spin(length: Duration) {
    let until = Instant::now() + length;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

pub(crate) fn forever() {
    loop {
        thread::park();
    }
}

/// Threads have their names now: a name is set by the new thread itself.
pub(crate) fn ready() {
    thread::sleep(Duration::from_millis(50));
    say("ready");
}

pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "@{line}").unwrap();
    out.flush().unwrap();
}

pub(crate) fn wait_for_go() {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
}
