//! From a path to a sidecar that serves this session.

use gpustall_protocol::{Hello, PROTOCOL_VERSION, Reply};
use gpustall_trace::MonoTime;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A sidecar that has not answered after this will not.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How long one read waits, so that a session that ends is noticed.
pub(super) const READ_WITHIN: Duration = Duration::from_millis(100);

const START: &str = "start it with `sudo gpustall-sidecar serve`";

/// Connects and says hello; returns the socket and what came after the welcome. `wanted` says
/// whether it is still of use.
///
/// # Errors
/// A sentence for the user.
pub(super) fn connect(
    path: &Path,
    start: MonoTime,
    wanted: impl Fn() -> bool,
) -> Result<(UnixStream, Vec<u8>), String> {
    let shown = path.display();
    let none = |why: &str| format!("no kernel events: {why}");
    let mut socket = UnixStream::connect(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => none(&format!("no sidecar serves at {shown}; {START}")),
        ErrorKind::ConnectionRefused => none(&format!("the sidecar at {shown} has ended; {START}")),
        ErrorKind::PermissionDenied => none(&format!(
            "no permission to connect to the sidecar at {shown}; join the group of that socket, or \
             serve with `--socket-mode 666`"
        )),
        _ => none(&format!("cannot connect to {shown}: {error}; {START}")),
    })?;
    let hello = Hello {
        pid: std::process::id(),
        start_ns: start.as_nanos(),
        release: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let silent = || {
        none(&format!(
            "the sidecar at {shown} did not answer; look at what it prints, or restart it"
        ))
    };
    let timeouts = socket
        .set_read_timeout(Some(READ_WITHIN))
        .and_then(|()| socket.set_write_timeout(Some(READ_WITHIN)))
        .and_then(|()| socket.write_all(&hello.encode()));
    // One that refuses may have closed before it was written to: its answer is there all the same.
    if timeouts.is_err_and(|error| error.kind() != ErrorKind::BrokenPipe) {
        return Err(silent());
    }
    let until = Instant::now() + ANSWER_WITHIN;
    let (mut received, mut bytes) = (Vec::new(), [0; 4096]);
    while Instant::now() < until && wanted() {
        match socket.read(&mut bytes) {
            Ok(0) => return Err(silent()),
            Ok(count) => received.extend_from_slice(&bytes[..count]),
            Err(error) if waits(&error) => continue,
            Err(_) => return Err(silent()),
        }
        let reply = Reply::parse(&received).map_err(|error| none(&format!("{error} ({shown})")))?;
        if let Some((reply, length)) = reply {
            return match reply {
                Reply { version, .. } if version != PROTOCOL_VERSION => Err(none(&format!(
                    "the sidecar at {shown} speaks version {version} of the protocol and this \
                     program version {PROTOCOL_VERSION}; install the same version of gpustall for both"
                ))),
                Reply {
                    refused: Some(why), ..
                } => Err(none(&format!("the sidecar at {shown} refused: {why}"))),
                _ => Ok((socket, received.split_off(length))),
            };
        }
    }
    Err(silent())
}

/// Whether a read found nothing yet.
pub(super) fn waits(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
