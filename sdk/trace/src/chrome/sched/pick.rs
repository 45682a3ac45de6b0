//! Choosing the stretches off CPU for which there is room.

use super::ViewOptions;
use super::interval::All;
use std::cmp::Reverse;

/// For each stretch whether it is drawn: all of them when they take no more than `room` lines,
/// else those that meet the intervals of `options` in their order, then the longest.
pub(super) fn pick(all: &All, options: &ViewOptions, room: usize) -> Vec<bool> {
    let needed: usize = all.list.iter().map(|found| found.lines as usize).sum();
    if needed <= room {
        return vec![true; all.list.len()];
    }
    let mut picked = vec![false; all.list.len()];
    let mut left = room;
    let mut take = |i: usize| {
        let lines = all.list[i].lines as usize;
        if picked[i] || !all.list[i].fits {
            return true;
        }
        if lines > left {
            return false;
        }
        left -= lines;
        picked[i] = true;
        true
    };
    // Those of one thread do not overlap, so they are in the order of their ends too.
    let mut of_thread: Vec<Vec<u32>> = vec![Vec::new(); all.threads.len()];
    for (i, found) in all.list.iter().enumerate().filter(|(_, found)| found.fits) {
        of_thread[found.thread as usize].push(i as u32);
    }
    for list in &mut of_thread {
        list.sort_by_key(|&i| all.list[i as usize].start);
    }
    'all: for stall in &options.first {
        for list in &of_thread {
            let from = list.partition_point(|&i| all.list[i as usize].end <= stall.start);
            for &i in &list[from..] {
                if all.list[i as usize].start >= stall.end {
                    break;
                }
                if !take(i as usize) {
                    break 'all;
                }
            }
        }
    }
    let mut by_length: Vec<u32> = (0..all.list.len() as u32).collect();
    by_length.sort_by_key(|&i| Reverse(all.list[i as usize].length()));
    for i in by_length {
        if !take(i as usize) {
            break;
        }
    }
    picked
}
