//! The files that are mapped into a process.

use procfs::process::{MMapPath, Process};
use std::ops::Range;

/// How the names of the libraries begin that compile code for devices: NVRTC, the linker and the PTX
/// compilers of CUDA, the same of ROCm, and Triton.
const COMPILERS: [&str; 8] = [
    "libnvrtc",
    "libnvJitLink",
    "libnvptxcompiler",
    "libnvidia-ptxjitcompiler",
    "libnvvm",
    "libhiprtc",
    "libamd_comgr",
    "libtriton",
];

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MappedFile {
    /// Its name, without the folder.
    pub(crate) name: String,
}

impl MappedFile {
    /// Whether it is a library that compiles code for devices.
    pub(crate) fn compiles_for_devices(&self) -> bool {
        COMPILERS.iter().any(|head| self.name.starts_with(head))
    }
}

/// Which file stands where.
#[derive(Debug, Default)]
pub(crate) struct Mapped(Vec<(Range<u64>, MappedFile)>);

impl Mapped {
    /// Of a process; nothing where it is gone or not ours to read.
    pub(crate) fn of(pid: u32) -> Self {
        let process = i32::try_from(pid)
            .ok()
            .and_then(|pid| Process::new(pid).ok());
        let maps = process.and_then(|process| process.maps().ok());
        let files = maps.into_iter().flatten().filter_map(|map| {
            let MMapPath::Path(path) = map.pathname else {
                return None;
            };
            let name = path.file_name()?.to_string_lossy();
            let name = name.trim_end_matches(" (deleted)").to_owned();
            Some((map.address.0..map.address.1, MappedFile { name }))
        });
        let mut files: Vec<_> = files.collect();
        files.sort_by_key(|(range, _)| range.start);
        Self(files)
    }

    /// The file that `address` lies in.
    pub(crate) fn file(&self, address: u64) -> Option<&MappedFile> {
        let after = self.0.partition_point(|(range, _)| range.start <= address);
        let (range, file) = self.0.get(after.checked_sub(1)?)?;
        range.contains(&address).then_some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_program_lies_in_its_file() {
        let mapped = Mapped::of(std::process::id());
        let here = Mapped::of as fn(u32) -> Mapped as usize as u64;
        let file = mapped.file(here).map(|file| file.name.clone());
        let own = std::env::current_exe().ok();
        let own = own.and_then(|own| Some(own.file_name()?.to_string_lossy().into_owned()));
        assert!(file.is_some() && file == own, "{file:?} {own:?}");
        assert_eq!(mapped.file(1), None);
        assert_eq!(Mapped::of(u32::MAX).file(here), None);
    }

    #[test]
    fn compilers_are_known_by_their_names() {
        let compiles = |name: &str| {
            let name = name.to_owned();
            MappedFile { name }.compiles_for_devices()
        };
        assert!(compiles("libnvrtc.so.13") && compiles("libnvrtc-builtins.so.13.0"));
        assert!(!compiles("libcudart.so.13"));
    }
}
