//! What other programs' use of the CPUs changes: workers that find none free are no help.

use crate::kernel_advice::RECORDING_BESIDE;
use crate::links::percent;
use crate::need::{MIN_GAIN, Need};
use crate::remedy::Facts;
use crate::report::WorkerCount;
use crate::worker_counts::{NEAR_ENOUGH, enough};
use gpustall_trace::Nanos;

impl Facts<'_> {
    /// What would be predicted if others kept no CPU busy, where that is why no step is shorter.
    pub(crate) fn if_free(&self) -> Option<&WorkerCount> {
        let now = enough(&self.counts)?.predicted_step_ns as f64;
        let free = enough(&self.counts_if_free)?;
        (free.predicted_step_ns as f64 <= now * (1.0 - NEAR_ENOUGH)).then_some(free)
    }

    /// `other programs (gpustall's sidecar included) keep 1.2 of the 2 CPUs that this job may use busy`: only
    /// the sidecar counts it, and it is one of them.
    pub(crate) fn others_keep(&self) -> String {
        format!(
            "other programs (gpustall's sidecar included) keep {:.1} of {} that this job may use busy",
            self.taken_cpus,
            self.the_cpus()
        )
    }

    /// `the 4 CPUs`, or `the one CPU`.
    pub(crate) fn the_cpus(&self) -> String {
        match self.cpus {
            1 => "the one CPU".to_owned(),
            cpus => format!("the {cpus} CPUs"),
        }
    }

    /// `more CPUs than the 4`, or `more than the one CPU`.
    pub(crate) fn more_cpus(&self) -> String {
        match self.cpus {
            1 => "more than the one CPU".to_owned(),
            cpus => format!("more CPUs than the {cpus}"),
        }
    }

    /// What to change where workers wait for a CPU, and more of them are predicted to gain all the same;
    /// `set` says how to have so many.
    pub(crate) fn more_although_contended(
        &self,
        set: &str,
        need: &Need,
        then: &WorkerCount,
        share: f64,
    ) -> String {
        let who = match self.kernel.foreign_holder() {
            Some(who) => format!(" {who} had the CPU meanwhile: stop it, or move it elsewhere."),
            None if self.kernel.by_recording() => RECORDING_BESIDE.to_owned(),
            None => String::new(),
        };
        format!(
            "{set}: a step {} is predicted, although the workers were ready to run and waited for a CPU \
             for {} of their time in a batch; {}.{who}",
            then.in_words(),
            percent(share),
            need.cost()
        )
    }

    /// What to change where workers would help if others kept no CPU busy; `set` says how to have so many.
    pub(crate) fn free_first(&self, need: &Need, set: impl Fn(u64) -> String) -> Option<String> {
        let free = self.if_free()?;
        let gains = Nanos::new(free.predicted_step_ns).share_of(self.step?) <= MIN_GAIN;
        gains.then(|| {
            format!(
                "free the CPUs first: {}, and with that no number of workers is predicted to make a step \
                 much shorter. On free CPUs {} is predicted to give a step {}: {}",
                self.others_keep(),
                set(free.workers),
                free.in_words(),
                need.cost()
            )
        })
    }
}
