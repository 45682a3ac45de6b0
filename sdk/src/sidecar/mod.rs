//! Kernel events from the sidecar, into the session's own recording.
//!
//! ```text
//! sidecar ── socket ── reader thread ── inbox ── writer thread ── x.json.partial
//! ```
//!
//! The training threads have no part in it. The inbox is bounded: when the writer falls behind, the
//! reader stops reading, and the sidecar holds events back, drops and counts them. Whatever
//! becomes of the sidecar, the session goes on, and a note in the trace says what became of it.

mod connect;
mod inbox;
mod kernel_events;
mod reader;

pub(crate) use kernel_events::KernelEvents;

use gpustall_protocol::{DEFAULT_SOCKET, SOCKET_VARIABLE};
use gpustall_trace::MonoTime;
use inbox::Inbox;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Environment variable that decides over every session: `off`, or the path of a socket.
const VARIABLE: &str = "GPUSTALL_SIDECAR";

/// How long the start of a session waits for the sidecar. One that answers later is still used.
pub const SIDECAR_START_WITHIN: Duration = Duration::from_millis(300);

/// How long the end of a session waits for the sidecar's last events.
pub const SIDECAR_END_WITHIN: Duration = Duration::from_secs(1);

/// Whether a session looks for a sidecar, and where.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Sidecar {
    /// At the usual socket: the one in `GPUSTALL_SOCKET`, or `/run/gpustall/sidecar.sock`.
    #[default]
    Auto,
    /// The session has no kernel events.
    Off,
    /// At this socket.
    Path(PathBuf),
}

impl Sidecar {
    /// The socket to connect to, by this setting or by what the environment has in its place.
    fn socket(self) -> Option<PathBuf> {
        let from_environment = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let setting = match from_environment {
            Some(value) if is_off(&value.to_string_lossy()) => Self::Off,
            Some(value) => Self::Path(value.into()),
            None => self,
        };
        match setting {
            Self::Off => None,
            Self::Path(path) => Some(path),
            Self::Auto => {
                let usual = std::env::var_os(SOCKET_VARIABLE).filter(|value| !value.is_empty());
                Some(usual.unwrap_or_else(|| DEFAULT_SOCKET.into()).into())
            }
        }
    }
}

fn is_off(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    matches!(value.as_str(), "off" | "0" | "false" | "no")
}

/// A session's connection to the sidecar; begun, refused, broken or well.
#[derive(Debug)]
pub(crate) struct Connection {
    inbox: Arc<Inbox>,
    /// The process that made it: a child that was forked has it too, and must leave it alone.
    owner: u32,
}

impl Connection {
    /// Begins to connect, unless that is switched off.
    pub(crate) fn begin(setting: Sidecar, start: MonoTime) -> Option<Self> {
        let path = setting.socket()?;
        let inbox = Arc::new(Inbox::new(start));
        let reader = inbox.clone();
        let thread = std::thread::Builder::new().name("gpustall-kernel".into());
        if let Err(error) = thread.spawn(move || reader::run(&path, &reader)) {
            inbox.end(Some(format!(
                "no kernel events: the thread that reads them cannot be started ({error}); raise \
                 `ulimit -u`"
            )));
        }
        let owner = std::process::id();
        Some(Self { inbox, owner })
    }

    /// What the writer thread takes out.
    pub(crate) fn events(&self, max_events: u64) -> KernelEvents {
        KernelEvents::new(self.inbox.clone(), max_events)
    }

    /// Waits until the sidecar has begun to record, or will not, or it takes too long.
    pub(crate) fn wait_for_the_start(&self) {
        self.inbox.wait_for_answer(SIDECAR_START_WITHIN);
    }

    /// Has the sidecar send its last events, and waits for them, but not for long.
    pub(crate) fn finish(self) {
        self.inbox.say_goodbye();
        self.inbox.wait_for_end(SIDECAR_END_WITHIN);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.owner == std::process::id() {
            self.inbox.abandon();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_off_are_not_paths() {
        for word in ["off", "OFF", "0", "no", "false"] {
            assert!(is_off(word), "{word}");
        }
        assert!(!is_off("/run/off"));
        assert_eq!(Sidecar::Off.socket(), None);
        let path = PathBuf::from("/x");
        assert_eq!(Sidecar::Path(path.clone()).socket(), Some(path));
    }
}
