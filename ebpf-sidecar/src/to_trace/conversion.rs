//! What is kept from one part of a recording to the next.

use super::disk::DiskLanes;
use super::faults::FaultRates;
use super::{Builder, Tracks};
use crate::recording::Recording;
use gpustall_protocol::Introduced;
use gpustall_trace::{
    CounterSample, CounterSeries, Loss, Pid, Process, Tid, Trace, TraceTime, Track, TrackId,
    TrackKind,
};
use std::collections::HashMap;

/// Makes a trace of a recording that comes in parts.
#[derive(Debug, Default)]
pub(crate) struct Conversion {
    /// What was made. Events may be taken out of it between two parts; processes, tracks and
    /// strings must stay.
    pub(crate) trace: Trace,
    /// Positions of processes and tracks that are new, or have another name, since they were taken
    /// out of here.
    pub(crate) introduced: Introduced,
    processes: HashMap<Pid, usize>,
    tracks: HashMap<(Pid, Tid), TrackId>,
    /// Counters that have a value, by their position in the trace.
    series: HashMap<CounterSeries, u32>,
    /// Lanes of requests to disks.
    pub(super) disk_lanes: DiskLanes,
    /// Page faults that have been counted.
    pub(super) fault_rates: FaultRates,
}

impl Conversion {
    /// Adds the next part.
    pub(crate) fn add(&mut self, recording: &Recording) {
        let mut builder = Builder {
            conversion: self,
            recording,
            stacks: HashMap::new(),
        };
        builder.processes();
        let threads = recording.threads.iter();
        let tracks: Vec<Tracks> = threads.map(|thread| builder.tracks(thread)).collect();
        for interval in &recording.intervals {
            builder.off_cpu(tracks[interval.thread as usize].lane, interval);
        }
        for sample in &recording.samples {
            builder.sample(tracks[sample.thread as usize].lane, sample);
        }
        for call in &recording.cuda_calls {
            builder.cuda_call(tracks[call.thread as usize].thread, call);
        }
        for (thread, tracks) in recording.threads.iter().zip(&tracks) {
            if thread.ended || recording.finished {
                builder.totals(tracks.lane, thread);
            }
        }
        for work in &recording.memory_work {
            builder.memory_work(&tracks, work);
        }
        for kill in &recording.oom_kills {
            builder.oom_kill(&tracks, kill);
        }
        builder.disk_requests(&tracks);
        builder.faults();
        builder.host();
        let trace = &mut self.trace;
        for &(at, source, total) in &recording.losses {
            let source = trace.strings.intern(source);
            trace.losses.push(Loss { source, at, total });
        }
    }

    /// Holds each string again that processes and tracks use, and no other. Events must have been
    /// taken out before.
    pub(crate) fn forget_strings(&mut self) {
        let old = std::mem::take(&mut self.trace.strings);
        let Trace {
            strings,
            processes,
            tracks,
            ..
        } = &mut self.trace;
        let names = processes.iter_mut().map(|p| &mut p.name);
        for name in names.chain(tracks.iter_mut().map(|t| &mut t.name)) {
            *name = strings.intern(old.get(*name));
        }
        self.trace.counter_series.clear();
        self.series.clear();
    }

    /// Whether the process has a name.
    pub(super) fn has_process(&self, pid: Pid) -> bool {
        self.processes.contains_key(&pid)
    }

    /// A value of the counter `name` of a process.
    pub(super) fn count(&mut self, pid: Pid, name: &str, at: TraceTime, value: f64) {
        let name = self.trace.strings.intern(name);
        let key = CounterSeries { pid, name };
        let all = &mut self.trace.counter_series;
        let series = *self.series.entry(key).or_insert_with(|| {
            all.push(key);
            all.len() as u32 - 1
        });
        let sample = CounterSample { series, at, value };
        self.trace.counters.push(sample);
    }

    /// A process and its name, which may be another than before.
    pub(super) fn process(&mut self, pid: Pid, name: &str) {
        let name = self.trace.strings.intern(name);
        let all = &mut self.trace.processes;
        let position = *self.processes.entry(pid).or_insert(all.len());
        match all.get_mut(position) {
            Some(known) if known.name == name => return,
            Some(known) => known.name = name,
            None => {
                let sort = position as i32;
                all.push(Process { pid, name, sort });
            }
        }
        self.introduced.processes.insert(position);
    }

    /// A track and its name, which may be another than before.
    pub(super) fn track(
        &mut self,
        place: (Pid, Tid),
        name: &str,
        sort: i32,
        kind: TrackKind,
    ) -> TrackId {
        let name = self.trace.strings.intern(name);
        let all = &mut self.trace.tracks;
        let next = TrackId(all.len() as u32);
        let id = *self.tracks.entry(place).or_insert(next);
        match all.get_mut(id.index()) {
            Some(known) if known.name == name => return id,
            Some(known) => known.name = name,
            None => all.push(Track {
                pid: place.0,
                tid: place.1,
                name,
                sort,
                kind,
            }),
        }
        self.introduced.tracks.insert(id);
        id
    }
}
