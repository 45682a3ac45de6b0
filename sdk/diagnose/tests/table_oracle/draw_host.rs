//! Draws runs without a device.

use super::host::{Call, Run, Stage, Step, Thread, Trainer, Wait};
use super::scheduler::blocked_part;
use super::tape::Tape;
use super::{Span, holds};
use crate::common::kernel::{Off, blocked};
use gpustall_trace::vocab::{cat, state};

const PHASES: &[&str] = &[
    "forward",
    "backward",
    "optimizer",
    "metrics",
    "checkpoint save",
    "forward 2",
];

/// Class and function of waits.
const WAITS: &[(&str, &str)] = &[
    ("futex", "futex_wait_queue"),
    ("file read", "folio_wait_bit_common"),
    ("write", "balance_dirty_pages"),
    ("page fault", "filemap_fault"),
    ("page fault", "do_swap_page"),
    ("page fault", "migration_entry_wait_on_locked"),
    ("reclaim", "try_to_free_pages"),
    ("mmap lock", "rwsem_down_read_slowpath"),
    ("socket", "sk_wait_data"),
    ("pipe", "pipe_read"),
    ("poll", "do_epoll_wait"),
    ("gpu driver", "nvidia_ioctl"),
    ("sleep", "hrtimer_nanosleep"),
    ("other", "something"),
    ("", ""),
];

const RAN: &[(&str, &str)] = &[
    ("user", "main"),
    ("page fault", "do_anonymous_page"),
    ("reclaim", "shrink_node"),
    ("system", "__x64_sys_mmap"),
    ("system", "__x64_sys_munmap"),
    ("system", "__x64_sys_read"),
    ("copy", "copy_to_user"),
];

/// Where batches come from.
#[derive(Clone, Copy, PartialEq)]
pub enum Source {
    InProcess,
    Workers(&'static [u32]),
    Untagged,
}

pub const SOURCES: &[Source] = &[
    Source::InProcess,
    Source::Workers(&[101, 102]),
    Source::Workers(&[101]),
    Source::Untagged,
];

pub fn run(tape: &mut Tape<'_>) -> Run {
    let mut run = Run {
        cpus: tape.pick(&[2, 4, 0, 1, 12]) as u32,
        ..Run::default()
    };
    let mut batch = 0;
    let trainers = tape.pick(&[1, 1, 2]);
    let mut begin = 5;
    for n in 0..trainers {
        let loader = ["train", "second"][n as usize];
        let source = match (tape.pick(SOURCES), n) {
            (Source::Workers(_), 1) => Source::Workers(&[103, 104]),
            (source, _) => source,
        };
        let tid = [100, 110][n as usize];
        trainer(tape, &mut run, (tid, loader, source), begin, &mut batch);
        begin = tape.from(5, run.end + 10);
    }
    run.end += tape.from(0, 6);
    for trainer in &mut run.trainers {
        let waits = trainer.waits.iter_mut().filter(|wait| wait.unfinished);
        waits.for_each(|wait| wait.span.1 = run.end);
        let steps = trainer.steps.iter_mut().filter(|step| step.unfinished);
        steps.for_each(|step| step.span.1 = run.end);
    }
    let mut tids = vec![120, 121];
    tids.extend(run.trainers.iter().map(|trainer| trainer.tid));
    tids.extend(run.stages.iter().map(|stage| stage.tid));
    let waits = run.trainers.iter().flat_map(|trainer| &trainer.waits);
    tids.extend(waits.filter_map(|wait| wait.batch).map(|batch| batch.1));
    watch(tape, &mut run, tids);
    if tape.once_in(5) {
        let at = tape.below(run.end);
        let mut steps = run.trainers.iter().flat_map(|trainer| &trainer.steps);
        let pause = (at, at + tape.from(1, 20));
        // Nothing begins while recording is paused, and no stage of a batch is cut.
        let mut stages = run.stages.iter();
        let cut = stages.any(|stage| stage.span.0 < pause.1 && pause.0 < stage.span.1);
        if !cut && !steps.any(|step| holds(pause, step.span.0)) {
            run.pauses.push(pause);
        }
    }
    if tape.once_in(5) {
        let source = tape.pick(&["data pipeline", "scheduler"]);
        run.losses.push((source, tape.below(run.end)));
    }
    run
}

/// What the scheduler recorded of these threads.
pub fn watch(tape: &mut Tape<'_>, run: &mut Run, mut tids: Vec<u32>) {
    tids.sort_unstable();
    tids.dedup();
    for tid in tids {
        let watched = thread(tape, tid, run.end);
        run.threads.push(watched);
    }
    silence_the_dead(run);
    // How busy the CPUs were is not said for threads that were watched in part.
    let part = |thread: &Thread| (0..run.end).any(|t| !thread.watched(t));
    if run.cpus > 0 && run.threads.iter().any(part) {
        run.cpus = 12;
    }
}

fn trainer(
    tape: &mut Tape<'_>,
    run: &mut Run,
    (tid, loader, source): (u32, &'static str, Source),
    begin: u64,
    batch: &mut u64,
) {
    let mut of = Trainer {
        tid,
        loader,
        steps: Vec::new(),
        waits: Vec::new(),
        phases: Vec::new(),
    };
    let mut at = begin;
    let measured = tape.once_in(2);
    let wait = |span: Span, epoch: u64, call: Call| Wait {
        span,
        epoch,
        call,
        batch: None,
        cpu: None,
        unfinished: false,
    };
    for epoch in 0..tape.from(1, 2) {
        if tape.below(3) > 0 {
            let span = (at, at + tape.from(1, 5));
            of.waits.push(wait(span, epoch, Call::Iter));
            at = span.1 + tape.below(3);
        }
        for step in 0..tape.from(1, 4) {
            let span = (at, at + tape.from(1, 16));
            let mut next = wait(span, epoch, Call::Next(step));
            next.batch = make(tape, run, (source, measured), (tid, span), batch);
            next.cpu = cpu_of(tape, run, &next).filter(|_| measured);
            of.waits.push(next);
            let body = phases(tape, &mut of.phases, span.1);
            of.steps.push(Step {
                span: (at, body),
                epoch,
                step,
                unfinished: false,
            });
            at = body + tape.pick(&[0, 0, 2]);
        }
        if tape.once_in(2) {
            let span = (at, at + tape.from(1, 4));
            of.waits.push(wait(span, epoch, Call::Last));
            at = span.1;
        }
    }
    if tape.once_in(6) {
        let span = (at, at + 9);
        of.waits.push(Wait {
            unfinished: true,
            ..wait(span, 2, Call::Next(0))
        });
        of.steps.push(Step {
            span,
            epoch: 2,
            step: 0,
            unfinished: true,
        });
    }
    run.end = run.end.max(at);
    run.trainers.push(of);
}

/// CPU time of a wait: that of the stages inside it, and a part of the rest.
fn cpu_of(tape: &mut Tape<'_>, run: &Run, wait: &Wait) -> Option<u64> {
    let own = |stage: &&Stage| wait.batch == Some((stage.batch, stage.tid));
    let inside = run.stages.iter().filter(own);
    let inside = inside.filter(|stage| stage.tid == 100 || stage.tid == 110);
    let (cpu, taken) = inside.fold((0, 0), |sum, stage| {
        let length = stage.span.1 - stage.span.0;
        (sum.0 + stage.cpu.unwrap_or(length), sum.1 + length)
    });
    let rest = wait.span.1 - wait.span.0 - taken;
    let cpu = cpu + rest * tape.below(11) / 10;
    (tape.below(9) < 8).then_some(cpu)
}

/// Makes the batch that the thread waits for.
pub fn make(
    tape: &mut Tape<'_>,
    run: &mut Run,
    (source, measured): (Source, bool),
    (tid, wait): (u32, Span),
    batch: &mut u64,
) -> Option<(u64, u32)> {
    let maker = match source {
        Source::InProcess => tid,
        Source::Workers(of) => tape.pick(of),
        Source::Untagged => return None,
    };
    *batch += 1;
    let before = run.stages.iter().filter(|stage| stage.tid == maker);
    let free = before.map(|stage| stage.span.1).max().unwrap_or(0);
    let free = if maker == tid { wait.0 } else { free };
    let made = wait.1.saturating_sub(tape.below(6)).max(free + 2);
    if made <= wait.1 {
        let length = if tape.once_in(3) {
            made
        } else {
            tape.from(2, 14)
        };
        let start = made.saturating_sub(length).max(free);
        let turn = start + tape.from(1, made - start);
        for (cat, span) in [
            (cat::DATA_GET, (start, turn)),
            (cat::DATA_COLLATE, (turn, made)),
        ] {
            let waited = tape.pick(&[0, 1, 2, 3, 5, 8]);
            if span.0 < span.1 {
                run.stages.push(Stage {
                    tid: maker,
                    batch: *batch,
                    cat,
                    span,
                    cpu: (measured && tape.below(9) < 8)
                        .then_some((span.1 - span.0) * (8 - waited) / 8),
                    runnable: measured.then_some((span.1 - span.0) * waited / 8),
                });
            }
        }
    }
    Some((*batch, maker))
}

fn phases(tape: &mut Tape<'_>, into: &mut Vec<(&'static str, Span)>, from: u64) -> u64 {
    let mut at = from + tape.below(3);
    for _ in 0..tape.below(5) {
        let span = (at, at + tape.from(1, 8));
        into.push((tape.pick(PHASES), span));
        if span.1 - span.0 > 3 && tape.once_in(2) {
            let inner = (span.0 + 1, tape.from(span.0 + 2, span.1));
            into.push((tape.pick(PHASES), inner));
        }
        at = span.1 + tape.pick(&[0, 1, 4]);
    }
    at.max(from + 1)
}

/// A thread; what cuts its running time, and its samples, have even times, so that the middle between
/// two samples is the beginning of a unit.
fn thread(tape: &mut Tape<'_>, tid: u32, whole: u64) -> Thread {
    let mut of = half(tape, tid, whole / 2);
    let double = |span: &mut Span| *span = (2 * span.0, 2 * span.1);
    for (off, span) in &mut of.offs {
        off.runnable *= 2;
        double(span);
    }
    for (watch, lost) in &mut of.watches {
        double(watch);
        *lost *= 2;
        // Until the end is until the very end.
        watch.1 += u64::from(watch.1 + 1 == whole);
    }
    of.samples.iter_mut().for_each(|sample| sample.0 *= 2);
    of.memory.iter_mut().for_each(|(_, span)| double(span));
    of
}

fn half(tape: &mut Tape<'_>, tid: u32, end: u64) -> Thread {
    let mut of = Thread {
        tid,
        ..Thread::default()
    };
    let level = match (tape.below(6), tid) {
        // Workers are watched all the time or not at all.
        (1 | 2, 101..=104) => 3,
        (level, _) => level,
    };
    if level == 0 {
        return of;
    }
    match level {
        1 => {}
        2 => {
            let turn = tape.from(1, end - 1);
            let again = tape.from(turn, end - 1);
            // Of who wakes others nothing is lost: the table does not say whether what is left
            // of such a turn counts as known.
            let lost = tape.pick(&[0, 9]) * u64::from(tid < 120);
            of.watches.push(((tape.below(turn), turn), lost));
            of.watches.push(((again, end), 0));
        }
        _ => of.watches.push(((0, end), tape.pick(&[0, 0, 0, 0, 9]))),
    }
    let overlap = tape.pick(&[0, 0, 2]);
    let mut at = tape.below(5);
    for _ in 0..tape.below(16) {
        let span = (at, at + tape.from(1, 6));
        if span.1 > end {
            break;
        }
        let off = off(tape, span.1 - span.0);
        let mut watches = of.watches.iter();
        let inside = watches.any(|(watch, _)| watch.0 <= span.0 && span.1 <= watch.1);
        if inside || of.watches.is_empty() {
            of.offs.push((off, span));
        }
        at = (span.1 + tape.pick(&[0, 1, 2, 5, 13])).saturating_sub(overlap);
    }
    at = tape.below(15);
    for _ in 0..tape.below(9) {
        let (running, function) = tape.pick(RAN);
        if at < end {
            of.samples.push((at, running, function));
        }
        at += tape.from(1, 8);
    }
    at = tape.below(15);
    for _ in 0..tape.below(4) {
        let cat = tape.pick(&[cat::RECLAIM, cat::COMPACTION, cat::MIGRATION]);
        let span = (at, at + tape.from(1, 3));
        if span.1 <= end {
            of.memory.push((cat, span));
        }
        at = span.1 + tape.below(10);
    }
    of
}

/// Who is watched and gone by then wakes nobody.
fn silence_the_dead(run: &mut Run) {
    let turns: Vec<(u32, Vec<Span>)> = run
        .threads
        .iter()
        .map(|thread| (thread.tid, thread.turns().collect()))
        .collect();
    for (off, span) in run.threads.iter_mut().flat_map(|thread| &mut thread.offs) {
        let woken = blocked_part(off, *span).1;
        let lives = |tid: u32| {
            let of = turns.iter().find(|turns| turns.0 == tid);
            of.is_some_and(|of| of.1.iter().any(|turn| turn.0 < woken && woken < turn.1))
        };
        off.waker = off.waker.filter(|waker| lives(waker.1));
    }
}

fn off(tape: &mut Tape<'_>, length: u64) -> Off<'static> {
    if tape.once_in(4) {
        return Off {
            state: tape.pick(&[state::PREEMPTED, state::STARTING]),
            ..blocked("", "")
        };
    }
    let (class, function) = if tape.once_in(2) {
        WAITS[0]
    } else {
        tape.pick(WAITS)
    };
    Off {
        state: tape.pick(&[state::SLEEPING, state::UNINTERRUPTIBLE, state::STOPPED]),
        runnable: tape.pick(&[0, 0, 1, length]).min(length),
        waker: tape.pick(&[
            None,
            Some(("helper", 120, 100)),
            Some(("other", 121, 100)),
            Some(("worker", 101, 100)),
            Some(("foreign", 120, 200)),
        ]),
        iowait: tape.once_in(4),
        // Its CPU was not idle.
        giver: Some(("another", 950)),
        ..blocked(class, function)
    }
}
