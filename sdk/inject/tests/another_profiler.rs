//! The library in a job in which another profiler begins: CUPTI is given up before that one takes it, stays as
//! that one has it, and the trace says from when on it has nothing.

mod job;

use gpustall_trace::Trace;
use job::{Job, kernels, start, start_before, start_with};

/// Long enough for some looks of the writer, and for records to be asked for twice.
const LOOKS: &str = "time.sleep(0.6)\n";

/// The job ended as it wanted to, and left a trace with one note, about another profiler.
fn given_up(job: Job) -> Trace {
    let (status, trace) = job.end();
    assert_eq!(status.code(), Some(0));
    let notes = &trace.meta.notes;
    assert!(
        notes.len() == 1 && notes[0].to_lowercase().contains("another profiler"),
        "{notes:?}"
    );
    trace
}

#[test]
fn cupti_is_given_up_when_that_is_asked_for_and_left_alone_from_then_on() {
    let python = format!(
        "cupti.stand_in_time.restype = ctypes.c_uint64\n\
         assert of('subscribers').value == 1\n\
         assert abs(cupti.stand_in_time() - time.time_ns()) > 1e18\n\
         library.gpustall_leave_cupti()\n\
         assert of('subscribers').value == 0\n\
         assert abs(cupti.stand_in_time() - time.time_ns()) < 1e15, 'times are CUPTI\\'s own'\n\
         before = of('flushes').value, of('switches').value\n\
         open(os.environ['GPUSTALL_OUTPUT'] + '/flushes', 'w').write(str(before[0]))\n\
         {LOOKS}\
         library.gpustall_leave_cupti()\n\
         assert before == (of('flushes').value, of('switches').value)"
    );
    let mut job = start(0, &python);
    let status = job.child.wait().expect("it was started here");
    assert!(status.success());
    let flushes = std::fs::read_to_string(job.folder.path().join("flushes"));
    let trace = given_up(job);
    // Each gave one kernel. The end of the process asked for none.
    let flushes = flushes.expect("the job wrote it");
    assert_eq!(Ok(kernels(&trace)), flushes.parse());
    assert!(kernels(&trace) > 0);
}

#[test]
fn what_is_asked_for_before_the_driver_begins_holds_and_does_not_wait() {
    let python = "begin = time.monotonic()\n\
                  for _ in range(20): library.gpustall_leave_cupti()\n\
                  assert time.monotonic() - begin < 10\n\
                  library.InitializeInjection()\n\
                  assert of('switches').value == of('subscribers').value == 0";
    let trace = given_up(start_before(&[("GPUSTALL_CUDA_BUDGET", "all")], 0, python));
    assert_eq!(kernels(&trace), 0);
}

#[test]
fn a_forked_child_has_nothing_to_give_up_and_does_not_wait() {
    let python = "pid = os.fork()\n\
                  begin = time.monotonic()\n\
                  if pid == 0:\n    \
                      for _ in range(20): library.gpustall_leave_cupti()\n    \
                      os._exit(time.monotonic() - begin > 10)\n\
                  assert os.waitpid(pid, 0)[1] == 0\n\
                  assert of('subscribers').value == 1";
    let (status, trace) = start(0, python).end();
    assert!(status.success());
    assert!(kernels(&trace) > 0 && trace.meta.notes.is_empty());
}

#[test]
fn a_window_that_another_profiler_does_not_allow_changes_nothing_of_its() {
    // A budget with which no window opens by itself.
    let variables = [
        ("GPUSTALL_CUDA_WHOLE", "0"),
        ("GPUSTALL_CUDA_BUDGET", "0.0005"),
    ];
    let python = format!(
        "of('answer').value = 39\n\
         open(os.environ['GPUSTALL_OUTPUT'] + '/capture-now', 'w').close()\n\
         deadline = time.monotonic() + 120\n\
         while not of('refused').value:\n    \
             assert time.monotonic() < deadline\n    \
             time.sleep(0.01)\n\
         {LOOKS}\
         assert of('refused').value == 1\n\
         assert of('switches').value == of('flushes').value == 0"
    );
    let trace = given_up(start_with(&variables, 0, &python));
    assert_eq!(kernels(&trace), 0);
}

/// Puts the library and the hook into the job's folder, as `gpustall run` does.
const HOOK: &str = "
import shutil
folder = os.environ['GPUSTALL_OUTPUT']
path = shutil.copy(library._name, folder + '/libgpustall_inject.so')
os.environ['CUDA_INJECTION64_PATH'] = path
sys.path.insert(0, shutil.copytree(hook, folder + '/python'))
loaded = lambda: path in open('/proc/self/maps').read()
def initialise(): ctypes.CDLL(path).InitializeInjection()
";

fn with_the_hook(python: &str) -> Job {
    let hook = concat!(env!("CARGO_MANIFEST_DIR"), "/python");
    start_before(&[], 0, &format!("hook = {hook:?}{HOOK}{python}"))
}

/// PyTorch's profiler asks whether there is a device as it prepares, which may initialise the driver.
const PYTHON_PROFILER: &str = "
from gpustall_hook import profiler
class torch:
    class profile:
        def _prepare_trace(self, word):
            initialise()
            assert of('subscribers').value == 0
            raise ValueError(word)
profiler.patch(torch)
profiler.patch(torch.profile) # a version that has no such class

profiler._folder, own = '/of another profiler', profiler._folder
profiler.leave()
assert not loaded()
profiler._folder, profiler._left = own, False
try:
    torch.profile()._prepare_trace('as before')
except ValueError as error:
    assert str(error) == 'as before'
    sys.exit(0)
sys.exit(1)";

#[test]
fn the_hook_gives_cupti_up_before_a_profile_is_prepared() {
    let trace = given_up(with_the_hook(PYTHON_PROFILER));
    assert_eq!(kernels(&trace), 0);
}

#[test]
fn a_profiler_that_begins_as_pytorch_is_imported_has_cupti_from_the_start() {
    let python = "import gpustall_hook\n\
                  gpustall_hook.start()\n\
                  assert not loaded()\n\
                  os.environ['KINETO_USE_DAEMON'] = ''\n\
                  gpustall_hook.start()\n\
                  initialise()\n\
                  assert of('subscribers').value == 0";
    let trace = given_up(with_the_hook(python));
    assert_eq!(kernels(&trace), 0);
}
