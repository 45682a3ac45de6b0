//! Names and places of processes and threads.

use super::collect::{Collector, Unusable};
use super::cursor::Raw;
use super::event::Event;
use super::lanes::Key;
use super::number::integer;
use crate::schema::META_EVENT;

impl Collector {
    /// Takes in what a metadata event says.
    pub(super) fn metadata(&mut self, event: &Event<'_>) -> Result<(), Unusable> {
        let what = event.name.raw;
        if what == META_EVENT.as_bytes() {
            self.found.ours = true;
            return Ok(());
        }
        let (key, thread) = match what {
            b"process_name" => ("name", false),
            b"process_sort_index" => ("sort_index", false),
            b"thread_name" => ("name", true),
            b"thread_sort_index" => ("sort_index", true),
            _ => return Ok(()),
        };
        self.cells += 1;
        let pid = Key::new(event.pid, &mut self.trace.strings, &mut self.texts);
        let named = if thread {
            let lane = self.lane(event);
            self.processes.thread(lane)
        } else {
            self.processes.process(pid)
        };
        match (event.arg(key), key) {
            (Some(Raw::Text(text)), "name") => {
                named.name = Some(self.texts.symbol(text, &mut self.trace.strings));
            }
            (Some(Raw::Bare(raw)), "sort_index") => {
                let sort = integer(raw).ok_or(Unusable)?;
                named.sort = sort.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
            }
            _ => return Err(Unusable),
        }
        Ok(())
    }
}
