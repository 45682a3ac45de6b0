//! What a session will do, before it starts.

use super::{Active, RUNNING, SWITCH, Session};
use crate::error::SessionError;
use crate::recorder::writer::DEFAULT_MAX_EVENTS;
use crate::sidecar::Sidecar;
use std::path::PathBuf;

/// Describes a session called `name`; [`start`](SessionBuilder::start) begins it.
///
/// ```no_run
/// let session = gpustall::session("mlp").output("mlp.trace.json.gz").start()?;
/// // ... train ...
/// println!("{}", session.finish()?);
/// # Ok::<(), gpustall::SessionError>(())
/// ```
pub fn session(name: impl Into<String>) -> SessionBuilder {
    let name = name.into();
    SessionBuilder {
        output: PathBuf::from(format!("{}.trace.json.gz", file_stem(&name))),
        name,
        subscriber: true,
        item_sampling: 0,
        max_events: DEFAULT_MAX_EVENTS,
        sidecar: Sidecar::Auto,
    }
}

/// What a session will do. Made by [`session`].
#[derive(Debug, Clone)]
pub struct SessionBuilder {
    pub(super) name: String,
    pub(super) output: PathBuf,
    pub(super) subscriber: bool,
    pub(super) item_sampling: u32,
    pub(super) max_events: u64,
    pub(super) sidecar: Sidecar,
}

impl SessionBuilder {
    /// Where the trace goes: gzip if the name ends in `.gz`, plain otherwise. The default is the
    /// session's name with `.trace.json.gz`, in the current directory. While the session runs,
    /// the file beside it that ends in `.json.partial` grows.
    pub fn output(mut self, path: impl Into<PathBuf>) -> Self {
        self.output = path.into();
        self
    }

    /// Whether to install a global `tracing` subscriber when there is none (default: yes).
    ///
    /// Choose `false` when something that starts later installs its own, such as the experiment
    /// log of burn-train's learner; `#[instrument]` spans are then recorded only if that
    /// subscriber has [`layer()`](crate::layer()) in it. Loaders, phases and direct spans never
    /// need one.
    pub fn subscriber(mut self, install: bool) -> Self {
        self.subscriber = install;
        self
    }

    /// Records every `every`th read of an item from an instrumented data set as a slice of its
    /// own, counted per thread; 0 (the default) records none.
    pub fn sample_items(mut self, every: u32) -> Self {
        self.item_sampling = every;
        self
    }

    /// How many events to keep ([`DEFAULT_MAX_EVENTS`] unless set). User spans beyond it are
    /// dropped and counted; waits, stages and steps go on for as many again, and events of the
    /// sidecar have as many of their own. It bounds the disk
    /// space of the recording (about 135 bytes an event) and the memory of
    /// [`finish`](Session::finish) (about 300).
    pub fn max_events(mut self, events: u64) -> Self {
        self.max_events = events;
        self
    }

    /// Whether to take kernel events from a sidecar, and where it listens (default:
    /// [`Sidecar::Auto`]). With `GPUSTALL_SIDECAR` in the environment, `off` or the path of a
    /// socket, that decides. A note in the trace says why there are no kernel events.
    pub fn sidecar(mut self, sidecar: Sidecar) -> Self {
        self.sidecar = sidecar;
        self
    }

    /// Starts recording.
    ///
    /// With `GPUSTALL=off` in the environment the session records nothing and succeeds.
    ///
    /// # Errors
    ///
    /// [`SessionError::AlreadyRunning`] if this process has a session, and
    /// [`SessionError::Output`] if the trace file cannot be created.
    pub fn start(self) -> Result<Session, SessionError> {
        if switched_off() {
            return Ok(Session { active: None });
        }
        let mut running = RUNNING.lock();
        if let Some(running) = &*running {
            return Err(SessionError::AlreadyRunning {
                running: running.clone(),
            });
        }
        let active = Active::start(self)?;
        *running = Some(active.meta.name.clone());
        Ok(Session {
            active: Some(active),
        })
    }
}

fn switched_off() -> bool {
    std::env::var(SWITCH).is_ok_and(|value| {
        matches!(
            value.to_ascii_lowercase().as_str(),
            "off" | "0" | "false" | "no"
        )
    })
}

/// `name` as a file name: what would separate directories becomes `_`.
fn file_stem(name: &str) -> String {
    let stem: String = name
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    if stem.is_empty() {
        "gpustall".to_owned()
    } else {
        stem
    }
}
