//! A wait is walked back along the thread that made the batch.

mod common;

use common::{Builder, V, in_process, with_workers};
use gpustall_diagnose::{Edge, Finding, PieceKind, diagnose};
use gpustall_trace::vocab::{arg, cat, kind};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Six steps of 1000; the wait of the last is worked on by `make`, and is the only one.
fn one_wait(wait: (u64, u64), unit: u64, make: impl FnOnce(&mut Builder)) -> Finding {
    let mut b = Builder::new();
    b.unit = unit;
    let main = b.thread(100, "main");
    for step in 0..6 {
        b.step("train", 0, step, 100, (step * 1000, step * 1000 + 1000));
    }
    b.wait(
        main,
        "train",
        (0, 5),
        Some((7, 101)),
        (5000 + wait.0, 5000 + wait.1),
    );
    make(&mut b);
    let report = diagnose(&b.build(6000));
    assert_eq!(report.findings.len(), 1, "{report}");
    report.findings[0].clone()
}

fn pieces(finding: &Finding) -> Vec<(PieceKind, Option<u64>, u64, Edge)> {
    let pieces = finding.worst[0].pieces.iter();
    pieces
        .map(|piece| (piece.what, piece.batch, piece.ns, piece.edge))
        .collect()
}

#[test]
fn a_wait_is_charged_to_the_worker_that_made_the_batch() {
    let finding = one_wait((0, 900), 1, |b| {
        let worker = b.thread(101, "dataloader-0");
        let other = b.thread(102, "dataloader-1");
        b.stage(worker, cat::DATA_GET, 6, None, (4800, 5100));
        b.stage(worker, cat::DATA_COLLATE, 6, None, (5100, 5200));
        b.stage(worker, cat::DATA_GET, 7, None, (5250, 5700));
        b.stage(worker, cat::DATA_COLLATE, 7, None, (5700, 5850));
        b.stage(other, cat::DATA_GET, 8, None, (4000, 6000));
    });
    let expected = [
        (PieceKind::EarlierGet, Some(6), 100, Edge::Inferred),
        (PieceKind::EarlierCollate, Some(6), 100, Edge::Inferred),
        (PieceKind::Idle, None, 50, Edge::Inferred),
        (PieceKind::Get, Some(7), 450, Edge::Observed),
        (PieceKind::Collate, Some(7), 150, Edge::Observed),
        (PieceKind::HandOff, None, 50, Edge::Observed),
    ];
    assert_eq!(pieces(&finding), expected);
    let who: Vec<_> = finding.worst[0]
        .pieces
        .iter()
        .map(|piece| piece.who.as_deref())
        .collect();
    assert_eq!(who[3], Some("dataloader-0"));
    assert_eq!(who[5], Some("main"));
}

#[test]
fn a_batch_that_was_ready_is_hand_off() {
    let finding = one_wait((0, 500), 1, |b| {
        let worker = b.thread(101, "dataloader-0");
        b.stage(worker, cat::DATA_GET, 7, None, (3000, 3500));
    });
    assert_eq!(
        pieces(&finding),
        [(PieceKind::HandOff, None, 500, Edge::Observed)]
    );
}

#[test]
fn a_batch_that_was_made_in_process_is_charged_to_its_stages() {
    let report = diagnose(&in_process(20, 7000, 97));
    let kinds: Vec<PieceKind> = report.findings[0].worst[0]
        .pieces
        .iter()
        .map(|piece| piece.what)
        .collect();
    use PieceKind::{Collate, Get, Next};
    assert_eq!(kinds, [Next, Get, Collate, Next]);
    assert!(
        report.findings[0].worst[0]
            .pieces
            .iter()
            .all(|p| p.who.as_deref() == Some("main"))
    );
    assert_eq!(report.loaders[0].in_process, Some(true));
    assert!(report.workers.is_empty());
}

#[test]
fn a_wait_without_a_tag_has_an_unknown_worker() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    for step in 0..6 {
        b.step("train", 0, step, 100, (step * 1000, step * 1000 + 1000));
        b.wait(
            main,
            "train",
            (0, step),
            None,
            (step * 1000, step * 1000 + 400),
        );
    }
    let report = diagnose(&b.build(6000));
    let finding = &report.findings[0];
    assert_eq!(finding.worst[0].pieces.len(), 1);
    assert_eq!(finding.worst[0].pieces[0].what, PieceKind::UnknownWorker);
    assert_eq!(report.loaders[0].in_process, None);
    assert!(
        report
            .verdict
            .ends_with("main waits in next(); who makes the batches is not recorded"),
        "{report}"
    );
    assert!(
        report
            .evidence
            .missing
            .iter()
            .any(|missing| missing.what == "batch tags")
    );
}

#[test]
fn a_stage_says_how_much_of_it_was_on_a_cpu_only_where_that_was_measured() {
    let finding = one_wait((0, 900), 1000, |b| {
        let worker = b.thread(101, "dataloader-0");
        b.stage(worker, cat::DATA_GET, 7, Some(80), (5000, 5800));
        b.stage(worker, cat::DATA_COLLATE, 7, None, (5800, 5900));
    });
    let shares: Vec<_> = finding.worst[0]
        .pieces
        .iter()
        .map(|piece| piece.on_cpu)
        .collect();
    assert_eq!(shares, [Some(0.1), None]);
    assert_eq!(finding.evidence.get("get_cpu_share"), Some(&0.1));
    assert_eq!(finding.evidence.get("collate_cpu_share"), None);
}

#[test]
fn a_hang_is_charged_to_the_stage_that_is_still_open() {
    let mut b = Builder::new();
    let main = b.thread(100, "main");
    let worker = b.thread(101, "dataloader-0");
    for step in 0..6 {
        let at = step * 10_000;
        b.step("train", 0, step, 100, (at, at + 10_000));
        b.wait(main, "train", (0, step), Some((step, 101)), (at, at + 100));
        b.stage(worker, cat::DATA_GET, step, None, (at, at + 90));
    }
    let open = (arg::UNFINISHED, V::B(true));
    let args = [
        (arg::LOADER, V::S("train")),
        (arg::KIND, V::S(kind::TRAIN)),
        (arg::STEP, V::N(6)),
        open,
    ];
    b.slice(
        main,
        cat::DATA_WAIT,
        "data wait",
        (60_000, 8_060_000),
        &args,
    );
    b.slice(worker, cat::DATA_GET, "get", (70_000, 8_060_000), &[open]);
    let report = diagnose(&b.build(8_060_000));
    assert!(
        report
            .unfinished
            .iter()
            .any(|open| open.hang && open.for_ns == 8_000_000_000)
    );
    assert_eq!(
        report.verdict,
        "mlp: main had been in next() of `train` for 8.00 s when the recording ended"
    );
    let worst = &report.findings[0].worst[0];
    assert!(worst.unfinished);
    assert_eq!(worst.pieces[1].what, PieceKind::Get);
    assert_eq!(worst.pieces[1].who.as_deref(), Some("dataloader-0"));
    assert_eq!(worst.pieces[1].edge, Edge::Inferred);
}

#[test]
fn a_finding_names_the_workers_and_the_stage_that_takes_the_time() {
    let report = diagnose(&with_workers(50, 7000, 12_000));
    let finding = &report.findings[0];
    let links: Vec<(u32, &str, &str)> = finding
        .chain
        .iter()
        .map(|l| (l.depth, l.who.as_str(), l.what.as_str()))
        .collect();
    let workers = "dataloader-0 and dataloader-1";
    let expected = [
        (0, "main", "in next() of `train`"),
        (1, workers, "making the batch"),
        (2, workers, "get"),
        (2, workers, "collate"),
        (1, "main", "hand-off"),
    ];
    assert_eq!(links, expected);
    let sum = |depth| -> u64 {
        finding
            .chain
            .iter()
            .filter(|link| link.depth == depth)
            .map(|link| link.ns)
            .sum()
    };
    assert_eq!(sum(1), finding.lost_ns);
    assert_eq!(sum(2), finding.chain[1].ns);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_pieces_of_a_wait_are_what_the_worker_did_in_each_nanosecond(
        wait in (0u64..100, 450u64..900),
        stages in prop::collection::vec((0u64..950, 1u64..300, any::<bool>(), 5u64..8), 0..6),
    ) {
        let mut stages: Vec<_> = stages.into_iter()
            .map(|(start, len, get, batch)| (start, (start + len).min(1000), get, batch))
            .collect();
        // Which of two stages of the same times wins is not the rule's.
        stages.sort_unstable();
        stages.dedup_by_key(|stage| (stage.0, stage.1));
        let finding = one_wait(wait, 1, |b| {
            let worker = b.thread(101, "dataloader-0");
            for &(start, end, get, batch) in &stages {
                let cat = if get { cat::DATA_GET } else { cat::DATA_COLLATE };
                b.stage(worker, cat, batch, None, (5000 + start, 5000 + end));
            }
        });
        let made = stages.iter().filter(|s| s.3 == 7).map(|s| s.1).max().unwrap_or(u64::MAX);
        let mut expected: BTreeMap<PieceKind, u64> = BTreeMap::new();
        for t in wait.0..wait.1 {
            let innermost = stages.iter()
                .filter(|s| s.0 <= t && t < s.1)
                .max_by_key(|s| (s.0, std::cmp::Reverse(s.1)));
            let kind = match innermost {
                _ if t >= made => PieceKind::HandOff,
                Some((_, _, true, 7)) => PieceKind::Get,
                Some((_, _, false, 7)) => PieceKind::Collate,
                Some((_, _, true, _)) => PieceKind::EarlierGet,
                Some((_, _, false, _)) => PieceKind::EarlierCollate,
                None => PieceKind::Idle,
            };
            *expected.entry(kind).or_default() += 1;
        }
        let mut found: BTreeMap<PieceKind, u64> = BTreeMap::new();
        for piece in &finding.worst[0].pieces {
            *found.entry(piece.what).or_default() += piece.ns;
        }
        prop_assert_eq!(finding.worst[0].unlisted_ns, 0);
        prop_assert_eq!(found, expected);
    }
}
