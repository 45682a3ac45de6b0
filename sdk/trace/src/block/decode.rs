//! Reading the block, chunk by chunk.

use super::chunk::Chunk;
use super::columns::{ArgsOf, Sum, same_length};
use crate::{
    AsyncSlice, CounterSample, CounterSeries, Flow, FlowEnd, Instant, Interval, Loss, Nanos, Pid,
    Process, Slice, Symbol, Tid, Trace, TraceTime, Track, TrackId, TrackKind,
};

/// Puts a trace together from the chunks of its block.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    trace: Trace,
    /// The symbol of each string of the file.
    symbols: Vec<Symbol>,
    chunks: u64,
    unknown: u64,
}

impl Decoder {
    /// Adds a chunk. On an error, which says what is wrong with it, the block is of no use.
    pub(crate) fn add(&mut self, json: &[u8]) -> Result<(), String> {
        let chunk: Chunk<'_> = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        self.chunks += 1;
        match &*chunk.kind {
            "strings" => self.strings(&chunk),
            "processes" => self.processes(&chunk),
            "tracks" => self.tracks(&chunk),
            "counter_series" => self.counter_series(&chunk),
            "slices" => self.slices(&chunk),
            "instants" => self.instants(&chunk),
            "counters" => self.counters(&chunk),
            "flows" => self.flows(&chunk),
            "async_slices" => self.async_slices(&chunk),
            "losses" => self.losses(&chunk),
            _ => {
                self.unknown += 1;
                Ok(())
            }
        }
        .map_err(|reason| format!("chunk {} ({}): {reason}", self.chunks, chunk.kind))
    }

    /// Chunks so far.
    pub(crate) fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Chunks of a kind that this build does not know, which were left out.
    pub(crate) fn unknown(&self) -> u64 {
        self.unknown
    }

    /// The trace, its events in the order of the file; without meta and report.
    pub(crate) fn into_trace(self) -> Trace {
        self.trace
    }

    pub(super) fn symbol(&self, number: u32) -> Result<Symbol, String> {
        let symbol = self.symbols.get(number as usize).copied();
        symbol.ok_or_else(|| format!("string {number} is not there"))
    }

    fn track(&self, number: u32) -> Result<TrackId, String> {
        if (number as usize) < self.trace.tracks.len() {
            Ok(TrackId(number))
        } else {
            Err(format!("track {number} is not there"))
        }
    }

    fn strings(&mut self, c: &Chunk<'_>) -> Result<(), String> {
        for text in &c.text {
            let symbol = self.trace.strings.intern(text);
            self.symbols.push(symbol);
        }
        Ok(())
    }

    fn processes(&mut self, c: &Chunk<'_>) -> Result<(), String> {
        same_length(&[c.pid.len(), c.name.len(), c.sort.len()])?;
        for i in 0..c.pid.len() {
            let name = self.symbol(c.name[i])?;
            self.trace.processes.push(Process {
                pid: Pid(c.pid[i]),
                name,
                sort: c.sort[i],
            });
        }
        Ok(())
    }

    fn tracks(&mut self, c: &Chunk<'_>) -> Result<(), String> {
        let lengths = [
            c.pid.len(),
            c.tid.len(),
            c.name.len(),
            c.sort.len(),
            c.synthetic.len(),
        ];
        same_length(&lengths)?;
        for i in 0..c.pid.len() {
            let kind = match c.synthetic[i] {
                0 => TrackKind::Thread,
                _ => TrackKind::Synthetic,
            };
            let name = self.symbol(c.name[i])?;
            let (pid, tid) = (Pid(c.pid[i]), Tid(c.tid[i]));
            self.trace.tracks.push(Track {
                pid,
                tid,
                name,
                sort: c.sort[i],
                kind,
            });
        }
        Ok(())
    }

    fn counter_series(&mut self, c: &Chunk<'_>) -> Result<(), String> {
        same_length(&[c.pid.len(), c.name.len()])?;
        for i in 0..c.pid.len() {
            let name = self.symbol(c.name[i])?;
            self.trace.counter_series.push(CounterSeries {
                pid: Pid(c.pid[i]),
                name,
            });
        }
        Ok(())
    }

    fn slices(&mut self, c: &Chunk<'_>) -> Result<(), String> {
        same_length(&[
            c.track.len(),
            c.name.len(),
            c.cat.len(),
            c.start.len(),
            c.dur.len(),
        ])?;
        let mut args = ArgsOf::new(c, c.track.len())?;
        let mut start = Sum::default();
        for i in 0..c.track.len() {
            let slice = Slice {
                track: self.track(c.track[i])?,
                name: self.symbol(c.name[i])?,
                cat: self.symbol(c.cat[i])?,
                span: span(start.time(c.start[i]), c.dur[i]),
                args: args.next(self, i)?,
            };
            self.trace.slices.push(slice);
        }
        args.finish()
    }

    fn instants(&mut self, c: &Chunk<'_>) -> Result<(), String> {
        same_length(&[c.track.len(), c.name.len(), c.cat.len(), c.at.len()])?;
        let mut args = ArgsOf::new(c, c.track.len())?;
        let mut at = Sum::default();
        for i in 0..c.track.len() {
            let instant = Instant {
                track: self.track(c.track[i])?,
                name: self.symbol(c.name[i])?,
                cat: self.symbol(c.cat[i])?,
                at: at.time(c.at[i]),
                args: args.next(self, i)?,
            };
            self.trace.instants.push(instant);
        }
        args.finish()
    }

    fn counters(&mut self, c: &Chunk<'_>) -> Result<(), String> {
        same_length(&[c.series.len(), c.at.len(), c.value.len()])?;
        let mut at = Sum::default();
        for i in 0..c.series.len() {
            let series = c.series[i];
            if series as usize >= self.trace.counter_series.len() {
                return Err(format!("counter series {series} is not there"));
            }
            let (at, value) = (at.time(c.at[i]), c.value[i].0);
            self.trace
                .counters
                .push(CounterSample { series, at, value });
        }
        Ok(())
    }

    fn flows(&mut self, c: &Chunk<'_>) -> Result<(), String> {
        let ends = [c.from.len(), c.at.len(), c.to.len(), c.lag.len()];
        same_length(&[c.id.len(), c.name.len(), c.cat.len()])?;
        same_length(&[c.id.len(), ends[0], ends[1], ends[2], ends[3]])?;
        let (mut id, mut at) = (Sum::default(), Sum::default());
        for i in 0..c.id.len() {
            let leaves = at.time(c.at[i]);
            let arrives = leaves.as_nanos().wrapping_add(c.lag[i] as u64);
            let flow = Flow {
                id: id.next(c.id[i]),
                name: self.symbol(c.name[i])?,
                cat: self.symbol(c.cat[i])?,
                from: FlowEnd {
                    track: self.track(c.from[i])?,
                    at: leaves,
                },
                to: FlowEnd {
                    track: self.track(c.to[i])?,
                    at: TraceTime::from_nanos(arrives),
                },
            };
            self.trace.flows.push(flow);
        }
        Ok(())
    }

    fn async_slices(&mut self, c: &Chunk<'_>) -> Result<(), String> {
        same_length(&[c.pid.len(), c.name.len(), c.cat.len(), c.id.len()])?;
        same_length(&[c.pid.len(), c.start.len(), c.dur.len()])?;
        let mut args = ArgsOf::new(c, c.pid.len())?;
        let (mut id, mut start) = (Sum::default(), Sum::default());
        for i in 0..c.pid.len() {
            let slice = AsyncSlice {
                pid: Pid(c.pid[i]),
                name: self.symbol(c.name[i])?,
                cat: self.symbol(c.cat[i])?,
                id: id.next(c.id[i]),
                span: span(start.time(c.start[i]), c.dur[i]),
                args: args.next(self, i)?,
            };
            self.trace.async_slices.push(slice);
        }
        args.finish()
    }

    fn losses(&mut self, c: &Chunk<'_>) -> Result<(), String> {
        same_length(&[c.source.len(), c.at.len(), c.total.len()])?;
        let mut at = Sum::default();
        for i in 0..c.source.len() {
            let source = self.symbol(c.source[i])?;
            self.trace.losses.push(Loss {
                source,
                at: at.time(c.at[i]),
                total: c.total[i],
            });
        }
        Ok(())
    }
}

fn span(start: TraceTime, dur: u64) -> Interval {
    Interval::new(start, start + Nanos::new(dur))
}
