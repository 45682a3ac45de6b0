//! What people call a program.

use std::path::Path;

/// Programs that start the script that they are given with Python.
const LAUNCHERS: [&str; 4] = ["accelerate", "deepspeed", "torchrun", "uv"];

/// Characters of a name, at most.
const LONGEST: usize = 64;

/// What people call the program that these words start: its file, or the script or module that Python runs.
/// Fit for the name of a file: `train` for `python3.12 -u runs/train.py --lr 1`.
pub fn program_name<W: AsRef<str>>(words: &[W]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let launched = words
        .first()
        .is_some_and(|of| LAUNCHERS.contains(&base(of)));
    let python = words.iter().position(|word| is_python(word));
    let name = match python.or(launched.then_some(0)) {
        Some(at) => {
            let (python, rest) = (words[at], &words[at + 1..]);
            let script = rest.iter().find(|word| word.ends_with(".py"));
            let module = rest.iter().skip_while(|word| **word != "-m").nth(1);
            match (script, module) {
                (Some(script), _) => base(script),
                (None, Some(module)) => module,
                (None, None) => base(python),
            }
        }
        None => words.first().map_or("", |program| base(program)),
    };
    let fits = |c: char| match c.is_alphanumeric() || "-_.".contains(c) {
        true => c,
        false => '_',
    };
    let name = name.strip_suffix(".py").unwrap_or(name);
    let name: String = name.chars().map(fits).take(LONGEST).collect();
    if name.is_empty() { "job".into() } else { name }
}

/// Whether a word is the Python interpreter, by its name.
pub fn is_python(word: &str) -> bool {
    let version = base(word).strip_prefix("python");
    version.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

fn base(word: &str) -> &str {
    let name = Path::new(word).file_name().and_then(|name| name.to_str());
    name.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_program_is_called_as_its_script_or_module() {
        let name = |line: &str| program_name(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(name("/usr/bin/python3.12 -u runs/train.py --lr 1"), "train");
        assert_eq!(
            name("python -m torch.distributed.run"),
            "torch.distributed.run"
        );
        assert_eq!(name("torchrun --nproc 2 train.py"), "train");
        assert_eq!(name("env A=1 python3 train.py"), "train");
        assert_eq!(name("./train.py --lr 1"), "train");
        assert_eq!(name("python3 -c 1"), "python3");
    }

    #[test]
    fn another_program_is_called_as_its_file() {
        let name = |line: &str| program_name(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(name("./target/release/mlp data.py"), "mlp");
        assert_eq!(name("python-config --libs"), "python-config");
        assert_eq!(program_name(&["./a b"]), "a_b");
        assert_eq!(name(""), "job");
        assert_eq!(program_name::<&str>(&[]), "job");
    }
}
