//! How the run ended, in one sentence: whoever's job died looks for that first.

use crate::job::ENDED;
use crate::report::Fault;
use gpustall_trace::TraceTime;
use std::borrow::Cow;

/// Exit codes above this are those of signals.
const SIGNALS: u8 = 128;

/// What the kernel gives a process that it kills for want of memory, and others too.
const KILLED: u8 = SIGNALS + 9;

/// Python's exception for Ctrl-C.
const INTERRUPT: &str = "KeyboardInterrupt";

/// What the sentence says: who, what, when, and with which exit code. Empty where nothing is known to have gone
/// wrong at the end.
pub(crate) fn ending(faults: &[Fault], exit: Option<u8>) -> String {
    // Where several processes ended so, the others went with the first.
    if let Some(fault) = faults.iter().find(|fault| fault.ended_run) {
        let exit = exit.map_or(String::new(), |code| format!("; {}", exited(code)));
        let how = match fault.message.contains(INTERRUPT) {
            true => "was interrupted",
            false => "ended with an error",
        };
        return format!("the run {how}, {}{exit}", told(fault));
    }
    let Some(code) = exit.filter(|&code| code > 0) else {
        return String::new();
    };
    let how = match code > SIGNALS {
        true => "was ended by a signal",
        false => "ended with an error",
    };
    let why = match faults.last() {
        Some(fault) => format!("what had gone wrong last: {}", told(fault)),
        None if code == KILLED => "out of memory? see dmesg".to_owned(),
        None => "nothing recorded says why".to_owned(),
    };
    format!("the run {how}: {}; {why}", exited(code))
}

/// `main at 340 ms: next() raised an exception`.
fn told(fault: &Fault) -> String {
    let at = TraceTime::from_nanos(fault.at_ns).since(TraceTime::ZERO);
    let stage = fault.stage.as_ref();
    let stage = stage.map_or(String::new(), |stage| format!(" in {stage}"));
    let consequence = match fault.consequence.as_str() {
        "" | ENDED => String::new(),
        other => format!(" ({other})"),
    };
    format!(
        "{}{stage} at {at}: {}{consequence}",
        fault.thread, fault.message
    )
}

/// `exit code 137 (128 + SIGKILL)`.
fn exited(code: u8) -> String {
    let signal = code.checked_sub(SIGNALS).filter(|&signal| signal > 0);
    let signal = signal.map(|number| match number {
        1 => Cow::from("SIGHUP"),
        2 => Cow::from("SIGINT"),
        3 => Cow::from("SIGQUIT"),
        6 => Cow::from("SIGABRT"),
        7 => Cow::from("SIGBUS"),
        8 => Cow::from("SIGFPE"),
        9 => Cow::from("SIGKILL"),
        11 => Cow::from("SIGSEGV"),
        15 => Cow::from("SIGTERM"),
        number => Cow::from(format!("signal {number}")),
    });
    let signal = signal.map_or(String::new(), |name| format!(" (128 + {name})"));
    format!("exit code {code}{signal}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(message: &str, ended_run: bool) -> Fault {
        Fault {
            at_ns: 3_410_000_000,
            thread: "main".to_owned(),
            stage: None,
            message: message.to_owned(),
            consequence: String::new(),
            ended_run,
        }
    }

    #[test]
    fn the_end_is_told_with_who_what_when_and_the_exit() {
        let faults = [fault("worker-1 is late", false), fault("KeyError: 3", true)];
        assert_eq!(
            ending(&faults, Some(1)),
            "the run ended with an error, main at 3.41 s: KeyError: 3; exit code 1"
        );
        let of = [fault("KeyboardInterrupt", true)];
        assert_eq!(
            ending(&of, Some(130)),
            "the run was interrupted, main at 3.41 s: KeyboardInterrupt; exit code 130 (128 + SIGINT)"
        );
        assert_eq!(
            ending(&faults[1..], None),
            "the run ended with an error, main at 3.41 s: KeyError: 3"
        );
    }

    #[test]
    fn an_exit_that_nothing_explains_is_told_too() {
        assert_eq!(ending(&[], None), "");
        assert_eq!(ending(&[fault("worker-1 is late", false)], Some(0)), "");
        assert_eq!(
            ending(&[], Some(3)),
            "the run ended with an error: exit code 3; nothing recorded says why"
        );
        assert_eq!(
            ending(&[], Some(137)),
            "the run was ended by a signal: exit code 137 (128 + SIGKILL); out of memory? see dmesg"
        );
        assert_eq!(
            ending(&[fault("worker-1 is late", false)], Some(1)),
            "the run ended with an error: exit code 1; what had gone wrong last: main at 3.41 s: worker-1 is late"
        );
    }
}
