//! Who is served, and what it may see.

use super::client::Client;
use super::peer::Peer;
use crate::procfs;
use crate::view::{Namespace, View};
use gpustall_protocol::{Greeting, Hello, PROTOCOL_VERSION};
use gpustall_trace::{Clock, MonoTime, MonotonicClock};

/// Most clients at one time.
const MAX_CLIENTS: usize = 256;

/// Most clients of one user, root excepted, so that nobody keeps the others out.
const MAX_CLIENTS_OF_A_USER: usize = 64;

const ROOT: u32 = 0;

/// A client that is served.
pub(super) struct Admitted {
    /// Start of its trace.
    pub(super) start: MonoTime,
    /// What it may see.
    pub(super) view: View,
}

/// Decides on a greeting.
///
/// # Errors
/// Why the client is refused, a sentence that says what to do.
pub(super) fn admit(
    greeting: &Greeting,
    peer: &Peer,
    others: &[Client],
) -> Result<Admitted, String> {
    let hello = match greeting {
        Greeting::Hello(hello) => hello,
        Greeting::OtherVersion(theirs) => return Err(other_version(*theirs)),
    };
    let served = others.iter().filter(|client| client.is_served());
    let of_user = served.clone().filter(|c| c.peer.user == peer.user);
    if served.count() >= MAX_CLIENTS
        || peer.user != ROOT && of_user.count() >= MAX_CLIENTS_OF_A_USER
    {
        return Err("the sidecar serves too many jobs: end one of them".to_owned());
    }
    let view = view(hello, peer)?;
    let start = MonoTime::from_nanos(hello.start_ns);
    if start > MonotonicClock.now() {
        return Err(
            "the job's clock is not the sidecar's: run both in the same time namespace".to_owned(),
        );
    }
    // Everything that was read of the process was read of the one that connected.
    if !peer.lives() {
        return Err("the process that connected has ended".to_owned());
    }
    Ok(Admitted { start, view })
}

fn other_version(theirs: u32) -> String {
    format!(
        "the job speaks version {theirs} of the protocol and the sidecar (gpustall {}) version \
         {PROTOCOL_VERSION}: install the same version of gpustall for both",
        env!("CARGO_PKG_VERSION")
    )
}

fn view(hello: &Hello, peer: &Peer) -> Result<View, String> {
    let status = procfs::status(peer.pid, peer.pid)
        .ok_or("the sidecar does not see the job's process: run it in the host's pid namespace")?;
    let level = status.level();
    // A child that uses the connection of its parent, or asks for a process that is not its own.
    if status.ids_at(level).map(|(pid, _)| pid) != Some(hello.pid) {
        return Err(format!(
            "process {} did not connect itself: a job gets its own events only",
            hello.pid
        ));
    }
    if peer.user != ROOT && !status.belongs_to(peer.user) {
        return Err(format!(
            "process {} has the rights of more than user {}: run the job as one user, or the \
             sidecar's `record`",
            hello.pid, peer.user
        ));
    }
    let namespace = match level {
        0 => None,
        level => Some(Namespace {
            level,
            link: procfs::pid_namespace(peer.pid).unwrap_or_default(),
        }),
    };
    let user = (peer.user != ROOT).then_some(peer.user);
    Ok(View { user, namespace })
}
