//! Python programs without PyTorch under `gpustall run`: as they are without it, whatever
//! `sitecustomize` they have. `tests/pytorch` has those with PyTorch.

use crate::program::{command, folder, stderr, stdout};
use gpustall_diagnose::diagnose;
use gpustall_trace::read;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

/// Python, if this machine has it.
fn python() -> Option<&'static str> {
    let there = Command::new("python3").arg("--version").output();
    let there = there.is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("skipped: python3 is not installed");
    }
    there.then_some("python3")
}

/// Runs `python3 OPTIONS -c PROGRAM` in `folder`, by itself and under the command.
fn both(folder: &Path, path: &str, options: &[&str], program: &str) -> (Output, Output) {
    let job = |mut command: Command| {
        command
            .args(["python3"].iter().chain(options))
            .args(["-c", program])
            .current_dir(folder)
            .env("PYTHONPATH", path)
            .output()
            .expect("the command starts")
    };
    let mut under = command();
    under.args([
        "run",
        "--no-sidecar",
        "--force",
        "-o",
        "x.trace.json.gz",
        "--",
    ]);
    (job(Command::new("env")), job(under))
}

/// What the program printed is the beginning of what the command printed.
fn same(alone: &Output, under: &Output) {
    assert_eq!(alone.status.code(), under.status.code(), "{under:?}");
    let (expected, printed) = (stdout(alone), stdout(under));
    assert!(printed.starts_with(&expected), "{expected} / {printed}");
    assert_eq!(stderr(alone), stderr(under));
}

fn notes(folder: &Path) -> Vec<String> {
    let read = read(&folder.join("x.trace.json.gz")).expect("the trace was written");
    read.trace.meta.notes
}

fn told_absent(folder: &Path) -> bool {
    let notes = notes(folder);
    let about = |note: &String| note.starts_with("Steps and data waits of PyTorch");
    notes.iter().any(about)
}

#[test]
fn a_program_without_pytorch_sees_its_own_path_and_no_more_modules() {
    if python().is_none() {
        return;
    }
    let folder = folder();
    let program = "import sys; print(sys.path, sys.argv); \
                   print([m for m in ('json', 'mmap', 'struct', 'threading') if m in sys.modules])";
    let (alone, under) = both(folder.path(), "", &[], program);
    same(&alone, &under);
    assert!(!told_absent(folder.path()), "{:?}", notes(folder.path()));
}

#[test]
fn the_program_has_the_sitecustomize_that_it_would_have_had() {
    if python().is_none() {
        return;
    }
    let folder = folder();
    let own = folder.path().join("own");
    fs::create_dir(&own).expect("it is new");
    let site = "import builtins; builtins.mine = 'mine'; name = __name__";
    fs::write(own.join("sitecustomize.py"), site).expect("it can be written");
    let program = "import sitecustomize as s; print(mine, s.name, s.__file__)";
    let (alone, under) = both(folder.path(), "own", &[], program);
    assert!(stdout(&alone).starts_with("mine sitecustomize"));
    same(&alone, &under);
}

#[test]
fn a_sitecustomize_that_fails_fails_as_it_does_without_us() {
    if python().is_none() {
        return;
    }
    let folder = folder();
    fs::create_dir(folder.path().join("own")).expect("it is new");
    let site = folder.path().join("own/sitecustomize.py");
    fs::write(site, "raise ValueError('broken')").expect("it can be written");
    let program = "import sys; print('goes on', 'sitecustomize' in sys.modules)";
    let (alone, under) = both(folder.path(), "own", &[], program);
    assert!(stderr(&alone).contains("broken"), "{alone:?}");
    same(&alone, &under);
}

#[test]
fn a_python_that_may_not_load_the_hook_runs_and_the_report_says_so() {
    if python().is_none() {
        return;
    }
    for option in ["-S", "-I", "-E"] {
        let folder = folder();
        let program = "import sys; print('runs', sys.flags.no_site)";
        let (alone, under) = both(folder.path(), "", &[option], program);
        same(&alone, &under);
        assert!(told_absent(folder.path()), "{:?}", notes(folder.path()));
    }
}

#[test]
fn what_the_program_starts_is_as_it_is_too() {
    if python().is_none() {
        return;
    }
    let folder = folder();
    let program = "import os, subprocess, sys\n\
                   print(subprocess.check_output([sys.executable, '-c', 'print(1 + 1)']), flush=True)\n\
                   pid = os.fork()\n\
                   if pid == 0: os._exit(3)\n\
                   print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))";
    let (alone, under) = both(folder.path(), "", &[], program);
    assert_eq!(stdout(&alone), "b'2\\n'\n3\n");
    same(&alone, &under);
}

#[test]
fn a_virtual_environment_has_the_hook() {
    if python().is_none() {
        return;
    }
    let folder = folder();
    let made = Command::new("python3")
        .args(["-m", "venv", "--without-pip", "own"])
        .current_dir(folder.path())
        .status();
    assert!(
        made.is_ok_and(|status| status.success()),
        "venv is a part of Python"
    );
    let output = command()
        .args(["run", "--no-sidecar", "-o", "x.trace.json.gz", "--"])
        .args(["own/bin/python", "-c", "import sys; print(sys.prefix)"])
        .current_dir(folder.path())
        .output()
        .expect("the command starts");
    assert!(stdout(&output).contains("own\n"), "{output:?}");
    assert!(!told_absent(folder.path()), "{:?}", notes(folder.path()));
}

#[test]
fn a_python_behind_another_program_that_may_not_load_the_hook_is_told_too() {
    if python().is_none() {
        return;
    }
    for (line, told) in [
        ("python3 -S -c 'print(1)'", true),
        ("PYTHONPATH= python3 -c 'print(1)'", true),
        ("python3 -c 'print(1)'", false),
        ("echo no", false),
    ] {
        let folder = folder();
        let output = command()
            .args(["run", "--no-sidecar", "-o", "x.trace.json.gz", "--"])
            .args(["sh", "-c", line])
            .current_dir(folder.path())
            .output()
            .expect("the command starts");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(told_absent(folder.path()), told, "{line}");
    }
}

#[test]
fn the_hook_can_be_left_out() {
    if python().is_none() {
        return;
    }
    let folder = folder();
    let output = command()
        .args([
            "run",
            "--no-sidecar",
            "--no-python",
            "-o",
            "x.trace.json.gz",
        ])
        .args([
            "--",
            "python3",
            "-c",
            "import os; print(os.environ.get('PYTHONPATH'))",
        ])
        .env_remove("PYTHONPATH")
        .current_dir(folder.path())
        .output()
        .expect("the command starts");
    assert!(stdout(&output).starts_with("None\n"), "{output:?}");
    assert!(told_absent(folder.path()), "{:?}", notes(folder.path()));
}

/// Runs `python3 -c PROGRAM ARGUMENT`, which may use the hook's modules, and returns what it printed.
fn with_the_hook(folder: &Path, program: &str, argument: &OsStr) -> String {
    let output = command()
        .args(["run", "--no-sidecar", "-o", "x.trace.json.gz", "--"])
        .args(["python3", "-c", program])
        .arg(argument)
        .current_dir(folder)
        .output()
        .expect("the command starts");
    assert!(output.status.success(), "{output:?}");
    stdout(&output)
}

#[test]
fn a_program_whose_arguments_are_no_utf8_is_read_as_any_other() {
    if python().is_none() {
        return;
    }
    let folder = folder();
    let program = "import sys; from gpustall_hook import marks; marks.mark(marks.SAMPLED, 1, 2); \
                   marks.note('it has ' + sys.argv[1])";
    with_the_hook(folder.path(), program, OsStr::from_bytes(b"caf\xe9"));
    let notes = notes(folder.path());
    assert!(notes.contains(&"it has caf?".to_owned()), "{notes:?}");
    let unread = |note: &String| note.contains("could be read");
    assert!(!notes.iter().any(unread), "{notes:?}");
}

#[test]
fn a_process_whose_files_cannot_be_read_is_told_once() {
    if python().is_none() {
        return;
    }
    let folder = folder();
    let program = "from gpustall_hook import marks; marks.mark(marks.SAMPLED, 1, 2); \
                   open(marks._stem + '.details', 'w').write('{\"process\": 1}\\n')";
    with_the_hook(folder.path(), program, OsStr::new(""));
    let notes = notes(folder.path());
    let unread = |note: &&String| note.starts_with("Not all that one Python process marked");
    assert_eq!(notes.iter().filter(unread).count(), 1, "{notes:?}");
}

/// What ended a worker: a signal with a name, one without, an exit code, and one that says nothing. Of those that were
/// told to stop nothing is told.
#[test]
fn each_end_of_a_worker_is_told() {
    if python().is_none() {
        return;
    }
    let folder = folder();
    let program = "\
import json, multiprocessing, os
from gpustall_hook import failures, marks
def work(how):
    os._exit(how) if how < 9 else os.kill(os.getpid(), how)
class Iterator:
    _shutdown = False
makes = lambda how: multiprocessing.get_context('fork').Process(target=work, args=(how,))
workers, others = [[makes(how) for how in (9, 40, 3, 0)] for _ in range(2)]
for worker in workers + others: worker.start()
iterator, other = Iterator(), Iterator()
failures.watch(iterator, workers)
failures.watch(other, others)
other._shutdown = True
for worker in workers + others: worker.join()
failures.ended()
lines = [json.loads(line) for line in open(marks._stem + '.details')]
ends = {line['death']['pid']: line['death'] for line in lines if 'death' in line}
assert not any(worker.pid in ends for worker in others), ends
print([ends[worker.pid].get('signal', ends[worker.pid].get('code')) for worker in workers])";
    let printed = with_the_hook(folder.path(), program, OsStr::new(""));
    assert!(
        printed.starts_with("['SIGKILL', 'signal 40', 3, 0]\n"),
        "{printed}"
    );
}

/// What ended a process that multiprocessing runs is told, and not the call with which Python then ends it.
#[test]
fn the_exception_that_ends_a_process_of_the_program_is_told() {
    if python().is_none() {
        return;
    }
    let folder = folder();
    let program = "\
import glob, json, multiprocessing, os
from gpustall_hook import exits, marks
exits.patch()
marks.mark(marks.SAMPLED, 1, 2)
def work():
    marks.mark(marks.SAMPLED, 1, 2)
    raise ValueError('in a process')
process = multiprocessing.get_context('fork').Process(target=work)
process.start(); process.join()
files = glob.glob(os.path.dirname(marks._stem) + '/*.details')
lines = [json.loads(line) for file in files for line in open(file)]
print([line['uncaught']['texts'] for line in lines if 'uncaught' in line], process.exitcode)";
    let printed = with_the_hook(folder.path(), program, OsStr::new(""));
    assert!(
        printed.starts_with("[['ValueError: in a process']] 1\n"),
        "{printed}"
    );
}

/// An exception that nobody caught is told with those that it came from; one that was caught is not.
#[test]
fn the_exception_that_ends_a_program_is_told() {
    if python().is_none() {
        return;
    }
    for (raises, told, says) in [
        (
            "raise ValueError('broken')",
            "['ValueError: broken']",
            Some("ValueError: broken"),
        ),
        (
            "try: int('x')\nexcept ValueError as error: raise KeyError(3) from error",
            "['KeyError: 3', \"ValueError: invalid literal for int() with base 10: 'x'\"]",
            Some("KeyError: 3"),
        ),
        (
            "try: int('x')\nexcept ValueError: pass",
            "['it raised SystemExit']",
            None,
        ),
        (
            "sys.exit(3)",
            "['sys.exit(3) at <string>:10']",
            Some("sys.exit(3) at <string>:10"),
        ),
        (
            "try: int('x')\nexcept ValueError: sys.exit('no')",
            "[\"sys.exit('no') at <string>:11, after ValueError: invalid literal for int() with base 10: 'x'\", \
             \"ValueError: invalid literal for int() with base 10: 'x'\"]",
            Some(
                "sys.exit('no') at <string>:11, after ValueError: invalid literal for int() with base 10: 'x'",
            ),
        ),
        (
            "raise SystemExit(3)",
            "['it raised SystemExit']",
            Some("it raised SystemExit"),
        ),
        (
            "try: sys.exit(3)\nexcept SystemExit: pass",
            "['sys.exit(3) at <string>:10']",
            None,
        ),
    ] {
        let folder = folder();
        let program = format!(
            "\
import atexit, json, os, pickle, sys
from gpustall_hook import exits, failures, marks
exits.patch(); assert pickle.loads(pickle.dumps([sys.exit, os._exit])) == [sys.exit, os._exit]
marks.mark(marks.SAMPLED, 1, 2)
def show():
    lines = [json.loads(line) for line in open(marks._stem + '.details')]
    print(sum((line['uncaught']['texts'] for line in lines if 'uncaught' in line), []))
atexit.register(show)
atexit.register(failures.uncaught)
{raises}"
        );
        let output = command()
            .args(["run", "--no-sidecar", "-o", "x.trace.json.gz", "--"])
            .args(["python3", "-c", &program])
            .current_dir(folder.path())
            .output()
            .expect("the command starts");
        let printed = stdout(&output);
        assert_eq!(printed.lines().next(), Some(told), "{printed}");
        let code = output.status.code().expect("it has one");
        let read = read(&folder.path().join("x.trace.json.gz")).expect("the trace was written");
        assert_eq!(read.trace.meta.exit_code.map(i32::from), Some(code));
        // It is told though there was no batch.
        let faults = diagnose(&read.trace).faults;
        let messages: Vec<&str> = faults.iter().map(|of| of.message.as_str()).collect();
        let ended: Vec<bool> = faults.iter().map(|of| of.ended_run).collect();
        let printed = printed.replace("\n", " ");
        match says {
            Some(text) => {
                assert_eq!((messages, ended), (vec![text], vec![true]), "{printed}");
                assert!(printed.contains("the run ended with an error, main at "));
                let last = format!(": {text}; exit code {code}");
                assert!(printed.contains(&last), "{printed}");
            }
            None => {
                assert!(!printed.contains("the run ended"), "{printed}");
                assert!(messages.is_empty(), "{messages:?}");
            }
        }
    }
}
