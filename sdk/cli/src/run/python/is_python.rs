//! Whether a command is one that runs Python, as far as its words tell.

use gpustall_inject::is_python;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Programs that run what their words say.
const WRAPPERS: [&str; 16] = [
    "bash", "conda", "env", "hatch", "mpirun", "nice", "nohup", "numactl", "pdm", "pipenv",
    "poetry", "sh", "srun", "taskset", "timeout", "uv",
];

/// Whether the command is Python, a script that Python runs, or one that runs one of these.
pub(super) fn runs_python(command: &[OsString]) -> bool {
    let Some(program) = command.first() else {
        return false;
    };
    let words: Vec<String> = command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut words = words.iter().flat_map(|word| word.split_whitespace());
    let wraps = WRAPPERS.contains(&base(&program.to_string_lossy()));
    let is_script = |word: &str| wraps && word.ends_with(".py");
    words.any(|word| is_python(word) || is_script(word)) || is_python_script(Path::new(program))
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Whether the first line of the program says that Python runs it.
fn is_python_script(program: &Path) -> bool {
    let mut head = Vec::new();
    let file = found(program).and_then(|path| std::fs::File::open(path).ok());
    let read = file.map(|file| file.take(256).read_to_end(&mut head));
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    matches!(read, Some(Ok(_))) && line.starts_with("#!") && line.contains("python")
}

/// Where the shell would find a program.
fn found(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return Some(program.to_path_buf());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> bool {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        runs_python(&words)
    }

    #[test]
    fn python_is_known_by_its_name_also_behind_other_programs() {
        for line in [
            "python train.py",
            "/opt/v/bin/python3.11 -m train",
            "env A=1 python3 x",
        ] {
            assert!(told(line), "{line}");
        }
        assert!(told("uv run train.py") && told("bash -c python train.py"));
        assert!(!told("./target/release/mlp data.py") && !told("sh train.sh"));
        assert!(!told("python-config --libs"));
    }

    #[test]
    fn a_script_is_known_by_its_first_line() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let script = folder.path().join("launch");
        let text = |text: &str| std::fs::write(&script, text).expect("it can be written");
        text("#!/opt/venv/bin/python3\nimport torch\n");
        assert!(runs_python(&[script.clone().into()]));
        text("#!/bin/sh\n# python\n");
        assert!(!runs_python(&[script.clone().into()]));
    }
}
