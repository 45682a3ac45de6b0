//! Counter samples.

use super::collect::{Collector, Unusable};
use super::cursor::Raw;
use super::event::Event;
use super::kept::float;
use super::lanes::Key;
use super::text::decode;
use crate::{CounterSample, CounterSeries};

impl Collector {
    /// Adds a sample for each argument that is a number.
    pub(super) fn counters(&mut self, event: &Event<'_>) -> Result<(), Unusable> {
        let at = self.time(event)?;
        let pid = Key::new(event.pid, &mut self.trace.strings, &mut self.texts);
        let pid = self.processes.used(pid);
        let name = decode(event.name).0;
        let mut any = false;
        event.each_arg(|key, value| {
            let Raw::Bare(raw) = value else { return };
            let Some(value) = std::str::from_utf8(raw).ok().and_then(float) else {
                return;
            };
            any = true;
            let key = decode(key).0;
            let name = match &*key {
                "value" => self.texts.plain(&name, &mut self.trace.strings),
                _ => {
                    let name = format!("{name} {key}");
                    self.texts.plain(&name, &mut self.trace.strings)
                }
            };
            let all = &mut self.trace.counter_series;
            let key = CounterSeries { pid, name };
            let series = *self.series.entry(key).or_insert_with(|| {
                all.push(key);
                all.len() as u32 - 1
            });
            self.trace
                .counters
                .push(CounterSample { series, at, value });
        });
        if any { Ok(()) } else { Err(Unusable) }
    }
}
