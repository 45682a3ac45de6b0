//! Metadata events: the recording, processes, tracks, notes.

use super::line::{Arg, Line, find};
use super::rebuild::{Rebuild, Unusable};
use crate::schema::{COUNTER_EVENT, META_EVENT, NOTE_EVENT, TRACE_SCHEMA};
use crate::{Meta, Pid, Process, Tid, TraceTime, Track, TrackId, TrackKind};

impl Rebuild {
    pub(super) fn metadata(&mut self, line: &Line<'_>) -> Result<(), Unusable> {
        if line.name == META_EVENT {
            let part = line.meta()?;
            self.schema = Some(part.schema);
            if part.schema <= TRACE_SCHEMA {
                let meta = part.meta.ok_or(Unusable)?;
                self.trace.meta = serde_json::from_value::<Meta>(meta)?;
            }
            return Ok(());
        }
        let args = line.args()?;
        let text = |key| find(&args, key).and_then(Arg::as_str);
        let sort = || match find(&args, "sort_index") {
            Some(&Arg::U64(v)) => i32::try_from(v).map_err(|_| Unusable),
            Some(&Arg::I64(v)) => i32::try_from(v).map_err(|_| Unusable),
            _ => Err(Unusable),
        };
        match &*line.name {
            "process_name" => {
                let name = self.trace.strings.intern(text("name").ok_or(Unusable)?);
                self.process(Pid(line.pid)).name = name;
            }
            "process_sort_index" => self.process(Pid(line.pid)).sort = sort()?,
            "thread_name" => {
                let name = text("name").ok_or(Unusable)?;
                if let Some(tid) = find(&args, "lane_of").and_then(Arg::as_u64) {
                    let tid = Tid(u32::try_from(tid).map_err(|_| Unusable)?);
                    let track = self.track(Pid(line.pid), tid);
                    self.tracks.insert((Pid(line.pid), Tid(line.tid)), track);
                    return Ok(());
                }
                let name = self.trace.strings.intern(name);
                let id = self.track(Pid(line.pid), Tid(line.tid));
                let track = &mut self.trace.tracks[id.index()];
                track.name = name;
                track.kind = match text("kind") {
                    Some("synthetic") => TrackKind::Synthetic,
                    _ => TrackKind::Thread,
                };
            }
            "thread_sort_index" => {
                let (id, sort) = (self.track(Pid(line.pid), Tid(line.tid)), sort()?);
                self.trace.tracks[id.index()].sort = sort;
            }
            NOTE_EVENT => {
                let note = text("text").ok_or(Unusable)?;
                self.trace.meta.notes.push(note.into());
            }
            COUNTER_EVENT => {
                let name = text("name").ok_or(Unusable)?;
                let at = find(&args, "at_ns").and_then(Arg::as_u64).ok_or(Unusable)?;
                let value = find(&args, "value").and_then(Arg::as_f64).ok_or(Unusable)?;
                self.sample(Pid(line.pid), name, TraceTime::from_nanos(at), value);
            }
            _ => {}
        }
        Ok(())
    }

    fn process(&mut self, pid: Pid) -> &mut Process {
        let all = &mut self.trace.processes;
        let strings = &mut self.trace.strings;
        let index = *self.processes.entry(pid).or_insert_with(|| {
            let name = strings.intern(&format!("process {pid}"));
            all.push(Process { pid, name, sort: 0 });
            all.len() - 1
        });
        &mut all[index]
    }

    pub(super) fn track(&mut self, pid: Pid, tid: Tid) -> TrackId {
        let all = &mut self.trace.tracks;
        let strings = &mut self.trace.strings;
        *self.tracks.entry((pid, tid)).or_insert_with(|| {
            let name = strings.intern(&format!("thread {tid}"));
            let kind = TrackKind::Thread;
            all.push(Track {
                pid,
                tid,
                name,
                sort: 0,
                kind,
            });
            TrackId(all.len() as u32 - 1)
        })
    }
}
