//! What is printed.

use std::io::{self, ErrorKind, Write};

/// Prints `text` and a line break to standard output.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Tells the user something on standard error, in one line. If nobody listens there, so be it.
pub(crate) fn complain(what: &str, text: &str) {
    let text = clean(text, usize::MAX);
    let _ = writeln!(io::stderr(), "{what}: {text}");
}

/// Text of a file as a terminal may see it: control characters are blanks, and what is longer than `most`
/// characters is cut.
pub(crate) fn clean(text: &str, most: usize) -> String {
    let text = text.trim();
    let cut = text.chars().nth(most).is_some();
    let shown = text.chars().take(most.saturating_sub(usize::from(cut)));
    let blank = |c: char| if c.is_control() { ' ' } else { c };
    shown.map(blank).chain(cut.then_some('~')).collect()
}

/// Whether the reader of our output went away, as `head` does: not an error.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

/// An error and its causes; a cause that the text before already says is not said again.
pub(crate) fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}
