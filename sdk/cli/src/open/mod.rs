//! `gpustall open`: a trace in Perfetto, with its story on top.

mod link;
mod serve;
mod view;

use crate::args::OpenArgs;
use crate::output::{complain, print};
use anyhow::Context;
use gpustall_trace::read_any;
use std::process::ExitCode;

/// Serves the trace until a browser has it, and says (or opens) the address at which it shows.
pub(crate) fn run(args: &OpenArgs) -> anyhow::Result<ExitCode> {
    let outcome = read_any(&args.trace)?;
    for warning in &outcome.warnings {
        complain("warning", &format!("{}: {warning}", args.trace.display()));
    }
    let view = view::of(&outcome.trace);
    drop(outcome);
    let server = serve::Server::of(&args.trace, &args.ui)?;
    let link = link::link(&args.ui, server.address(), &view);
    print(&link)?;
    if args.no_browser || !has_display() {
        print(concat!(
            "Open this address in a browser on this machine, or on yours after\n",
            "    ssh -L 9001:127.0.0.1:9001 THIS_MACHINE\n",
            "This command ends when the browser has the trace."
        ))?;
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

/// Whether a browser that is opened here is seen by anybody.
fn has_display() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    set("DISPLAY") || set("WAYLAND_DISPLAY")
}
