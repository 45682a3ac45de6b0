//! `gpustall open`: a trace in Perfetto, with its story on top.

mod link;
mod serve;
mod view;

use crate::args::OpenArgs;
use crate::carried;
use crate::input::read_trace;
use crate::output::{complain, print};
use anyhow::Context;
use gpustall_diagnose::{annotate, diagnose};
use gpustall_trace::{Trace, write_finished};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Serves the trace until a browser has it, and says (or opens) the address at which it shows.
pub(crate) fn run(args: &OpenArgs) -> anyhow::Result<ExitCode> {
    let outcome = read_trace(&args.trace)?;
    for warning in &outcome.warnings {
        complain("warning", &format!("{}: {warning}", args.trace.display()));
    }
    let mut trace = outcome.trace;
    let folder = tempfile::tempdir().context("no folder for a temporary file")?;
    let label = args.trace.display().to_string();
    let drawn = match carried::current(&trace, &label) {
        Some(_) => args.trace.clone(),
        None => draw(&mut trace, &args.trace, folder.path())?,
    };
    let view = view::of(&trace);
    drop(trace);
    let server = serve::Server::on(args.port, &drawn, &args.ui)?;
    let link = link::link(&args.ui, server.address(), &view);
    print(&link)?;
    if args.no_browser || !has_display() {
        // Beside the address, which a script may take.
        complain(
            "open it",
            &format!(
                "in a browser on this machine, or on yours after `ssh -L {0}:127.0.0.1:{0} THIS_MACHINE`; this command ends when the browser has the trace",
                server.port()
            ),
        );
    } else if let Err(error) = open::that_detached(&link) {
        complain(
            "warning",
            &format!("no browser could be opened ({error}): open the address above"),
        );
    }
    server
        .until_fetched()
        .context("the trace could not be served")?;
    Ok(ExitCode::SUCCESS)
}

/// Draws the starvation chains into a trace that has none, a partial one or one of PyTorch's profiler, or those
/// of other rules, and writes it into `folder`.
fn draw(trace: &mut Trace, path: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let report = diagnose(trace);
    annotate(trace, &report);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(".gz").trim_end_matches(".partial");
    let drawn = folder.join(format!("{name}.gz"));
    write_finished(&drawn, trace).with_context(|| format!("cannot write {}", drawn.display()))?;
    Ok(drawn)
}

/// Whether a browser that is opened here is seen by anybody.
fn has_display() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    set("DISPLAY") || set("WAYLAND_DISPLAY")
}
