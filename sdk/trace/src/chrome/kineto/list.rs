//! Walking over a file: its keys, and its list of events.

use super::collect::Collector;
use super::cursor::Fault;
use super::event::Event;
use super::header::{HEADER_BYTES, Header};
use super::window::{More, Passed, Window};
use std::io;

/// Where reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// At the last bracket.
    Whole,
    /// The text ended before that.
    Cut,
    /// The text stopped being JSON.
    Garbled,
    /// The trace has taken all the memory that it may take.
    Full,
    /// The file is one of gpustall.
    Ours,
}

/// Reads a file into a collector.
pub(super) struct Reader {
    pub(super) window: Window,
    pub(super) collector: Collector,
    pub(super) header: Header,
    /// Lists of events so far.
    pub(super) lists: u32,
    /// Whether to stop at what only files of gpustall have.
    pub(super) watch: bool,
}

impl Reader {
    /// Reads an object with a list of events among its keys.
    pub(super) fn object(&mut self) -> io::Result<Ending> {
        self.window.peek()?;
        self.window.consume(1);
        let (mut json, mut first) = (Vec::new(), true);
        loop {
            match self.window.peek()? {
                None => return Ok(Ending::Cut),
                Some(b'}') => return Ok(Ending::Whole),
                Some(b',') if !first => {
                    self.window.consume(1);
                    if self.window.peek()? == Some(b'}') {
                        continue;
                    }
                }
                Some(b'"') if first => {}
                Some(_) => return Ok(Ending::Garbled),
            }
            first = false;
            match self.window.peek()? {
                None => return Ok(Ending::Cut),
                Some(b'"') => {}
                Some(_) => return Ok(Ending::Garbled),
            }
            json.clear();
            if self.window.pass_value(&mut json, HEADER_BYTES)? != Passed::Whole {
                return Ok(Ending::Cut);
            }
            let key: String = serde_json::from_slice(&json).unwrap_or_default();
            match self.window.peek()? {
                None => return Ok(Ending::Cut),
                Some(b':') => self.window.consume(1),
                Some(_) => return Ok(Ending::Garbled),
            }
            if self.watch && key == "gpustall" {
                return Ok(Ending::Ours);
            }
            if key == "traceEvents" && self.window.peek()? == Some(b'[') {
                match self.list()? {
                    Ending::Whole => continue,
                    other => return Ok(other),
                }
            }
            json.clear();
            match self.window.pass_value(&mut json, HEADER_BYTES)? {
                Passed::Whole => self.header.set(&key, &json),
                Passed::Cut => return Ok(Ending::Cut),
                Passed::Missing => return Ok(Ending::Garbled),
            }
            if self.watch && self.header.ours {
                return Ok(Ending::Ours);
            }
        }
    }

    /// Reads a list of events.
    pub(super) fn list(&mut self) -> io::Result<Ending> {
        self.lists += 1;
        self.window.peek()?;
        self.window.consume(1);
        loop {
            match self.window.peek()? {
                None => return Ok(Ending::Cut),
                Some(b']') => {
                    self.window.consume(1);
                    return Ok(Ending::Whole);
                }
                // Some programs put one after the last event, or before the first.
                Some(b',') => {
                    self.window.consume(1);
                    continue;
                }
                Some(b'{') => {}
                Some(_) => {
                    if let Some(ending) = self.pass()? {
                        return Ok(ending);
                    }
                    continue;
                }
            }
            let mut event = Event::default();
            let fault = match event.read(self.window.rest()) {
                Ok(length) => {
                    self.collector.add(&event);
                    self.window.consume(length);
                    if self.watch && self.collector.found.ours {
                        return Ok(Ending::Ours);
                    }
                    if self.collector.full() {
                        return Ok(Ending::Full);
                    }
                    continue;
                }
                Err(fault) => fault,
            };
            if fault == Fault::Cut && self.window.more()? == More::Read {
                continue;
            }
            if let Some(ending) = self.pass()? {
                return Ok(ending);
            }
        }
    }

    /// Passes over an element that is no event; where reading ended, if it does.
    fn pass(&mut self) -> io::Result<Option<Ending>> {
        match self.window.pass_value(&mut Vec::new(), 0)? {
            Passed::Whole => {}
            Passed::Cut => return Ok(Some(Ending::Cut)),
            Passed::Missing => return Ok(Some(Ending::Garbled)),
        }
        self.collector.found.unusable += 1;
        Ok(match self.window.peek()? {
            Some(b',' | b']') => None,
            Some(_) => Some(Ending::Garbled),
            None => Some(Ending::Cut),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::collect::FOREIGN_ROWS;
    use super::*;

    fn reader(json: &'static str) -> Reader {
        Reader {
            window: Window::new(Box::new(json.as_bytes())),
            collector: Collector::default(),
            header: Header::default(),
            lists: 0,
            watch: true,
        }
    }

    #[test]
    fn reading_ends_when_the_trace_has_all_the_memory_that_it_may_take() {
        let mut reader = reader(r#"[{"ph":"i","ts":1},{"ph":"i","ts":2},{"ph":"i","ts":3}]"#);
        // One thread and two instants more.
        reader.collector.cells = FOREIGN_ROWS - 3;
        assert_eq!(reader.list().expect("no I/O"), Ending::Full);
        assert_eq!(reader.collector.trace.instants.len(), 2);
    }

    #[test]
    fn what_only_gpustall_writes_ends_reading_at_once() {
        for json in [
            r#"{"gpustall":{"schema":1},"traceEvents":[{"ph":"i","ts":1}]}"#,
            r#"{"otherData":{"producer":"gpustall"},"traceEvents":[{"ph":"i","ts":1}]}"#,
            r#"{"traceEvents":[{"ph":"M","name":"gpustall.meta"},{"ph":"i","ts":1}]}"#,
        ] {
            let mut reader = reader(json);
            assert_eq!(reader.object().expect("no I/O"), Ending::Ours);
            assert!(reader.collector.trace.instants.is_empty());
        }
    }
}
