//! What the environment asks for.

use gpustall_cuda::Config;
use gpustall_trace::Nanos;
use std::path::PathBuf;

/// Names the folder for the recordings. Without it nothing is recorded.
pub const OUTPUT_VARIABLE: &str = "GPUSTALL_OUTPUT";

/// What capturing may cost, percent of the time; `all` captures everything.
pub const BUDGET_VARIABLE: &str = "GPUSTALL_CUDA_BUDGET";

/// Seconds that are captured whole before the budget counts.
pub const WHOLE_VARIABLE: &str = "GPUSTALL_CUDA_WHOLE";

/// A file of this name in the folder opens a window each time that it is made or touched.
pub const WINDOW_FILE: &str = "capture-now";

/// Where and how much to record.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) folder: PathBuf,
    pub(crate) capture: Config,
}

impl Settings {
    /// From the environment; `None` if it does not ask for a recording.
    pub(crate) fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let folder = variable(OUTPUT_VARIABLE).filter(|folder| !folder.is_empty())?;
        let mut capture = Config::default();
        if let Some(budget) = variable(BUDGET_VARIABLE) {
            let percent = budget.trim().trim_end_matches('%').trim();
            match percent.parse::<f64>() {
                _ if percent.eq_ignore_ascii_case("all") => capture.budget = None,
                Ok(percent) if percent.is_finite() && percent >= 0.0 => {
                    capture.budget = Some(percent / 100.0);
                }
                // A typo must not make a job slow.
                _ => {}
            }
        }
        let whole = variable(WHOLE_VARIABLE).and_then(|text| text.trim().parse::<f64>().ok());
        if let Some(seconds) = whole.filter(|seconds| seconds.is_finite() && *seconds >= 0.0) {
            capture.whole = Nanos::new((seconds * 1e9) as u64);
        }
        Some(Self {
            folder: folder.into(),
            capture,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Option<Settings> {
        Settings::of(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn without_a_folder_nothing_is_recorded() {
        assert!(settings(&[]).is_none());
        assert!(settings(&[(OUTPUT_VARIABLE, "")]).is_none());
    }

    #[test]
    fn budgets_are_percent_or_all() {
        let budget = |text| {
            let with = settings(&[(OUTPUT_VARIABLE, "/x"), (BUDGET_VARIABLE, text)]);
            with.expect("a folder is named").capture.budget
        };
        assert_eq!(budget("2"), Some(0.02));
        assert_eq!(budget("0.5%"), Some(0.005));
        assert_eq!(budget("all"), None);
        assert_eq!(budget("much"), Config::default().budget);
    }
}
