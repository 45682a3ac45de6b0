//! A finding as text: its chain, indented, and what to do.

use super::wrap::paragraph;
use crate::links::percent;
use crate::piece::Edge;
use crate::report::{Finding, Link, Stall, StallState, WorkerCount};
use crate::state_links::RUNNING;
use crate::worker_counts::{NO_SHORTER, in_words};
use gpustall_trace::{Nanos, TraceTime};
use std::fmt::{self, Write};

/// Pieces of a stall below this share of it are not printed.
const SMALLEST_PIECE: f64 = 0.01;

/// The finding of this number, the first one being 1.
pub(super) fn write(f: &mut String, number: usize, findings: &[Finding]) -> fmt::Result {
    let Some((finding, before)) = findings.get(..number).and_then(<[_]>::split_last) else {
        return Ok(());
    };
    let lost = Nanos::new(finding.lost_ns);
    let of = finding.loader.as_ref().map_or(String::new(), |loader| {
        format!(" at {}`{loader}`", finding.loader_noun())
    });
    writeln!(f)?;
    let head = format!(
        "{} {}{of}: {} of the window, {lost}",
        finding.severity,
        finding.cause,
        percent(finding.share),
    );
    paragraph(f, &format!("{number}. "), "   ", &head)?;
    for (i, link) in finding.chain.iter().enumerate() {
        let before = finding.chain.iter().take(i);
        let above = before.rev().find(|above| above.depth < link.depth);
        fmt_link(f, link, above)?;
    }
    if let Some(worst) = finding.worst.first() {
        paragraph(f, "   worst: ", "     ", &worst_stall(worst))?;
    }
    if !finding.remedy.is_empty() {
        paragraph(f, "   try: ", "     ", &finding.remedy)?;
    }
    if let Some(line) = worth(finding) {
        paragraph(f, "   worth: ", "     ", &line)?;
    }
    // Findings of one loader have the same counts.
    let told = before
        .iter()
        .any(|other| other.worker_counts == finding.worker_counts);
    if !finding.worker_counts.is_empty() && !told {
        let mut line = in_words(&finding.worker_counts);
        if !finding.worker_counts_assume.is_empty() {
            line = format!("{line}; {}", finding.worker_counts_assume);
        }
        paragraph(f, "   step by workers: ", "     ", &line)?;
    }
    if !finding.caveat.is_empty() {
        paragraph(f, "   but: ", "     ", &finding.caveat)?;
    }
    Ok(())
}

/// What the remedy is worth; where it names workers, also what the whole loss is.
fn worth(finding: &Finding) -> Option<String> {
    let (step, predicted) = finding.step_ns.zip(finding.predicted_step_ns)?;
    let time = Nanos::new;
    let best = finding.step_without_loss_ns.unwrap_or(predicted);
    let if_gone = finding.without_loss_assumption.as_str();
    let assumption = finding.assumption.as_str();
    let mut counts = finding.worker_counts.iter();
    let open = counts.find(|of| of.at_most_step_ns.is_some() && of.predicted_step_ns == predicted);
    let then = open.map_or_else(|| format!("of {}", time(predicted)), WorkerCount::in_words);
    let change = format!("a step {then} instead of {} ({assumption})", time(step));
    if if_gone.is_empty() || if_gone == assumption {
        return Some(format!("at best {change}"));
    }
    // What is not visibly shorter is no news.
    let shorter = best as f64 <= predicted as f64 * (1.0 - NO_SHORTER);
    let (condition, _) = if_gone.split_once(';').unwrap_or((if_gone, ""));
    Some(match shorter {
        true => format!("{change}; at best {} ({condition})", time(best)),
        false => change,
    })
}

/// Who did it is left out where it is the one that the link hangs on.
fn fmt_link(f: &mut String, link: &Link, above: Option<&Link>) -> fmt::Result {
    let depth = usize::try_from(link.depth).unwrap_or(0).min(8);
    let arrow = if depth == 0 { "" } else { "<- " };
    let indent = "   ".repeat(depth + 1);
    let mut line = match above {
        Some(above) if above.who == link.who => link.what.clone(),
        _ => format!("{} {}", link.who, link.what),
    };
    // The loss of the first link is the finding's, which stands above it.
    if depth > 0 {
        let ns = Nanos::new(link.ns);
        write!(line, ": {ns} ({})", percent(link.share))?;
    }
    if link.edge == Edge::Inferred {
        line.push_str(", inferred");
    }
    if !link.evidence.is_empty() {
        let mark = if depth == 0 { ":" } else { ";" };
        write!(line, "{mark} {}", link.evidence)?;
    }
    paragraph(
        f,
        &format!("{indent}{arrow}"),
        &format!("{indent}     "),
        &line,
    )
}

fn worst_stall(stall: &Stall) -> String {
    let at = TraceTime::from_nanos(stall.start_ns).since(TraceTime::ZERO);
    let mut line = format!("{} at {at}", Nanos::new(stall.lost_ns));
    if let (Some(epoch), Some(step)) = (stall.epoch, stall.step) {
        line.push_str(&format!(", epoch {epoch} step {step}"));
    }
    if let Some(batch) = stall.batch {
        line.push_str(&format!(", batch {batch}"));
    }
    // What comes again on one thread is added up, in the order in which it came first.
    let mut parts: Vec<(String, u64)> = Vec::new();
    for piece in &stall.pieces {
        let who = piece.who.as_ref();
        let who = who.map_or(String::new(), |who| format!(" on {who}"));
        let what = format!("{}{who}", piece.what);
        match parts.iter_mut().find(|(known, _)| *known == what) {
            Some((_, ns)) => *ns += piece.ns,
            None => parts.push((what, piece.ns)),
        }
    }
    let large = |&&(_, ns): &&(String, u64)| ns as f64 >= SMALLEST_PIECE * stall.lost_ns as f64;
    let pieces = parts.iter().filter(large).take(4);
    let pieces = pieces.map(|(what, ns)| format!("{what} {}", Nanos::new(*ns)));
    let pieces: Vec<String> = pieces.collect();
    if !pieces.is_empty() {
        line = format!("{line}: {}", pieces.join(", "));
    }
    let states: Vec<String> = stall
        .states
        .iter()
        .filter(|state| state.share >= SMALLEST_PIECE)
        .take(3)
        .map(state)
        .collect();
    match states.is_empty() {
        true => line,
        false => format!("{line}; the scheduler: {}", states.join(", ")),
    }
}

/// `worker-0 blocked in futex (futex_wait) 71 % (woken by main 100 %)`; functions stand in the chain.
fn state(state: &StallState) -> String {
    let told = !state.evidence.is_empty() && state.what != RUNNING;
    let evidence = match told {
        true => format!(" ({})", state.evidence),
        false => String::new(),
    };
    format!(
        "{} {} {}{evidence}",
        state.who,
        state.what,
        percent(state.share)
    )
}
