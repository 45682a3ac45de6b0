//! What a running thread ran, by the functions on its stacks.

use crate::symbols::Function;
use crate::wait::{any_matches, gpu_function};

/// What kind of work a running thread did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunClass {
    /// The program itself.
    User,
    /// The program, in a library that compiles code for devices.
    DeviceCompiler,
    /// Reclaim or compaction of memory, also for a page fault.
    Reclaim,
    /// The driver of a GPU.
    GpuDriver,
    /// The handling of a page fault.
    PageFault,
    /// Data copied between the program and the kernel.
    Copy,
    /// Other work of the kernel: the function says what.
    System,
}

impl RunClass {
    /// The name that traces use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::DeviceCompiler => "device compiler",
            Self::Reclaim => "reclaim",
            Self::GpuDriver => "gpu driver",
            Self::PageFault => "page fault",
            Self::Copy => "copy",
            Self::System => "system",
        }
    }
}

/// What a thread ran: its class, the function that tells it, and the stacks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Run {
    /// What kind of work it was.
    pub class: RunClass,
    /// In user mode the innermost function of the program; in the kernel the function that the
    /// class follows from, for [`RunClass::System`] the system call or the outermost function.
    pub function: String,
    /// The kernel's functions, the innermost first; empty in user mode.
    pub kernel: Vec<String>,
    /// The program's functions, the innermost first; `[libname.so]` for those without a symbol, and
    /// `?` where the process was gone before they were looked up.
    pub user: Vec<String>,
}

/// The first row of which a function is on the stack gives the class.
const TABLE: [(RunClass, &[&str]); 3] = [
    (
        RunClass::Reclaim,
        &[
            "try_to_free_pages",
            "do_try_to_free_pages",
            "try_to_free_mem_cgroup_pages",
            "shrink_node*",
            "try_to_compact_pages",
            "compact_zone*",
        ],
    ),
    (
        RunClass::PageFault,
        &[
            "exc_page_fault",
            "asm_exc_page_fault",
            "do_user_addr_fault",
            "do_page_fault",
            "do_translation_fault",
            "do_mem_abort",
        ],
    ),
    (
        RunClass::Copy,
        &[
            "_copy_to_iter*",
            "_copy_from_iter*",
            "copy_page_to_iter*",
            "copy_page_from_iter*",
            "copy_folio_from_iter*",
            "copy_user_*",
            "_copy_to_user",
            "_copy_from_user",
            "__arch_copy_to_user",
            "__arch_copy_from_user",
            "copy_mc_*",
            "csum_and_copy_*",
            "rep_movs_alternative",
        ],
    ),
];

/// Functions at the root of every stack in the kernel.
const ENTRY: [&str; 5] = [
    "entry_SYSCALL_64*",
    "do_syscall_64",
    "x64_sys_call",
    "el0*",
    "invoke_syscall*",
];

/// What a thread with these stacks ran, the innermost functions first; `compiles` says whether one of
/// the program's is in a library that compiles code for devices.
pub(crate) fn classify(kernel: &[Function<'_>], user: Vec<String>, compiles: bool) -> Run {
    let (class, function) = match kernel {
        [] => {
            let class = match compiles {
                true => RunClass::DeviceCompiler,
                false => RunClass::User,
            };
            (class, user.first().map_or("?", String::as_str))
        }
        _ => class_of(kernel),
    };
    Run {
        class,
        function: function.to_owned(),
        kernel: kernel.iter().map(|f| f.name.to_owned()).collect(),
        user,
    }
}

fn class_of<'a>(stack: &[Function<'a>]) -> (RunClass, &'a str) {
    if let Some(name) = gpu_function(stack) {
        return (RunClass::GpuDriver, name);
    }
    for (class, names) in &TABLE {
        if let Some(function) = stack.iter().find(|f| any_matches(names, f.name)) {
            return (*class, function.name);
        }
    }
    let tells = stack.iter().rfind(|f| !any_matches(&ENTRY, f.name));
    (RunClass::System, tells.map_or("unknown", |f| f.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stack: &str) -> (RunClass, String) {
        let functions = stack.split(';').filter(|name| !name.is_empty());
        let functions: Vec<_> = functions
            .map(|name| Function { name, module: "" })
            .collect();
        let run = classify(
            &functions,
            vec!["leaf".to_owned(), "main".to_owned()],
            false,
        );
        (run.class, run.function)
    }

    #[test]
    fn a_thread_without_a_kernel_stack_runs_its_innermost_function() {
        assert_eq!(run(""), (RunClass::User, "leaf".to_owned()));
        assert_eq!(classify(&[], vec![], false).function, "?");
    }

    #[test]
    fn a_compiler_of_device_code_is_no_ordinary_function() {
        let run = classify(&[], vec!["[libnvrtc.so.13]".to_owned()], true);
        assert_eq!(run.class, RunClass::DeviceCompiler);
        assert_eq!(run.function, "[libnvrtc.so.13]");
    }

    #[test]
    fn work_in_the_kernel_has_the_class_of_what_was_asked_of_it() {
        for (class, function, stack) in [
            (
                RunClass::PageFault,
                "exc_page_fault",
                "clear_page_erms;get_page_from_freelist;handle_mm_fault;exc_page_fault;asm_exc_page_fault",
            ),
            (
                RunClass::Copy,
                "rep_movs_alternative",
                "rep_movs_alternative;_copy_to_iter;copy_page_to_iter;filemap_read;__x64_sys_read;do_syscall_64;entry_SYSCALL_64_after_hwframe",
            ),
            (
                RunClass::Reclaim,
                "shrink_node",
                "shrink_node;do_try_to_free_pages;handle_mm_fault;exc_page_fault",
            ),
            (
                RunClass::System,
                "__x64_sys_getdents64",
                "ext4_readdir;iterate_dir;__x64_sys_getdents64;do_syscall_64;entry_SYSCALL_64_after_hwframe",
            ),
        ] {
            assert_eq!(run(stack), (class, function.to_owned()), "{stack}");
        }
    }
}
