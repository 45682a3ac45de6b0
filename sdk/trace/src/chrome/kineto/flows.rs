//! Arrows, joined from their two ends.

use super::lanes::{Key, Lanes};
use crate::{Flow, FlowEnd, Symbol, TraceTime, TrackId, vocab};
use std::collections::HashMap;

/// What the two ends of an arrow share: category, name and id.
type Joint = (Symbol, Symbol, Key);

/// Arrows of which one end or both were seen. Until [`Flows::finish`], their tracks are lanes.
#[derive(Debug, Default)]
pub(super) struct Flows {
    whole: Vec<Flow>,
    leaving: HashMap<Joint, FlowEnd>,
    arriving: HashMap<Joint, FlowEnd>,
}

impl Flows {
    /// Adds an end, in whatever order. Ends without a counterpart are no fault: PyTorch writes
    /// them for calls that submit nothing, and for operations whose call came before the window.
    pub(super) fn add(&mut self, joint: Joint, leaves: bool, lane: u32, at: TraceTime) {
        let end = FlowEnd {
            track: TrackId(lane),
            at,
        };
        let (own, other) = match leaves {
            true => (&mut self.leaving, &mut self.arriving),
            false => (&mut self.arriving, &mut self.leaving),
        };
        let Some(met) = other.remove(&joint) else {
            own.insert(joint, end);
            return;
        };
        let (cat, name, id) = joint;
        let (from, to) = if leaves { (end, met) } else { (met, end) };
        let id = match (id.number(), id.text()) {
            (Some(number), _) => number as u64,
            (None, text) => text.map_or(0, |text| u64::from(text.0)),
        };
        self.whole.push(Flow {
            id,
            name,
            cat,
            from,
            to,
        });
    }

    /// The arrows that lead forwards, from track to track.
    pub(super) fn finish(self, lanes: &Lanes, strings: &crate::Strings) -> Vec<Flow> {
        let to_device = strings.find(vocab::cat::AC2G);
        let mut flows = self.whole;
        flows.retain_mut(|flow| {
            let to_device = Some(flow.cat) == to_device;
            let from = lanes.flow_end(flow.from.track.0, false);
            let to = lanes.flow_end(flow.to.track.0, to_device);
            let (Some(from), Some(to)) = (from, to) else {
                return false;
            };
            (flow.from.track, flow.to.track) = (from, to);
            flow.from.at <= flow.to.at
        });
        flows
    }
}
