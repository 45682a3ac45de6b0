//! Communication of drawn jobs, split into waiting for a straggler and what is exposed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::ranks::Job;
use proptest::prelude::*;

/// A collective as each rank sees it: how long before the last one it begins, and after the first end
/// it ends; kernels of each rank before it.
type Drawn = Vec<(Vec<(u64, u64, u64)>, u64)>;

fn drawn(ranks: usize) -> impl Strategy<Value = Drawn> {
    let one = (0_u64..40, 0_u64..3, 0_u64..30);
    let all = prop::collection::vec(one, ranks);
    prop::collection::vec((all, 1_u64..20), 1..12)
}

/// Charges of one device, per unit of time, from what a straggler is.
fn split(ops: &[Vec<(u64, u64)>], kernels: &[(u64, u64)], rank: usize, end: u64) -> (u64, u64) {
    let holds = |span: (u64, u64), t: u64| span.0 <= t && t < span.1;
    let (mut straggler, mut exposed) = (0, 0);
    for t in 0..end {
        if kernels.iter().any(|&span| holds(span, t)) {
            continue;
        }
        let runs = ops.iter().find(|of| holds(of[rank], t));
        match runs.map(|of| of.iter().any(|other| other.0 > t)) {
            Some(true) => straggler += 1,
            Some(false) => exposed += 1,
            None => {}
        }
    }
    (straggler, exposed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_unit_of_communication_is_split_as_the_table_says(
        (ranks, drawn, missed) in (2_usize..5).prop_flat_map(|ranks| {
            (Just(ranks), drawn(ranks), 0_usize..3)
        }),
    ) {
        let mut job = Job::of(ranks as u32);
        let mut collectives: Vec<Vec<(u64, u64)>> = Vec::new();
        let mut kernels: Vec<Vec<(u64, u64)>> = vec![Vec::new(); ranks];
        let mut at = 10;
        for (of, together) in &drawn {
            // The last one begins here, at the latest.
            let last = at + 50;
            let begins = |&(before, _, _): &(u64, u64, u64)| last - before;
            let spans: Vec<(u64, u64)> = of
                .iter()
                .map(|of| (begins(of), last + together + of.1))
                .collect();
            let free = at;
            at = spans.iter().map(|span| span.1).max().unwrap() + 6;
            for (rank, (&(_, _, length), span)) in of.iter().zip(&spans).enumerate() {
                let kernel = (free, (free + length).min(span.0));
                if kernel.0 < kernel.1 {
                    kernels[rank].push(kernel);
                }
            }
            collectives.push(spans);
        }
        for own in &mut kernels {
            own.push((at, at + 10));
        }
        // The recording of the last rank may begin later.
        let missed = missed.min(collectives.len() - 1);
        for (rank, own) in kernels.iter().enumerate() {
            own.iter().for_each(|&span| job.kernel(rank, span));
            let skip = if rank + 1 == ranks { missed } else { 0 };
            collectives.iter().skip(skip).for_each(|of| job.collective(rank, of[rank]));
        }
        let report = job.report(at + 20);
        for (rank, own) in kernels.iter().enumerate() {
            let mut known: Vec<Vec<(u64, u64)>> = collectives.clone();
            if rank + 1 == ranks {
                known.drain(..missed);
            }
            for (n, of) in known.iter_mut().enumerate() {
                if rank + 1 < ranks && n < missed {
                    of[ranks - 1] = (0, 0);
                }
            }
            let (straggler, exposed) = split(&known, own, rank, at + 20);
            let charges = &report.devices[rank].charges_ns;
            let of = |cause: &str| charges.get(cause).copied().unwrap_or(0);
            prop_assert_eq!(of("comm.straggler"), straggler * 1_000, "rank {}", rank);
            prop_assert_eq!(of("comm.exposed"), exposed * 1_000, "rank {}", rank);
        }
    }
}
