use super::*;
use gpustall_trace::TraceTime;

/// Three workers that each read for 100 us and then do something else for as long as that, three
/// times; the disk serves all at once.
fn three_apart() -> Vec<Interval> {
    let span = |start: u64| {
        let time = |us: u64| TraceTime::from_nanos(us * 1000);
        Interval::new(time(start), time(start + 100))
    };
    (0..300).map(|i| span(i * 67)).collect()
}

/// From reads alone, of so many batches.
fn of_spans(spans: &[Interval], of_reader: f64, held_back: bool, batches: u64) -> Disk {
    let seen = at_once(spans);
    let slowing = match held_back {
        true => Slowing::LIMIT,
        false => Slowing::of(&seen, &Pace::default(), batches),
    };
    let slowing = slowing.or_limit(LIMIT);
    Disk::of_reads(Source::Disk, &seen, of_reader, slowing, held_back)
}

/// So many workers, which wait for the disk for 100 us and do something else for as long.
fn made(workers: u64) -> Made {
    Made {
        workers,
        read: Nanos::new(100_000),
        other: Nanos::new(100_000),
    }
}

#[test]
fn with_the_workers_that_there_were_a_batch_waits_as_it_did() {
    let disk = of_spans(&three_apart(), 1.0, false, 100);
    let read = made(3).read;
    assert_eq!(disk.read_with(3, &made(3)), (read, read));
}

#[test]
fn without_evidence_more_workers_are_as_slow_as_before_or_as_fast_each() {
    let alone: Vec<Interval> = three_apart().into_iter().step_by(3).collect();
    let disk = of_spans(&alone, 1.0, false, 100);
    assert_eq!(disk.known(), Known::UpTo(1));
    let (least, most) = disk.read_with(4, &made(1));
    assert!(least.get().abs_diff(100_000) < 1000, "{least}");
    // Four batches in 800 us, as one in 200.
    assert!(most.get().abs_diff(700_000) < 1000, "{most}");
}

#[test]
fn what_holds_reads_back_gives_no_more_to_anybody() {
    let disk = of_spans(&three_apart(), 1.0, true, 100);
    assert_eq!(disk.known(), Known::HeldBack);
    let (least, most) = disk.read_with(6, &made(3));
    // Six batches in the time in which six were made: 400 us, of which 100 are something else.
    assert_eq!(least, most);
    assert!(least.get().abs_diff(300_000) < 10, "{least}");
}

#[test]
fn a_reader_with_several_requests_at_once_is_one_reader() {
    let disk = of_spans(&three_apart(), 1.5, false, 100);
    let each = of_spans(&three_apart(), 1.0, false, 100);
    assert!((disk.readers * 1.5 - each.readers).abs() < 1e-9);
    assert_eq!(disk.slowing, each.slowing);
}

/// Rounds of seven, eight or nine readers, which take 10 us for each that reads at once.
fn at_its_limit() -> Vec<Interval> {
    let time = |us: u64| TraceTime::from_nanos(us * 1000);
    let mut at = 0;
    let mut spans = Vec::new();
    for round in 0..100 {
        let readers = 7 + round % 3;
        spans.extend((0..readers).map(|_| Interval::new(time(at), time(at + 10 * readers))));
        at += 10 * readers;
    }
    spans
}

#[test]
fn what_was_seen_of_many_readers_says_only_bounds_of_few() {
    let disk = of_spans(&at_its_limit(), 1.0, false, 30);
    assert_eq!(disk.known(), Known::AtLimit);
    let made = Made {
        workers: 8,
        read: Nanos::new(80_000),
        other: Nanos::ZERO,
    };
    let (least, most) = disk.read_with(16, &made);
    let twice = |of: Nanos| of.get().abs_diff(160_000) < 2000;
    assert!(twice(least) && twice(most), "{least} to {most}");
    // Two reach the limit, or each of them waits as long as with seven.
    let (least, most) = disk.read_with(2, &made);
    assert!(least.get().abs_diff(20_000) < 1000, "{least}");
    assert!(most.get().abs_diff(70_000) < 2000, "{most}");
}
