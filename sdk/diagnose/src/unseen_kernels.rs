//! Stretches in which kernels were launched and none was recorded: of the device nothing is known then, least of
//! all that it was idle. CUPTI was seen to report every call and every copy of a program, and no kernel.

use crate::id_map::IdMap;
use crate::partition::without;
use crate::timeline::Timeline;
use gpustall_trace::{Interval, Nanos, Symbol, TraceTime};

/// So many launches without any kernel are no accident. Fewer may have been submitted as a recording ends.
pub const MIN_UNSEEN_LAUNCHES: u64 = 200;

/// Launches without kernels.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnseenKernels {
    launches: u64,
    /// When, disjoint and in order.
    stretches: Vec<Interval>,
    /// No kernel was recorded at any other time.
    none: bool,
}

/// What a slice says of this.
#[derive(Clone, Copy, PartialEq)]
enum Says {
    Nothing,
    Kernel,
    Launch,
    /// Launches may go into a graph, which runs later, or never.
    Graph,
}

/// What was seen in one stretch.
#[derive(Clone, Copy, Default)]
struct Seen {
    kernels: u64,
    launches: u64,
    graphs: u64,
}

impl UnseenKernels {
    /// Looks at each stretch between two pauses. Nothing is said of a trace of several processes.
    pub(crate) fn of(timeline: &Timeline<'_>) -> Self {
        let names = &timeline.names.cat;
        let trace = timeline.trace;
        if trace.meta.members.len() > 1 || (names.cuda_driver.or(names.cuda_runtime)).is_none() {
            return Self::default();
        }
        let all = [Interval::new(TraceTime::ZERO, timeline.end)];
        let stretches = without(&all, &timeline.pauses);
        let mut seen = vec![Seen::default(); stretches.len()];
        let mut kinds: IdMap<Symbol, Says> = IdMap::default();
        let mut none = true;
        for slice in &trace.slices {
            let cat = Some(slice.cat);
            let says = if cat == names.kernel {
                Says::Kernel
            } else if cat == names.cuda_driver || cat == names.cuda_runtime {
                let says = || call(trace.text(slice.name));
                *kinds.entry(slice.name).or_insert_with(says)
            } else {
                Says::Nothing
            };
            if says == Says::Nothing {
                continue;
            }
            none &= says != Says::Kernel;
            // A kernel may begin long after its launch: it is of the last stretch that began before it.
            let start = slice.span.start;
            let began = stretches.partition_point(|of| of.start <= start);
            let of = stretches.get(began.wrapping_sub(1));
            let counts = says == Says::Kernel || of.is_some_and(|of| of.contains(start));
            let Some(seen) = seen.get_mut(began.wrapping_sub(1)).filter(|_| counts) else {
                continue;
            };
            match says {
                Says::Kernel => seen.kernels += 1,
                Says::Launch => seen.launches += 1,
                Says::Graph => seen.graphs += 1,
                Says::Nothing => {}
            }
        }
        let mut unseen = Self {
            none,
            ..Self::default()
        };
        for (stretch, seen) in stretches.into_iter().zip(seen) {
            if seen.kernels == 0 && seen.graphs == 0 && seen.launches >= MIN_UNSEEN_LAUNCHES {
                unseen.launches += seen.launches;
                unseen.stretches.push(stretch);
            }
        }
        unseen
    }

    /// How many kernels were launched, where all of the recording says nothing of devices.
    pub(crate) fn everywhere(&self) -> Option<u64> {
        (self.none && !self.stretches.is_empty()).then_some(self.launches)
    }

    /// When devices say nothing, while they do at other times: to be left out as if recording had paused.
    pub(crate) fn pauses(&self) -> &[Interval] {
        match self.none {
            true => &[],
            false => &self.stretches,
        }
    }

    /// What the report says of it.
    pub(crate) fn note(&self) -> Option<String> {
        if self.stretches.is_empty() {
            return None;
        }
        let launches = self.launches;
        Some(match self.none {
            true => format!(
                "{launches} launches of kernels were recorded and no kernel, so nothing is said of what \
                 devices did: the time is that of the thread that trains."
            ),
            false => {
                let time: Nanos = self.stretches.iter().map(|of| of.len()).sum();
                format!(
                    "In {time} of the recording {launches} kernels were launched and none was recorded: \
                     that is left out like a pause."
                )
            }
        })
    }
}

/// What a call of this name says.
fn call(name: &str) -> Says {
    if name.contains("Graph") || name.contains("Capture") {
        Says::Graph
    } else if name.contains("Launch") && name.contains("Kernel") {
        Says::Launch
    } else {
        Says::Nothing
    }
}
