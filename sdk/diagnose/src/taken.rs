//! What other programs' use of the CPUs changes: workers that find none free are no help.

use crate::cause::DATA_COMPUTE_MIN_CPU_SHARE;
use crate::kernel_advice::RECORDING_BESIDE;
use crate::links::percent;
use crate::loaders::LoaderFacts;
use crate::need::{MIN_GAIN, Need};
use crate::remedy::Facts;
use crate::report::WorkerCount;
use crate::worker_counts::{NEAR_ENOUGH, enough};
use crate::workers::{CONTENDED_MIN_RUNNABLE_SHARE, CONTENDED_MIN_WINDOW_SHARE};
use gpustall_trace::Nanos;

impl Facts<'_> {
    /// CPUs that the threads got which take batches and make them themselves, where none was free for a
    /// worker: they waited for one for much of that time, or the job has none beside theirs.
    pub(crate) fn got(&self) -> Option<f64> {
        let loader = self.loader.filter(|_| self.in_process)?;
        let waited = loader.starved()?;
        let takers = self.takers.max(1) as f64;
        let none = waited >= CONTENDED_MIN_RUNNABLE_SHARE || f64::from(self.cpus) <= takers;
        let (ran, ready) = loader.production_cpu.zip(loader.production_ready)?;
        let wanted = ran + ready;
        let got = (ran.share_of(wanted) * takers).min(f64::from(self.cpus));
        (none && ran > Nanos::ZERO).then_some(got)
    }

    /// CPUs that others keep busy: as it was counted, or else what threads that wait for one do not get.
    pub(crate) fn taken(&self) -> f64 {
        let got = self.got().map(|got| f64::from(self.cpus) - got);
        self.taken_cpus.or(got).unwrap_or(0.0).max(0.0)
    }

    /// What would be predicted if others kept no CPU busy, where that is why no step is shorter.
    pub(crate) fn if_free(&self) -> Option<&WorkerCount> {
        let now = enough(&self.counts)?.predicted_step_ns as f64;
        let free = enough(&self.counts_if_free)?;
        let then = free.predicted_step_ns as f64;
        let gains = then <= now * (1.0 - NEAR_ENOUGH);
        let alone = self.alone_if_free();
        (gains && alone.is_none_or(|alone| then <= alone * MIN_GAIN)).then_some(free)
    }

    /// The step on free CPUs, in nanoseconds, where who takes the batches goes on to make them: that is
    /// faster there too. With no CPU beside it, workers that compute gain nothing on it.
    fn alone_if_free(&self) -> Option<f64> {
        let loader = self.loader.filter(|_| self.in_process)?;
        let made = loader.production? - loader.production_ready?;
        let computes = loader.production_cpu?.share_of(made) >= DATA_COMPUTE_MIN_CPU_SHARE;
        if computes && self.cpus as usize <= self.takers.max(1) {
            return Some(0.0);
        }
        Some((made + self.rest?).get() as f64)
    }

    /// `other programs (gpustall's sidecar included) keep 1.2 of the 2 CPUs that this job may use busy`: only
    /// the sidecar counts it, and it is one of them. Without it, what threads measure about themselves.
    pub(crate) fn others_keep(&self) -> String {
        let waited = self.loader.and_then(LoaderFacts::starved);
        if let Some(waited) = waited.filter(|_| self.taken_cpus.is_none()) {
            return format!(
                "who makes the batches waits for a CPU for {} of that time, so none that this job may use is \
                 free",
                percent(waited)
            );
        }
        format!(
            "other programs (gpustall's sidecar included) keep {:.1} of {} that this job may use busy",
            self.taken(),
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

/// What is to be noted where a thread that takes batches makes them itself and is short of CPUs meanwhile.
pub(crate) fn note(loaders: &[LoaderFacts]) -> Option<String> {
    let enough = |of: &LoaderFacts| {
        let share = of.starved()?;
        let of_steps = share * of.row.wait_share.unwrap_or(1.0);
        let short = share >= CONTENDED_MIN_RUNNABLE_SHARE;
        (short && of_steps >= CONTENDED_MIN_WINDOW_SHARE).then_some(share)
    };
    let share = loaders.iter().filter_map(enough).reduce(f64::max)?;
    Some(format!(
        "The thread that makes batches in next() waited for a CPU for {} of that time: others compete for \
         the CPUs that this job may use, and what counts as compute may be waiting for one too.",
        percent(share)
    ))
}
