//! How the run ended, in one sentence: whoever's job died looks for that first.

use crate::job::ENDED;
use crate::report::Fault;
use gpustall_trace::TraceTime;
use std::borrow::Cow;

/// The exit code of a process that a signal ended is this and the signal's number,
const SIGNALS: u8 = 128;

/// which is no larger than this.
const LAST_SIGNAL: u8 = 64;

/// What Ctrl-C sends.
const SIGINT: u8 = 2;

/// What the kernel sends a process that it kills for want of memory, and others too.
const SIGKILL: u8 = 9;

/// What asks a process to end.
const SIGTERM: u8 = 15;

/// Python's exception for Ctrl-C.
const INTERRUPT: &str = "KeyboardInterrupt";

/// What the sentence says: who, what, when, and with which exit code. Empty where nothing is known to have gone
/// wrong at the end. `whole`: nothing that was recorded is missing in the file.
pub(crate) fn ending(faults: &[Fault], exit: Option<u8>, whole: bool) -> String {
    // A program that ends without an error has dealt with what went wrong before.
    if exit == Some(0) {
        return String::new();
    }
    let fault = chosen(faults).map(|chosen| &faults[chosen]);
    let how = match exit.and_then(signal) {
        _ if fault.is_some_and(|fault| fault.message.contains(INTERRUPT)) => "was interrupted",
        Some(SIGINT) => "was interrupted",
        Some(SIGTERM) => "was asked to end",
        Some(_) if fault.is_none() => "was ended by a signal",
        _ => "ended with an error",
    };
    match (fault, exit) {
        (Some(fault), None) => format!("the run {how}, {}", told(fault)),
        (Some(fault), Some(code)) => {
            format!("the run {how}, {}; {}", told(fault), exited(code))
        }
        (None, Some(code)) => format!(
            "the run {how}: {}{}",
            exited(code),
            why(faults, code, whole)
        ),
        (None, None) => String::new(),
    }
}

/// Which of the faults the run ended with. Where several processes ended so, the others went with the first.
pub(crate) fn chosen(faults: &[Fault]) -> Option<usize> {
    faults.iter().position(|fault| fault.ended_run)
}

/// What may be why, where no fault is known to have ended the run. Whoever sends an interrupt knows why.
fn why(faults: &[Fault], code: u8, whole: bool) -> String {
    match (signal(code), faults.last()) {
        (Some(SIGINT | SIGTERM), _) => String::new(),
        (_, Some(fault)) => format!("; what had gone wrong last: {}", told(fault)),
        (Some(SIGKILL), None) => "; out of memory? see dmesg".to_owned(),
        (_, None) if !whole => {
            "; what was recorded of why may be in the part of the file that is damaged".to_owned()
        }
        (_, None) => "; nothing recorded says why".to_owned(),
    }
}

/// The signal that an exit code stands for.
fn signal(code: u8) -> Option<u8> {
    let number = code.checked_sub(SIGNALS)?;
    (1..=LAST_SIGNAL).contains(&number).then_some(number)
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
    let name = signal(code).map(|number| match number {
        1 => Cow::from("SIGHUP"),
        2 => Cow::from("SIGINT"),
        3 => Cow::from("SIGQUIT"),
        4 => Cow::from("SIGILL"),
        5 => Cow::from("SIGTRAP"),
        6 => Cow::from("SIGABRT"),
        7 => Cow::from("SIGBUS"),
        8 => Cow::from("SIGFPE"),
        9 => Cow::from("SIGKILL"),
        10 => Cow::from("SIGUSR1"),
        11 => Cow::from("SIGSEGV"),
        12 => Cow::from("SIGUSR2"),
        13 => Cow::from("SIGPIPE"),
        14 => Cow::from("SIGALRM"),
        15 => Cow::from("SIGTERM"),
        24 => Cow::from("SIGXCPU"),
        25 => Cow::from("SIGXFSZ"),
        27 => Cow::from("SIGPROF"),
        31 => Cow::from("SIGSYS"),
        number => Cow::from(format!("signal {number}")),
    });
    let name = name.map_or(String::new(), |name| format!(" (128 + {name})"));
    format!("exit code {code}{name}")
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
            ending(&faults, Some(1), true),
            "the run ended with an error, main at 3.41 s: KeyError: 3; exit code 1"
        );
        let of = [fault("KeyboardInterrupt", true)];
        assert_eq!(
            ending(&of, Some(130), true),
            "the run was interrupted, main at 3.41 s: KeyboardInterrupt; exit code 130 (128 + SIGINT)"
        );
        assert_eq!(
            ending(&faults[1..], None, true),
            "the run ended with an error, main at 3.41 s: KeyError: 3"
        );
    }

    #[test]
    fn an_exit_that_nothing_explains_is_told_too() {
        assert_eq!(ending(&[], None, true), "");
        assert_eq!(
            ending(&[fault("worker-1 is late", false)], Some(0), true),
            ""
        );
        assert_eq!(
            ending(&[], Some(3), true),
            "the run ended with an error: exit code 3; nothing recorded says why"
        );
        assert_eq!(
            ending(&[], Some(137), true),
            "the run was ended by a signal: exit code 137 (128 + SIGKILL); out of memory? see dmesg"
        );
        assert_eq!(
            ending(&[fault("worker-1 is late", false)], Some(1), true),
            "the run ended with an error: exit code 1; what had gone wrong last: main at 3.41 s: worker-1 is late"
        );
    }

    #[test]
    fn of_a_file_that_is_damaged_it_is_not_said_that_nothing_was_recorded() {
        assert_eq!(
            ending(&[], Some(1), false),
            "the run ended with an error: exit code 1; what was recorded of why may be in the part of the file \
             that is damaged"
        );
    }

    #[test]
    fn a_run_that_ended_without_an_error_is_said_to_have_ended_with_none() {
        let faults = [fault("KeyError: 3", true)];
        assert_eq!(ending(&faults, Some(0), true), "");
        assert_eq!(
            ending(&[fault("KeyboardInterrupt", true)], Some(0), true),
            ""
        );
    }

    #[test]
    fn an_exit_code_is_that_of_a_signal_only_where_there_is_such_a_signal() {
        for (code, told) in [
            (
                192,
                "was ended by a signal: exit code 192 (128 + signal 64)",
            ),
            (193, "ended with an error: exit code 193"),
            (255, "ended with an error: exit code 255"),
            (128, "ended with an error: exit code 128"),
        ] {
            let told = format!("the run {told}; nothing recorded says why");
            assert_eq!(ending(&[], Some(code), true), told);
        }
    }

    #[test]
    fn whoever_interrupts_a_run_or_asks_it_to_end_is_told_no_reason() {
        let old = [fault("worker-1 is late", false)];
        for faults in [&old[..], &[]] {
            assert_eq!(
                ending(faults, Some(130), true),
                "the run was interrupted: exit code 130 (128 + SIGINT)"
            );
            assert_eq!(
                ending(faults, Some(143), true),
                "the run was asked to end: exit code 143 (128 + SIGTERM)"
            );
        }
        let of = [fault("worker-0 was killed by SIGTERM", true)];
        assert_eq!(
            ending(&of, Some(143), true),
            "the run was asked to end, main at 3.41 s: worker-0 was killed by SIGTERM; exit code 143 (128 + SIGTERM)"
        );
    }
}
