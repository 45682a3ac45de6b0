//! What a trace lacks, and how it says so: losses as counts, everything else as a note, once.

use crate::CaptureError;
use crate::capture::LOSS_SOURCE;
use crate::emit::EventSink;
use gpustall_trace::{EventRef, MonoTime, TraceTime};

/// What was not recorded.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// Records and calls that were lost.
    pub(crate) dropped: u64,
    /// CUPTI handed out what could not be read.
    pub(crate) unreadable: bool,
    /// Launches of the first window in which no kernel came.
    unanswered: Option<u64>,
    ended: Option<Ended>,
    told: Told,
}

/// From when on nothing is captured, and why.
#[derive(Debug)]
struct Ended {
    at: MonoTime,
    why: CaptureError,
}

/// What the trace has of it.
#[derive(Debug, Default)]
struct Told {
    dropped: u64,
    unfinished: u64,
    unanswered: bool,
    ended: bool,
}

impl Missing {
    /// From `at` on nothing is captured any more. [`CaptureError::Held`]: another profiler has CUPTI. The first
    /// reason stands.
    pub(crate) fn ends(&mut self, at: MonoTime, why: CaptureError) {
        self.ended.get_or_insert(Ended { at, why });
    }

    /// Whether nothing is captured any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether that is news to the trace.
    pub(crate) fn is_news(&self) -> bool {
        self.has_ended() && !self.told.ended
    }

    /// In a window kernels were launched and none came.
    pub(crate) fn unanswered(&mut self, launches: u64) {
        self.unanswered.get_or_insert(launches);
    }

    /// Writes what is new, at `now`; `time` gives times of the trace. `unfinished` operations had no times.
    pub(crate) fn write(
        &mut self,
        now: MonoTime,
        unfinished: u64,
        time: impl Fn(MonoTime) -> TraceTime,
        sink: &mut dyn EventSink,
    ) {
        let at = time(now);
        let losses = [
            (LOSS_SOURCE, self.dropped, &mut self.told.dropped),
            (
                "operations without times",
                unfinished,
                &mut self.told.unfinished,
            ),
        ];
        for (source, total, told) in losses {
            if *told != total {
                *told = total;
                sink.push(&EventRef::Loss { source, at, total });
            }
        }
        if let Some(Ended { at, why }) = &self.ended
            && !std::mem::replace(&mut self.told.ended, true)
        {
            let seconds = time(*at).as_nanos() as f64 / 1e9;
            note(&end(seconds, why), sink);
        }
        if let Some(launches) = self.unanswered
            && !std::mem::replace(&mut self.told.unanswered, true)
        {
            let text = format!(
                "CUPTI reported {launches} launches in a row and no kernel: unless they were captured into a \
                 graph, device time is missing. Capture the job whole (a budget of `all`)."
            );
            note(&text, sink);
        }
        if std::mem::take(&mut self.unreadable) {
            let text =
                "CUPTI handed out records that could not be read; some operations are missing.";
            note(text, sink);
        }
    }
}

fn note(text: &str, sink: &mut dyn EventSink) {
    sink.push(&EventRef::Note { text });
}

fn end(seconds: f64, why: &CaptureError) -> String {
    match why {
        CaptureError::Held => format!(
            "Another profiler (nsys, torch.profiler...) took CUPTI after {seconds:.1} s: from then on device \
             operations were not recorded. Run one of them at a time."
        ),
        why => format!("From {seconds:.1} s on {why}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Sink(Vec<String>);

    impl EventSink for Sink {
        fn push(&mut self, event: &EventRef<'_>) {
            self.0.push(match event {
                EventRef::Note { text } => (*text).to_owned(),
                EventRef::Loss { source, total, .. } => format!("{source}: {total}"),
                _ => "something else".to_owned(),
            });
        }
    }

    fn written(missing: &mut Missing, unfinished: u64) -> Vec<String> {
        let mut sink = Sink::default();
        let time = |at: MonoTime| at.in_trace(MonoTime::from_nanos(0));
        missing.write(
            MonoTime::from_nanos(9_000_000_000),
            unfinished,
            time,
            &mut sink,
        );
        sink.0
    }

    #[test]
    fn each_is_told_once_and_losses_as_they_grow() {
        let mut missing = Missing::default();
        assert!(written(&mut missing, 0).is_empty());
        missing.dropped = 3;
        missing.unreadable = true;
        missing.unanswered(200);
        missing.unanswered(900);
        let first = written(&mut missing, 1);
        assert_eq!(first.len(), 4, "{first:?}");
        assert_eq!(first[..2], ["CUPTI: 3", "operations without times: 1"]);
        assert!(first[2].contains("200 launches"), "{first:?}");
        missing.dropped = 5;
        missing.unanswered(300);
        assert_eq!(written(&mut missing, 1), ["CUPTI: 5"]);
    }

    #[test]
    fn the_first_reason_for_the_end_is_told_with_its_time() {
        let at = MonoTime::from_nanos;
        let mut missing = Missing::default();
        missing.ends(at(2_500_000_000), CaptureError::Held);
        missing.ends(at(3_000_000_000), CaptureError::NoCupti);
        assert!(missing.is_news() && missing.has_ended());
        let told = written(&mut missing, 0);
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("took CUPTI after 2.5 s"), "{told:?}");
        assert!(!missing.is_news() && written(&mut missing, 0).is_empty());

        let mut refused = Missing::default();
        let (call, name) = ("cuptiActivityEnable", "CUPTI_ERROR_UNKNOWN".to_owned());
        let why = CaptureError::Refused {
            call,
            name,
            code: 999,
        };
        refused.ends(at(1_000_000_000), why);
        let told = written(&mut refused, 0);
        assert!(
            told[0].starts_with("From 1.0 s on device operations were not recorded: CUPTI refused")
        );
    }
}
