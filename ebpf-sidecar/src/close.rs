//! Closing the books of a thread when the recording ends.

use gpustall_wire::codes::{class, flag, mode};
use gpustall_wire::thread::ThreadState;

/// A thread's last state, with everything up to the end of the recording in its totals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Closed {
    /// The state; its `totals` are complete.
    pub(crate) state: ThreadState,
    /// Whether the thread was off CPU at the end: the interval that `state` still describes.
    pub(crate) off: bool,
}

/// Accounts what the thread did since its last event until `end_ns`. `now` is its state letter in
/// `/proc` at the end: it decides for threads to which nothing happened during the recording.
/// `None` when such a thread is gone: nothing was measured of it.
pub(crate) fn close(mut state: ThreadState, end_ns: u64, now: Option<char>) -> Option<Closed> {
    let off = match state.mode {
        mode::DEAD => false,
        mode::NEW => {
            state.totals.first_ns = end_ns;
            false
        }
        mode::RUNNING => run(&mut state, end_ns),
        mode::OFF => wait(&mut state, end_ns),
        // Nothing happened to it but perhaps a wake-up: it did one thing all the time.
        _ => {
            let asleep = if state.wake_ns != 0 {
                Some(class::of_state(state.wake_state))
            } else {
                match now? {
                    'R' => None,
                    'D' | 'I' => Some(class::UNINTERRUPTIBLE),
                    'S' => Some(class::SLEEPING),
                    _ => Some(class::STOPPED),
                }
            };
            match asleep {
                None => run(&mut state, end_ns),
                Some(class) => {
                    state.class = class;
                    state.out_ns = state.since_ns;
                    state.flags = flag::TRUNCATED;
                    wait(&mut state, end_ns)
                }
            }
        }
    };
    Some(Closed { state, off })
}

fn run(state: &mut ThreadState, end_ns: u64) -> bool {
    state.totals.on_cpu_ns += end_ns.saturating_sub(state.since_ns);
    false
}

fn wait(state: &mut ThreadState, end_ns: u64) -> bool {
    let split = state.split(end_ns);
    state.add(&split);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpustall_wire::thread::Totals;

    fn thread(mode: u32) -> ThreadState {
        ThreadState {
            mode,
            since_ns: 100,
            out_ns: 100,
            ..ThreadState::default()
        }
    }

    fn totals(state: ThreadState, now: Option<char>) -> Totals {
        close(state, 150, now).expect("closed").state.totals
    }

    #[test]
    fn what_a_thread_did_last_lasts_to_the_end() {
        assert_eq!(totals(thread(mode::RUNNING), None).on_cpu_ns, 50);
        let asleep = ThreadState {
            class: class::SLEEPING,
            wake_ns: 120,
            ..thread(mode::OFF)
        };
        let totals = totals(asleep, None);
        assert_eq!((totals.sleeping_ns, totals.woken_ns), (20, 30));
    }

    #[test]
    fn a_thread_to_which_nothing_happened_did_one_thing() {
        let unknown = thread(mode::UNKNOWN);
        assert_eq!(totals(unknown, Some('R')).on_cpu_ns, 50);
        assert_eq!(totals(unknown, Some('S')).sleeping_ns, 50);
        assert_eq!(totals(unknown, Some('D')).uninterruptible_ns, 50);
        assert_eq!(totals(unknown, Some('t')).stopped_ns, 50);
        assert_eq!(close(unknown, 150, None), None);
    }

    #[test]
    fn a_dead_thread_keeps_its_totals() {
        assert_eq!(totals(thread(mode::DEAD), None), Totals::default());
    }
}
