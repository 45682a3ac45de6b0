//! Reclaim and kills in a memory cgroup that is too small.

use crate::disk::{file, named};
use crate::harness::{Job, drain_until, record, turn};
use crate::kernel_work::PATH;
use gpustall_sidecar::{MemoryWorkKind, Options, Recording};
use gpustall_trace::Pid;
use std::fs;
use std::path::{Path, PathBuf};

const LIMIT: usize = 64 << 20;

/// A memory cgroup of the test's own, of either version.
struct Cgroup {
    folder: PathBuf,
    second: bool,
}

impl Cgroup {
    fn new() -> Self {
        let second = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers")
            .is_ok_and(|all| all.split_whitespace().any(|one| one == "memory"));
        let root = match second {
            true => "/sys/fs/cgroup",
            false => "/sys/fs/cgroup/memory",
        };
        assert!(
            Path::new(root).is_dir(),
            "these tests need a memory cgroup: mount one at {root}"
        );
        if second {
            // Refused where it is on already, too.
            let _ = fs::write(format!("{root}/cgroup.subtree_control"), "+memory");
        }
        let folder = Path::new(root).join(format!("gpustall-test-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let group = Self { folder, second };
        let limit = LIMIT.to_string();
        group.write(group.file("memory.max", "memory.limit_in_bytes"), &limit);
        // Without swap, where that can be said: what does not fit is killed at once.
        let swap = group.file("memory.swap.max", "memory.swappiness");
        let _ = fs::write(group.folder.join(swap), "0");
        group
    }

    fn file(&self, second: &'static str, first: &'static str) -> &'static str {
        if self.second { second } else { first }
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).unwrap();
    }

    fn add(&self, job: &Job) {
        self.write("cgroup.procs", &job.pid().to_string());
    }

    /// The number after `key` in a file of the cgroup.
    fn number(&self, file: &str, key: &str) -> u64 {
        let text = fs::read_to_string(self.folder.join(file)).unwrap();
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let (_, number) = lines.find(|(found, _)| *found == key).unwrap();
        number.trim().parse().unwrap()
    }

    /// Pages of files that are in it.
    fn pages_of_files(&self) -> u64 {
        self.number("memory.stat", self.file("file", "cache")) / 4096
    }

    /// Pages that threads took from it; the first version does not count them.
    fn pages_taken(&self) -> Option<u64> {
        self.second
            .then(|| self.number("memory.stat", "pgsteal_direct"))
    }

    fn kills(&self) -> u64 {
        let file = self.file("memory.events", "memory.oom_control");
        self.number(file, "oom_kill")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // It is busy until its last process is gone altogether.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

/// Runs a workload in the cgroup.
fn run_in(group: &Cgroup, workload: &str, path: &Path) -> (Recording, String, Job) {
    let mut job = Job::start_on(workload, &[(PATH, path)]);
    group.add(&job);
    let mut recorder = record(job.pid(), &Options::default());
    job.go();
    let done = std::thread::spawn(move || {
        let said = job.expect("done");
        (said, job)
    });
    drain_until(&mut recorder, |_| done.is_finished());
    let (said, job) = done.join().unwrap();
    recorder.drain();
    (recorder.finish(), said, job)
}

#[test]
fn reclaim_in_a_cgroup_at_its_limit_is_on_the_thread_that_reads() {
    let Some(_turn) = turn() else { return };
    let group = Cgroup::new();
    // Its pages are in nobody's cgroup once they are dropped; read again, they are in this one.
    let file = file(4 * LIMIT);
    let (recording, _, job) = run_in(&group, "cold reads", file.path());
    let (stay, counted) = (group.pages_of_files(), group.pages_taken());
    drop(job);
    let (reader, _) = named(&recording, "reader");
    let work = recording.memory_work.iter();
    let work: Vec<_> = work
        .filter(|w| w.kind == MemoryWorkKind::CgroupReclaim)
        .collect();
    assert!(work.len() >= 10, "only {} times", work.len());
    assert!(work.iter().all(|w| w.thread == reader && w.begin < w.end));
    let reclaimed: u64 = work.iter().filter_map(|w| w.pages).sum();
    // Of what was read, what is not there any more was taken.
    let gone = (4 * LIMIT / 4096) as u64 - stay;
    for taken in [Some(gone), counted].into_iter().flatten() {
        let share = reclaimed as f64 / taken as f64;
        assert!((0.8..1.2).contains(&share), "{reclaimed} of {taken} pages");
    }
}

#[test]
fn a_process_that_is_killed_for_want_of_memory_is_named() {
    let Some(_turn) = turn() else { return };
    let group = Cgroup::new();
    let before = group.kills();
    let (recording, said, job) = run_in(&group, "out of memory", Path::new("/"));
    let killed = group.kills() - before;
    drop(job);
    assert_eq!(recording.oom_kills.len() as u64, killed);
    let [kill] = recording.oom_kills[..] else {
        panic!("{} kills", recording.oom_kills.len());
    };
    assert_eq!(kill.pid, Pid(said.parse().unwrap()));
    let victim = &recording.threads[kill.thread as usize];
    assert!(victim.pid == kill.pid && victim.ended);
    assert!(victim.first <= kill.at && kill.at <= victim.last);
}
