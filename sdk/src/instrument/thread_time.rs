//! How the kernel says a thread spent its time: on a CPU, or waiting for one.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// CPU time of the calling thread in nanoseconds. A system call: once a batch, not an item.
pub(crate) fn cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    (t.tv_sec as u64) * 1_000_000_000 + t.tv_nsec as u64
}

/// Nanoseconds in which the calling thread was ready to run and waited for a CPU, since it began.
/// `None` where the kernel does not count them. About a microsecond.
pub(crate) fn runnable_ns() -> Option<u64> {
    thread_local! {
        /// Kept open: it goes on speaking of the thread that opened it.
        static SCHEDSTAT: RefCell<Option<File>> = const { RefCell::new(None) };
    }
    SCHEDSTAT
        .try_with(|file| {
            let mut file = file.try_borrow_mut().ok()?;
            if file.is_none() {
                *file = File::open("/proc/thread-self/schedstat").ok();
            }
            let mut text = [0; 64];
            let length = file.as_ref()?.read_at(&mut text, 0).ok()?;
            parse_run_delay(text.get(..length)?)
        })
        .ok()
        .flatten()
}

/// The second of the three numbers.
fn parse_run_delay(schedstat: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(schedstat).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_delay_is_the_second_number() {
        assert_eq!(parse_run_delay(b"2130958 41203 17\n"), Some(41203));
        assert_eq!(parse_run_delay(b""), None);
    }

    #[test]
    fn work_takes_cpu_time() {
        let before = cpu_ns();
        let mut sum = 0u64;
        while cpu_ns() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_ns() > before);
    }
}
