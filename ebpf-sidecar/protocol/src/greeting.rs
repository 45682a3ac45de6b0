//! The first words of both sides, in a form that every version can read.
//!
//! ```text
//! client:  "gpustall"  version (4 bytes)                     length (4 bytes)  hello of that version
//! sidecar: "gpustall"  version (4 bytes)  refused (1 byte)   length (4 bytes)  why, UTF-8
//! ```
//! Integers are little-endian.

use crate::PROTOCOL_VERSION;
use crate::error::ProtocolError;
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 8] = b"gpustall";

/// Most bytes of a hello, or of a reason.
const MAX_BYTES: usize = 4096;

/// What a client says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its process id, as it sees it itself.
    pub pid: u32,
    /// Start of its trace, nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// Its version of gpustall.
    pub release: String,
}

impl Hello {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let body = postcard::to_allocvec(self).unwrap_or_default();
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&PROTOCOL_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }
}

/// What a client greeted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeting {
    /// A hello of our version.
    Hello(Hello),
    /// It speaks this other version.
    OtherVersion(u32),
}

impl Greeting {
    /// The greeting at the start of `bytes`; `None` while some of it is missing.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let mut reader = Reader(bytes);
        let (Some(()), Some(version)) = (reader.magic()?, reader.number()) else {
            return Ok(None);
        };
        if version != PROTOCOL_VERSION {
            return Ok(Some(Self::OtherVersion(version)));
        }
        let Some(body) = reader.body("a hello")? else {
            return Ok(None);
        };
        match postcard::from_bytes(body) {
            Ok(hello) => Ok(Some(Self::Hello(hello))),
            Err(_) => Err(ProtocolError::Malformed("the hello")),
        }
    }
}

/// What the sidecar answers to a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The version that it speaks.
    pub version: u32,
    /// Why it refuses, one sentence that says what to do; `None` for a welcome.
    pub refused: Option<String>,
}

impl Reply {
    /// A welcome.
    pub fn welcome() -> Self {
        Self {
            version: PROTOCOL_VERSION,
            refused: None,
        }
    }

    /// A refusal.
    pub fn refusal(why: impl Into<String>) -> Self {
        Self {
            version: PROTOCOL_VERSION,
            refused: Some(why.into()),
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let why = self.refused.as_deref().unwrap_or_default();
        let why = &why.as_bytes()[..why.floor_char_boundary(MAX_BYTES)];
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.push(self.refused.is_some().into());
        bytes.extend_from_slice(&(why.len() as u32).to_le_bytes());
        bytes.extend_from_slice(why);
        bytes
    }

    /// The reply at the start of `bytes` and how many of them it has; `None` while some of it is
    /// missing.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, ProtocolError> {
        let mut reader = Reader(bytes);
        let (Some(()), Some(version), Some(refused)) =
            (reader.magic()?, reader.number(), reader.byte())
        else {
            return Ok(None);
        };
        let Some(why) = reader.body("a reason")? else {
            return Ok(None);
        };
        let why = String::from_utf8_lossy(why).into_owned();
        let reply = Self {
            version,
            refused: (refused != 0).then_some(why),
        };
        Ok(Some((reply, bytes.len() - reader.0.len())))
    }
}

/// What has not been read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Fails with the first byte that is wrong.
    fn magic(&mut self) -> Result<Option<()>, ProtocolError> {
        let seen = self.0.len().min(MAGIC.len());
        if self.0[..seen] != MAGIC[..seen] {
            return Err(ProtocolError::NotGpustall);
        }
        Ok(self.take(MAGIC.len()).map(drop))
    }

    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn body(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, ProtocolError> {
        let Some(bytes) = self.number() else {
            return Ok(None);
        };
        let bytes = bytes as usize;
        if bytes > MAX_BYTES {
            let limit = MAX_BYTES;
            return Err(ProtocolError::TooLong { what, bytes, limit });
        }
        Ok(self.take(bytes))
    }
}
