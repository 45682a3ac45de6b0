//! What the environment asks for.

use gpustall_cuda::Config;
use std::path::PathBuf;

/// Names the folder for the recordings. Without it nothing is recorded.
pub const OUTPUT_VARIABLE: &str = "GPUSTALL_OUTPUT";

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
        Some(Self {
            folder: folder.into(),
            capture: Config::of(variable),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_folder_nothing_is_recorded() {
        let with = |folder: &'static str| {
            Settings::of(|name| (name == OUTPUT_VARIABLE).then(|| folder.to_owned()))
        };
        assert!(with("").is_none());
        assert!(Settings::of(|_| None).is_none());
        let settings = with("/runs").map(|settings| settings.folder);
        assert_eq!(settings, Some(PathBuf::from("/runs")));
    }
}
