//! The state of each device as one strip: computing, communicating, copying or idle.

use crate::device::{Device, Devices, State, states};
use crate::timeline::Timeline;
use crate::window::window;
use gpustall_trace::vocab::cat;
use gpustall_trace::{Interval, Nanos, Pid, Slice, Tid, Trace, Track, TrackId, TrackKind};

/// Name of the tracks.
pub const STATE_TRACK_NAME: &str = "device state";

/// Parts of a strip at most. Where there are more, each of so many equal stretches of the window
/// shows the state that holds most of it.
pub const MAX_STATE_PARTS: usize = 50_000;

/// Thread ids of the tracks start here, one for each device.
const FIRST_TID: u32 = Pid::SYNTHETIC + 0x0200_0000;
/// Above the streams of the device.
const SORT: i32 = -1;

/// The strip of one device.
struct Strip {
    pid: Pid,
    parts: Vec<(Interval, State)>,
}

/// Draws the strips of all devices, in the window that is judged.
pub(super) fn draw(trace: &mut Trace) {
    // A new track would adopt the events of tracks that do not exist.
    let tracks = (trace.slices.iter().map(|slice| slice.track))
        .chain(trace.instants.iter().map(|instant| instant.track));
    let beyond = tracks
        .max()
        .is_some_and(|last| last.index() >= trace.tracks.len());
    if beyond {
        return;
    }
    let strips = strips(trace);
    let category = trace.strings.intern(cat::DEVICE_STATE);
    let title = trace.strings.intern(STATE_TRACK_NAME);
    for (number, strip) in strips.into_iter().enumerate() {
        let (Ok(number), Ok(position)) = (u32::try_from(number), u32::try_from(trace.tracks.len()))
        else {
            return;
        };
        trace.tracks.push(Track {
            pid: strip.pid,
            tid: Tid(FIRST_TID.saturating_add(number)),
            name: title,
            sort: SORT,
            kind: TrackKind::Synthetic,
        });
        for (span, state) in strip.parts {
            let name = trace.strings.intern(state.name());
            trace.slices.push(Slice {
                track: TrackId(position),
                name,
                cat: category,
                span,
                args: Box::default(),
            });
        }
    }
}

/// Removes the slices that an earlier call drew.
pub(super) fn erase(trace: &mut Trace) {
    if let Some(state) = trace.strings.find(cat::DEVICE_STATE) {
        trace.slices.retain(|slice| slice.cat != state);
    }
}

/// Whether an earlier call made the track.
pub(super) fn is_own(trace: &Trace, track: &Track) -> bool {
    track.kind == TrackKind::Synthetic
        && track.tid.0 >= FIRST_TID
        && trace.text(track.name) == STATE_TRACK_NAME
}

fn strips(trace: &Trace) -> Vec<Strip> {
    let timeline = Timeline::of(trace);
    let devices = Devices::of(&timeline);
    if devices.is_empty() {
        return Vec::new();
    }
    let (window, _) = window(&timeline, &devices);
    let strip = |(at, device): (usize, &Device)| {
        let (_, window) = window.of_device(at);
        let parts = states(device, window);
        let track = trace.slices.get(device.ops.first()?.slice)?.track;
        Some(Strip {
            pid: trace.track(track)?.pid,
            parts: match parts.len() > MAX_STATE_PARTS {
                true => coarser(&parts, window),
                false => parts,
            },
        })
    };
    devices.list.iter().enumerate().filter_map(strip).collect()
}

/// Equal stretches of each piece of the window, each in the state that holds most of it.
fn coarser(parts: &[(Interval, State)], pieces: &[Interval]) -> Vec<(Interval, State)> {
    let total: u64 = pieces.iter().map(|piece| piece.len().get()).sum();
    let length = Nanos::new(total.div_ceil(MAX_STATE_PARTS as u64).max(1));
    let mut drawn: Vec<(Interval, State)> = Vec::new();
    let mut next = 0;
    for piece in pieces {
        let mut at = piece.start;
        while at < piece.end {
            let stretch = Interval::new(at, (at + length).min(piece.end));
            at = stretch.end;
            let mut held = [0_u64; State::ALL.len()];
            while let Some((span, state)) = parts.get(next) {
                held[*state as usize] += span.intersection(stretch).len().get();
                if span.end > stretch.end {
                    break;
                }
                next += 1;
            }
            let most = State::ALL
                .into_iter()
                .max_by_key(|state| held[*state as usize]);
            let state = most.unwrap_or(State::Idle);
            match drawn.last_mut() {
                Some((last, same)) if *same == state && last.end == stretch.start => {
                    last.end = stretch.end;
                }
                _ => drawn.push((stretch, state)),
            }
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpustall_trace::TraceTime;

    #[test]
    fn a_coarser_strip_shows_what_holds_most_of_each_stretch() {
        let time = TraceTime::from_nanos;
        let mut parts = Vec::new();
        for step in 0..100_000 {
            let at = step * 100;
            let (a, b, c) = (time(at), time(at + 70), time(at + 100));
            parts.push((Interval::new(a, b), State::Compute));
            parts.push((Interval::new(b, c), State::Idle));
        }
        let window = [Interval::new(time(0), time(10_000_000))];
        let drawn = coarser(&parts, &window);
        assert_eq!(drawn, [(window[0], State::Compute)]);
    }
}
