//! Page faults, pages and memory work are those that the kernel counted.

use crate::disk::{file, named, run};
use crate::harness::turn;
use gpustall_sidecar::{MemoryWork, MemoryWorkKind, Options};
use gpustall_trace::{Nanos, Pid, vocab};
use std::path::Path;

/// Faults that a thread may take between the count that it says and the end of the recording.
const MORE: u64 = 200;

#[test]
fn minor_faults_are_those_that_getrusage_counts() {
    let Some(_turn) = turn() else { return };
    let options = Options {
        page_allocs: true,
        ..Options::default()
    };
    let (recording, said, job) = run("churn", Path::new("/"), &options);
    let (counted, pages) = said.split_once(' ').unwrap();
    let (counted, pages): (u64, u64) = (counted.parse().unwrap(), pages.parse().unwrap());
    let (index, thread) = named(&recording, "churner");
    let recorded = thread.totals.faults.minor;
    assert!(
        (counted..=counted + MORE).contains(&recorded),
        "{recorded} recorded, {counted} counted"
    );
    // Pages are counted also where a fault brings many at once.
    let allocated = thread.totals.page_allocs.unwrap();
    assert!(
        (pages..=pages + pages / 2 + MORE).contains(&allocated),
        "{allocated} pages allocated, {pages} touched"
    );

    // The counter of the process, summed up over its time, is the same again.
    let trace = recording.to_trace("churn", Pid(job.pid()));
    let series = trace.counter_series.iter();
    let series = series.clone().position(|s| {
        s.pid == Pid(job.pid()) && trace.text(s.name) == vocab::MINOR_FAULTS_A_SECOND
    });
    let values: Vec<_> = trace
        .counters
        .iter()
        .filter(|c| Some(c.series as usize) == series)
        .collect();
    let until = values.iter().skip(1).map(|c| c.at).chain([trace.meta.end]);
    let sum: f64 = values
        .iter()
        .zip(until)
        .map(|(c, until)| c.value * until.since(c.at).as_secs_f64())
        .sum();
    let all = recording.threads.iter();
    let all: u64 = all
        .filter(|t| t.pid == Pid(job.pid()))
        .map(|t| t.totals.faults.minor)
        .sum();
    assert!((sum / all as f64 - 1.0).abs() < 0.02, "{sum} of {all}");

    // What it had taken when it left a CPU only grows.
    let of_thread = recording.intervals.iter().filter(|i| i.thread == index);
    let taken: Vec<u64> = of_thread.map(|i| i.faults.minor).collect();
    assert!(taken.is_sorted() && taken.last() <= Some(&recorded));
}

#[test]
fn pages_are_not_counted_unless_asked_for() {
    let Some(_turn) = turn() else { return };
    let (recording, ..) = run("churn", Path::new("/"), &Options::default());
    assert!(
        recording
            .threads
            .iter()
            .all(|t| t.totals.page_allocs.is_none())
    );
}

#[test]
fn faults_that_read_a_mapped_file_are_major_and_waits_for_a_page() {
    let Some(_turn) = turn() else { return };
    let file = file(4 << 20);
    let options = Options {
        threshold: Nanos::ZERO,
        ..Options::default()
    };
    let (recording, said, _job) = run("mapped file", file.path(), &options);
    let counted: u64 = said.parse().unwrap();
    let (index, thread) = named(&recording, "mapper");
    let recorded = thread.totals.faults.major;
    assert!(counted >= 100, "only {counted} major faults");
    assert!((counted..=counted + MORE).contains(&recorded));
    let waits = recording.intervals.iter().filter(|i| i.thread == index);
    let for_a_page = waits.filter(|i| {
        let class = i.wait.map(|id| recording.wait(id).class);
        class == Some(gpustall_sidecar::WaitClass::PageFault)
    });
    // While others use the CPUs, many pages are there before the thread gets to sleep.
    let for_a_page = for_a_page.count() as u64;
    assert!(for_a_page >= counted / 8, "{for_a_page} of {counted}");
    // Each of them read at least a page.
    let requests = recording.block_io.iter().filter(|r| r.thread == index);
    assert!(requests.count() as u64 >= counted / 2);
}

#[test]
fn compaction_and_the_pages_that_it_moves_lie_on_the_thread() {
    let Some(_turn) = turn() else { return };
    let counter = |name: &str| -> u64 {
        let text = std::fs::read_to_string("/proc/vmstat").unwrap();
        let line = text.lines().find_map(|l| l.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    };
    let before = counter("pgmigrate_success ");
    let (recording, _, job) = run("compaction", Path::new("/"), &Options::default());
    let moved_by_all = counter("pgmigrate_success ") - before;
    let (index, _) = named(&recording, "compactor");
    let work = recording.memory_work.iter().filter(|w| w.thread == index);
    let (compaction, migration): (Vec<&MemoryWork>, Vec<&MemoryWork>) =
        work.partition(|w| w.kind == MemoryWorkKind::Compaction);
    assert!(!compaction.is_empty());
    let moved: u64 = migration.iter().filter_map(|w| w.pages).sum();
    assert!(moved <= moved_by_all, "{moved} of {moved_by_all}");
    for work in &migration {
        assert_eq!(work.kind, MemoryWorkKind::Migration);
        let inside = |c: &&MemoryWork| c.begin <= work.begin && work.end <= c.end;
        assert!(compaction.iter().any(inside), "outside compaction");
    }
    // In the trace they nest on the thread itself.
    let trace = recording.to_trace("compaction", Pid(job.pid()));
    let slices = trace.slices.iter();
    let on = slices.filter(|s| trace.text(s.cat) == vocab::cat::COMPACTION);
    let on: Vec<_> = on.map(|s| trace.track(s.track).unwrap()).collect();
    assert_eq!(on.len(), compaction.len());
    assert!(on.iter().all(|track| trace.text(track.name) == "compactor"));
}
