//! Where libcupti is: it is seldom on the loader's path.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names the library to use; nothing else is tried then.
pub const CUPTI_VARIABLE: &str = "GPUSTALL_CUPTI";

/// Major versions that are used, the preferred first.
const VERSIONS: [u32; 2] = [13, 12];

/// What the search looks at; a test puts a made-up one in its place.
pub(crate) trait World {
    /// The variable `name` of the environment.
    fn variable(&self, name: &str) -> Option<OsString>;
    /// Files that the process has mapped.
    fn mapped(&self) -> Vec<PathBuf>;
    /// What is in a directory; nothing if it cannot be read.
    fn entries(&self, directory: &Path) -> Vec<PathBuf>;
}

/// The machine and the process.
pub(crate) struct System;

impl World for System {
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name).filter(|value| !value.is_empty())
    }

    fn mapped(&self) -> Vec<PathBuf> {
        let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
        mapped_files(&String::from_utf8_lossy(&maps))
    }

    fn entries(&self, directory: &Path) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(directory) else {
            return Vec::new();
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
    }
}

/// Whether the process can have the CUDA driver.
#[expect(unsafe_code, reason = "looks for a library by loading it")]
pub(crate) fn driver_is_there() -> bool {
    // SAFETY: the initialisers of the driver touch nothing of this program.
    unsafe { libloading::Library::new("libcuda.so.1") }.is_ok()
}

/// The files in the text of `/proc/PID/maps`, each once.
fn mapped_files(maps: &str) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    let mut files = Vec::new();
    for line in maps.lines() {
        if let Some(start) = line.find('/') {
            let file = line[start..].trim_end_matches(" (deleted)");
            if seen.insert(file) {
                files.push(PathBuf::from(file));
            }
        }
    }
    files
}

/// Libraries to try, the best first. Bare names are for the loader to find.
pub(crate) fn candidates(world: &impl World) -> Vec<PathBuf> {
    if let Some(named) = world.variable(CUPTI_VARIABLE) {
        let named = PathBuf::from(named);
        let inside = libraries_in(world, &named);
        return match inside.is_empty() {
            true => vec![named],
            false => inside,
        };
    }
    let mapped = world.mapped();
    // What the process has loaded already is the one that others in it use.
    let mut found: Vec<PathBuf> = mapped.iter().filter(|f| is_cupti(f)).cloned().collect();
    let mut rest = Vec::new();
    for directory in beside(&mapped) {
        rest.extend(libraries_in(world, &directory));
    }
    for root in roots(world) {
        for below in [
            "extras/CUPTI/lib64",
            "lib64",
            "lib",
            "targets/x86_64-linux/lib",
            "targets/sbsa-linux/lib",
        ] {
            rest.extend(libraries_in(world, &root.join(below)));
        }
    }
    rest.extend(VERSIONS.map(|major| PathBuf::from(format!("libcupti.so.{major}"))));
    rest.push("libcupti.so".into());
    // The CUDA that the process has loaded tells which version is meant.
    let runtime = mapped.iter().find_map(|file| runtime_major(file));
    rest.sort_by_key(|path| {
        let major = major(path);
        let fits = runtime.is_some() && major == runtime;
        let rank = VERSIONS.iter().position(|version| Some(*version) == major);
        (!fits, rank.unwrap_or(VERSIONS.len()))
    });
    found.extend(rest);
    let mut seen = HashSet::new();
    found.retain(|path| seen.insert(path.clone()));
    found
}

/// Folders in which CUPTI may lie, next to CUDA libraries that the process has loaded: their own,
/// and where the Python wheels put it (`nvidia/cuda_cupti/lib`, `nvidia/cu13/lib`).
fn beside(mapped: &[PathBuf]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut add = |folder: PathBuf| {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    };
    for file in mapped {
        let Some(folder) = file.parent() else {
            continue;
        };
        let name = file_name(file);
        if ["libcudart", "libcublas", "libnvrtc", "libcudnn", "libnccl"]
            .iter()
            .any(|head| name.starts_with(head))
        {
            add(folder.into());
        }
        if [
            "libcudart",
            "libtorch",
            "libcublas",
            "libc10",
            "libjax",
            "xla_",
        ]
        .iter()
        .any(|head| name.starts_with(head))
        {
            for above in folder.ancestors().take(5) {
                let nvidia = match file_name(above) {
                    "nvidia" => above.to_path_buf(),
                    "site-packages" | "dist-packages" => above.join("nvidia"),
                    _ => continue,
                };
                add(nvidia.join("cu13/lib"));
                add(nvidia.join("cuda_cupti/lib"));
            }
        }
    }
    folders
}

/// Where CUDA toolkits are.
fn roots(world: &impl World) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = ["CUDA_PATH", "CUDA_HOME"]
        .iter()
        .filter_map(|name| world.variable(name))
        .map(PathBuf::from)
        .collect();
    for root in world.entries(Path::new("/usr/local")) {
        if file_name(&root).starts_with("cuda") {
            roots.push(root);
        }
    }
    roots.push("/opt/cuda".into());
    roots
}

/// The CUPTI libraries of one directory.
fn libraries_in(world: &impl World, directory: &Path) -> Vec<PathBuf> {
    let mut libraries = world.entries(directory);
    libraries.retain(|path| is_cupti(path));
    libraries
}

fn is_cupti(path: &Path) -> bool {
    file_name(path).starts_with("libcupti.so")
}

/// The major version in the name: `libcupti.so.12`, `libcupti.so.2025.3.0` (13.0).
fn major(path: &Path) -> Option<u32> {
    let version = file_name(path).strip_prefix("libcupti.so.")?;
    match version.split('.').next()?.parse().ok()? {
        // Full names carry the year of the release: 13.0 came in the third of 2025.
        year @ 2000.. => {
            let part: u32 = version.split('.').nth(1).and_then(|p| p.parse().ok())?;
            Some(if (year, part) >= (2025, 3) { 13 } else { 12 })
        }
        major => Some(major),
    }
}

/// The major version of a CUDA runtime, compiler or cuBLAS library by its name
/// (`libcudart.so.13`, `libcudart.so.12.4.127`).
fn runtime_major(path: &Path) -> Option<u32> {
    let name = file_name(path);
    let version = ["libcudart.so.", "libcublas.so.", "libnvrtc.so."]
        .iter()
        .find_map(|head| name.strip_prefix(head))?;
    version.split('.').next()?.parse().ok()
}

fn file_name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[derive(Default)]
    struct MadeUp {
        variables: HashMap<&'static str, &'static str>,
        mapped: Vec<&'static str>,
        files: Vec<&'static str>,
    }

    impl World for MadeUp {
        fn variable(&self, name: &str) -> Option<OsString> {
            self.variables.get(name).map(OsString::from)
        }
        fn mapped(&self) -> Vec<PathBuf> {
            self.mapped.iter().map(PathBuf::from).collect()
        }
        fn entries(&self, directory: &Path) -> Vec<PathBuf> {
            let mut entries: Vec<PathBuf> = Vec::new();
            for file in self.files.iter().map(Path::new) {
                for path in file.ancestors() {
                    if path.parent() == Some(directory) && !entries.contains(&path.into()) {
                        entries.push(path.into());
                    }
                }
            }
            entries
        }
    }

    fn first(world: &MadeUp) -> PathBuf {
        candidates(world).remove(0)
    }

    #[test]
    fn what_the_process_has_loaded_comes_first() {
        let world = MadeUp {
            mapped: vec!["/env/nvidia/cuda_cupti/lib/libcupti.so.12"],
            files: vec!["/usr/local/cuda-13.0/lib64/libcupti.so.13"],
            ..MadeUp::default()
        };
        assert_eq!(
            first(&world),
            Path::new("/env/nvidia/cuda_cupti/lib/libcupti.so.12")
        );
    }

    #[test]
    fn the_version_of_the_loaded_runtime_is_preferred() {
        let files = vec![
            "/usr/local/cuda-12.4/extras/CUPTI/lib64/libcupti.so.12",
            "/usr/local/cuda-13.0/extras/CUPTI/lib64/libcupti.so.13",
        ];
        let world = MadeUp {
            files: files.clone(),
            ..MadeUp::default()
        };
        assert_eq!(first(&world), Path::new(files[1]));
        let world = MadeUp {
            mapped: vec!["/opt/lib/libcudart.so.12.4.127"],
            files: files.clone(),
            ..MadeUp::default()
        };
        assert_eq!(first(&world), Path::new(files[0]));
    }

    #[test]
    fn it_is_found_in_the_wheels_beside_torch() {
        let world = MadeUp {
            mapped: vec!["/env/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so"],
            files: vec!["/env/lib/python3.12/site-packages/nvidia/cu13/lib/libcupti.so.13"],
            ..MadeUp::default()
        };
        assert_eq!(first(&world), Path::new(world.files[0]));
    }

    #[test]
    fn a_named_library_is_the_only_one() {
        let mut world = MadeUp {
            files: vec![
                "/here/libcupti.so.12",
                "/usr/local/cuda/lib64/libcupti.so.13",
            ],
            ..MadeUp::default()
        };
        world.variables.insert(CUPTI_VARIABLE, "/nowhere/cupti.so");
        assert_eq!(candidates(&world), [Path::new("/nowhere/cupti.so")]);
        world.variables.insert(CUPTI_VARIABLE, "/here");
        assert_eq!(candidates(&world), [Path::new("/here/libcupti.so.12")]);
    }

    #[test]
    fn without_any_the_loader_is_asked() {
        let names = ["libcupti.so.13", "libcupti.so.12", "libcupti.so"];
        assert_eq!(candidates(&MadeUp::default()), names.map(PathBuf::from));
    }

    #[test]
    fn full_versions_tell_their_cuda() {
        assert_eq!(major(Path::new("/x/libcupti.so.2025.1.1")), Some(12));
        assert_eq!(major(Path::new("/x/libcupti.so.2025.3.0")), Some(13));
        assert_eq!(major(Path::new("/x/libcupti.so")), None);
    }

    #[test]
    fn mapped_files_are_listed_once() {
        let maps = "7f0 r-xp 0 08:01 1 /lib/a b.so\n7f1 r--p 0 08:01 1 /lib/a b.so\n7f2 rw-p 0 0 0 [heap]\n";
        assert_eq!(mapped_files(maps), [Path::new("/lib/a b.so")]);
    }
}
