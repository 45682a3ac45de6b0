//! One Chrome event of another program, as it stands in the file.

use super::cursor::{Cursor, Fault, Raw, Text};
use super::kept::Kept;
use super::number::integer;
use super::text::decode;

/// A process or thread id, or the id of a flow or an async slice.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Id<'b> {
    /// The event has none.
    #[default]
    None,
    /// An integer, as a number or as text (`"25738"`).
    Int(i64),
    /// Anything else, as it stands in the file (`stream 7`, `Spans`, `0x1f`).
    Text(Text<'b>),
}

/// The parts of an event that the reader uses. A part that stands twice counts as it stands last.
#[derive(Debug, Default)]
pub(super) struct Event<'b> {
    /// The phase: `X`, `i`...; 0 if there is none, or no single character.
    pub(super) ph: u8,
    pub(super) name: Text<'b>,
    pub(super) cat: Text<'b>,
    /// Start, microseconds.
    pub(super) ts: Option<Raw<'b>>,
    /// Length, microseconds.
    pub(super) dur: Option<Raw<'b>>,
    pub(super) pid: Id<'b>,
    pub(super) tid: Id<'b>,
    pub(super) id: Id<'b>,
    /// The object with the arguments as it stands in the file.
    pub(super) args: Option<&'b [u8]>,
    /// Those of them that the diagnosis uses.
    pub(super) kept: Kept<'b>,
}

impl<'b> Event<'b> {
    /// Reads the event at the start of `bytes` into this one, which is empty; returns its length
    /// in bytes.
    pub(super) fn read(&mut self, bytes: &'b [u8]) -> Result<usize, Fault> {
        let mut cursor = Cursor::new(bytes);
        cursor.object(|cursor, key| {
            if key.escaped {
                let (key, _) = decode(key);
                self.set(key.as_bytes(), cursor)
            } else {
                self.set(key.raw, cursor)
            }
        })?;
        Ok(cursor.position())
    }

    #[inline(always)]
    fn set(&mut self, key: &[u8], cursor: &mut Cursor<'b>) -> Result<(), Fault> {
        if key == b"args" {
            self.kept = Kept::default();
            self.args = if cursor.peek()? == b'{' {
                let start = cursor.position();
                self.kept.read(cursor)?;
                Some(cursor.since(start))
            } else {
                cursor.value()?;
                None
            };
            return Ok(());
        }
        let value = cursor.value()?;
        match key {
            b"ph" => self.ph = phase(value),
            b"name" => self.name = text(value),
            b"cat" => self.cat = text(value),
            b"ts" => self.ts = Some(value),
            b"dur" => self.dur = Some(value),
            b"pid" => self.pid = Id::read(value),
            b"tid" => self.tid = Id::read(value),
            b"id" => self.id = Id::read(value),
            b"id2" => self.id = nested_id(value),
            _ => {}
        }
        Ok(())
    }

    /// Calls `each` with every argument.
    pub(super) fn each_arg(&self, each: impl FnMut(Text<'b>, Raw<'b>)) {
        if let Some(args) = self.args {
            // It was walked over before, so there is no fault in it.
            let _ = Cursor::new(args).members(each);
        }
    }

    /// The last argument `key`.
    pub(super) fn arg(&self, key: &str) -> Option<Raw<'b>> {
        let mut found = None;
        self.each_arg(|name, value| {
            if decode(name).0 == key {
                found = Some(value);
            }
        });
        found
    }
}

impl<'b> Id<'b> {
    pub(super) fn read(value: Raw<'b>) -> Self {
        let text = match value {
            Raw::Bare(b"null") | Raw::Nested(_) => return Id::None,
            Raw::Bare(raw) => Text {
                raw,
                escaped: false,
            },
            Raw::Text(text) => text,
        };
        match integer(text.raw) {
            Some(number) if !text.escaped => Id::Int(number),
            _ => Id::Text(text),
        }
    }
}

/// The id in `{"local": "0x1f"}` or `{"global": "0x1f"}`.
fn nested_id(value: Raw<'_>) -> Id<'_> {
    let Raw::Nested(nested) = value else {
        return Id::None;
    };
    let mut id = Id::None;
    let _ = Cursor::new(nested).members(|_, value| id = Id::read(value));
    id
}

fn phase(value: Raw<'_>) -> u8 {
    match value {
        Raw::Text(Text { raw: [phase], .. }) => *phase,
        _ => 0,
    }
}

fn text(value: Raw<'_>) -> Text<'_> {
    match value {
        Raw::Text(text) => text,
        Raw::Bare(_) | Raw::Nested(_) => Text::default(),
    }
}
