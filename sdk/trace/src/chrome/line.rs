//! One line of Chrome JSON, key by key.

use super::encode::Place;
use super::json;
use crate::{Pid, ValueRef};

/// An event that is being appended.
pub(super) struct Line<'o> {
    pub(super) out: &'o mut Vec<u8>,
}

impl<'o> Line<'o> {
    pub(super) fn start(out: &'o mut Vec<u8>, ph: u8, pid: Pid) -> Self {
        out.extend_from_slice(b"{\"ph\":\"");
        out.push(ph);
        out.extend_from_slice(b"\",\"pid\":");
        json::integer(out, pid.0);
        Self { out }
    }

    pub(super) fn at(out: &'o mut Vec<u8>, ph: u8, (pid, tid): Place) -> Self {
        let line = Self::start(out, ph, pid);
        line.out.extend_from_slice(b",\"tid\":");
        json::integer(line.out, tid.0);
        line
    }

    pub(super) fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    pub(super) fn key(&mut self, key: &str) {
        self.raw(",\"");
        self.raw(key);
        self.raw("\":");
    }

    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        json::string(self.out, text);
    }

    pub(super) fn named(&mut self, name: &str, cat: &str) {
        self.text("name", name);
        self.text("cat", cat);
    }

    pub(super) fn time(&mut self, key: &str, ns: u64) {
        self.key(key);
        json::micros(self.out, ns);
    }

    /// An id that is unique in the process and category of the event only.
    pub(super) fn local_id(&mut self, id: u64) {
        self.raw(&format!(",\"id2\":{{\"local\":\"{id:#x}\"}}"));
    }

    pub(super) fn args<'a>(&mut self, args: impl Iterator<Item = (&'a str, ValueRef<'a>)>) {
        let mut before = ",\"args\":{";
        let mut any = false;
        for (key, value) in args {
            self.raw(before);
            json::string(self.out, key);
            self.out.push(b':');
            json::value(self.out, value);
            before = ",";
            any = true;
        }
        if any {
            self.out.push(b'}');
        }
    }

    pub(super) fn end(self) {
        self.out.extend_from_slice(b"},\n");
    }
}
