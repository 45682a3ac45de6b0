//! What a recording needs on this machine, and what is missing.

use crate::cuda::{self, CudaClass, LibraryReport};
use crate::disk;
use crate::host;
use crate::kernel::{self, Offsets, RequestOffsets};
use crate::privilege::{Capabilities, program};
use crate::probes::{Options, Probes};
use crate::symbols::KernelSymbols;
use crate::tracepoints;
use gpustall_protocol::{DEFAULT_SOCKET, SOCKET_VARIABLE};
use serde::Serialize;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// One requirement, and whether this machine meets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Requirement {
    /// What is required.
    pub name: String,
    /// Whether it is met.
    pub met: bool,
    /// Whether nothing can be recorded without it.
    pub required: bool,
    /// What was found, when it is not met.
    pub problem: Option<String>,
    /// The evidence that is missing without it.
    pub costs: String,
    /// The command or change that mends it, when it is not met.
    pub mend: Option<String>,
}

const EVERYTHING: &str = "everything: nothing can be recorded";

/// Whether recording is possible with what was found.
pub fn can_record(requirements: &[Requirement]) -> bool {
    requirements.iter().all(|r| r.met || !r.required)
}

/// Looks at every requirement. Loads and attaches the probes for a moment, where that is permitted.
pub fn requirements() -> Vec<Requirement> {
    let mut found = vec![privileges(), pid_namespace()];
    found.extend(kernel_types());
    found.extend(probes());
    found.push(kernel_symbols());
    found.push(program_symbols());
    found.push(jit());
    found.push(socket());
    found.push(pressure());
    found.push(disks_count());
    found
}

fn privileges() -> Requirement {
    let missing = Capabilities::own().missing();
    requirement(
        "privileges to load eBPF programs (CAP_BPF and CAP_PERFMON)",
        Costs::Everything,
        (!missing.is_empty()).then(|| Missing {
            problem: format!("{} missing", missing.join(" and ")),
            mend: format!(
                "run it with sudo, or once: sudo setcap cap_bpf,cap_perfmon,cap_syslog+ep {}",
                program()
            ),
        }),
    )
}

/// Inode of the root pid namespace (`PROC_PID_INIT_INO` of the kernel).
const ROOT_PID_NAMESPACE: &str = "pid:[4026531836]";

fn pid_namespace() -> Requirement {
    let own = fs::read_link("/proc/self/ns/pid");
    let own = own.map_or_else(|e| e.to_string(), |p| p.display().to_string());
    requirement(
        "the pid namespace of the host",
        Costs::Everything,
        (own != ROOT_PID_NAMESPACE).then(|| Missing {
            problem: format!("this process is in {own}, and the kernel reports the host's ids"),
            mend: "run it on the host, or in a container with the host's pid namespace (docker run --pid=host, hostPID: true)".to_owned(),
        }),
    )
}

fn kernel_types() -> Vec<Requirement> {
    let types = match kernel::types() {
        Ok(types) => types,
        Err(error) => {
            let missing = Missing {
                problem: error.to_string(),
                mend: "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y".to_owned(),
            };
            return vec![requirement(
                "kernel types (BTF)",
                Costs::Everything,
                Some(missing),
            )];
        }
    };
    let newer = |problem: String| Missing {
        problem,
        mend: "boot Linux 5.18 or later".to_owned(),
    };
    let offsets = Offsets::of(&types).err().map(|e| newer(e.to_string()));
    let requests = RequestOffsets::of(&types).err();
    let requests = requests.map(|e| newer(e.to_string()));
    let mut found = vec![
        requirement("kernel types (BTF)", Costs::Everything, None),
        requirement("members of task_struct", Costs::Everything, offsets),
        requirement(
            "members of request, request_queue and gendisk",
            Costs::Some(tracepoints::WITHOUT_REQUESTS),
            requests,
        ),
    ];
    for tracepoint in &tracepoints::wanted(&types, true) {
        let missing = tracepoints::has(&types, tracepoint).err();
        found.push(Requirement {
            name: format!("tracepoint {}", tracepoint.name),
            met: missing.is_none(),
            required: tracepoint.without.is_none(),
            costs: tracepoint.without.unwrap_or(EVERYTHING).to_owned(),
            mend: missing
                .is_some()
                .then(|| format!("boot Linux {} or later", tracepoint.since)),
            problem: missing.map(|e| e.to_string()),
        });
    }
    found
}

fn probes() -> Vec<Requirement> {
    let small = Options {
        ring_bytes: 1 << 16,
        max_threads: 16,
        page_allocs: true,
        cuda_calls: true,
        ..Options::default()
    };
    let missing = |problem: String| Missing {
        problem,
        mend: "mend what is missing above; if nothing is, report this with the kernel's version"
            .to_owned(),
    };
    let mut attached = Probes::attach(&small);
    let cuda = match &mut attached {
        Ok(probes) => cuda_library(&cuda::report(probes)),
        Err(_) => Vec::new(),
    };
    let without = attached.as_ref().map_or(&[][..], |probes| probes.notes());
    let without = (!without.is_empty()).then(|| missing(without.join("; ")));
    let refused = attached.err().map(|error| missing(error.to_string()));
    let mut found = vec![
        requirement("the kernel accepts the probes", Costs::Everything, refused),
        requirement(
            "the kernel accepts the optional probes (interrupts, names, samples, memory, disks, CUDA calls)",
            Costs::Some("what is said of each of them"),
            without,
        ),
    ];
    found.extend(cuda);
    found
}

/// One requirement for each file of the library, or one that says that there is none.
fn cuda_library(reports: &[LibraryReport]) -> Vec<Requirement> {
    const CALLS: Costs = Costs::Some("CUDA calls of jobs that do not use the SDK");
    if reports.is_empty() {
        let missing = Missing {
            problem: "no libcuda.so.1 on the loader's path".to_owned(),
            mend: "install the NVIDIA driver; one that a job brings in its container is found when the job uses it"
                .to_owned(),
        };
        return vec![requirement(
            "the CUDA driver's library",
            CALLS,
            Some(missing),
        )];
    }
    let one = |report: &LibraryReport| {
        let name = format!(
            "functions of {} ({} found)",
            report.path.display(),
            report.found
        );
        if let Some(problem) = &report.problem {
            let missing = Missing {
                problem: problem.clone(),
                mend: "report this with the versions of the kernel and the driver".to_owned(),
            };
            return requirement(&name, CALLS, Some(missing));
        }
        let lacks = |(class, names): (&CudaClass, &Vec<&str>)| {
            format!("{} ({})", names.join(", "), class.name())
        };
        let lacking: Vec<String> = report.missing.iter().map(lacks).collect();
        let missing = (!lacking.is_empty()).then(|| Missing {
            problem: format!("it does not export {}", lacking.join("; ")),
            mend: "nothing, if it is another version of the driver: no job can call what it lacks"
                .to_owned(),
        });
        requirement(&name, Costs::Some("nothing but these calls"), missing)
    };
    reports.iter().map(one).collect()
}

fn kernel_symbols() -> Requirement {
    let hidden = KernelSymbols::of_running_kernel().map_or(true, |symbols| symbols.is_empty());
    let mend = if Capabilities::own().sees_kernel_addresses() {
        "sudo sysctl kernel.kptr_restrict=1".to_owned()
    } else {
        format!(
            "run it with sudo, or once: sudo setcap cap_bpf,cap_perfmon,cap_syslog+ep {}",
            program()
        )
    };
    requirement(
        "addresses of kernel functions (/proc/kallsyms)",
        Costs::Some("what blocked threads waited for, and what running ones do in the kernel"),
        hidden.then(|| Missing {
            problem: "the kernel hides them from this process".to_owned(),
            mend,
        }),
    )
}

fn program_symbols() -> Requirement {
    let allowed = Capabilities::own().sees_other_programs();
    requirement(
        "memory maps of other users' processes (CAP_SYS_PTRACE)",
        Costs::Some("names of functions in samples of other users' programs"),
        (!allowed).then(|| Missing {
            problem: "CAP_SYS_PTRACE missing".to_owned(),
            mend: "run it with sudo, or record processes of your own user".to_owned(),
        }),
    )
}

fn jit() -> Requirement {
    // Kernels that always compile eBPF may not have the file.
    let setting = fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").unwrap_or("1".into());
    requirement(
        "eBPF programs are compiled (JIT)",
        Costs::Some("nothing, but every context switch of the machine costs several times as much"),
        (setting.trim() == "0").then(|| Missing {
            problem: "net.core.bpf_jit_enable is 0: the kernel interprets them".to_owned(),
            mend: "sudo sysctl net.core.bpf_jit_enable=1".to_owned(),
        }),
    )
}

fn socket() -> Requirement {
    let path = std::env::var_os(SOCKET_VARIABLE).unwrap_or_else(|| DEFAULT_SOCKET.into());
    let path = Path::new(&path);
    requirement(
        &format!("a sidecar that serves sessions at {}", path.display()),
        Costs::Some("kernel events in sessions of the SDK; `record` does without"),
        UnixStream::connect(path).err().map(|error| Missing {
            problem: error.to_string(),
            mend: "sudo gpustall-sidecar serve".to_owned(),
        }),
    )
}

/// The kernel reports the end of a request only on disks that count.
fn disks_count() -> Requirement {
    let not: Vec<String> = disk::all()
        .into_iter()
        .filter(|disk| !disk::counts_requests(disk))
        .collect();
    requirement(
        "disks count their requests (queue/iostats)",
        Costs::Some("requests to the disks that do not"),
        (!not.is_empty()).then(|| Missing {
            problem: format!("{} do not", not.join(", ")),
            mend: format!("echo 1 | sudo tee /sys/block/{}/queue/iostats", not[0]),
        }),
    )
}

fn pressure() -> Requirement {
    let problem = host::pressure_problem();
    requirement(
        "pressure stall information (/proc/pressure)",
        Costs::Some("how much of the time tasks of the machine waited for CPU, memory or I/O"),
        problem.map(|problem| Missing {
            problem,
            mend: "boot with psi=1, on a kernel built with CONFIG_PSI=y".to_owned(),
        }),
    )
}

struct Missing {
    problem: String,
    mend: String,
}

/// The evidence that is missing without a requirement.
enum Costs {
    Everything,
    Some(&'static str),
}

fn requirement(name: &str, costs: Costs, missing: Option<Missing>) -> Requirement {
    let (required, costs) = match costs {
        Costs::Everything => (true, EVERYTHING),
        Costs::Some(evidence) => (false, evidence),
    };
    Requirement {
        name: name.to_owned(),
        met: missing.is_none(),
        required,
        costs: costs.to_owned(),
        problem: missing.as_ref().map(|m| m.problem.clone()),
        mend: missing.map(|m| m.mend),
    }
}
