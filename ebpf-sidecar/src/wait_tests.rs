//! Stacks recorded on Linux 6.18 (the system call's entry left out), those of drivers and older
//! kernels as their sources have them.

use super::*;

const RECORDED: &[(WaitClass, &str, &str)] = &[
    (
        WaitClass::Futex,
        "futex_do_wait",
        "futex_do_wait;__futex_wait;futex_wait;do_futex;__x64_sys_futex",
    ),
    (
        WaitClass::Sleep,
        "hrtimer_nanosleep",
        "hrtimer_nanosleep;common_nsleep_timens;__x64_sys_clock_nanosleep",
    ),
    (
        WaitClass::Pipe,
        "anon_pipe_read",
        "anon_pipe_read;vfs_read;ksys_read",
    ),
    (WaitClass::Process, "do_wait", "do_wait;kernel_wait4"),
    (
        WaitClass::Process,
        "kernel_clone",
        "kernel_clone;__do_sys_vfork",
    ),
    (
        WaitClass::Socket,
        "unix_stream_read_generic",
        "unix_stream_read_generic;unix_stream_recvmsg;sock_recvmsg;__sys_recvfrom;__x64_sys_recvfrom",
    ),
    (
        WaitClass::Poll,
        "do_epoll_wait",
        "do_epoll_wait;__x64_sys_epoll_wait",
    ),
    (
        WaitClass::Poll,
        "poll_schedule_timeout",
        "poll_schedule_timeout;do_select;core_sys_select;do_pselect;__x64_sys_pselect6",
    ),
    (
        WaitClass::Other,
        "iterate_dir",
        "iterate_dir;__x64_sys_getdents64",
    ),
    (
        WaitClass::PageFault,
        "filemap_fault",
        "folio_wait_bit_common;filemap_fault;__do_fault;do_fault;__handle_mm_fault;handle_mm_fault;exc_page_fault;asm_exc_page_fault",
    ),
    (
        WaitClass::Read,
        "__iomap_dio_rw",
        "__iomap_dio_rw;iomap_dio_rw;ext4_file_read_iter;do_iter_readv_writev;vfs_readv;do_readv",
    ),
    (
        WaitClass::Read,
        "filemap_get_pages",
        "folio_wait_bit_common;filemap_get_pages;filemap_read;vfs_read;ksys_read",
    ),
    (
        WaitClass::Write,
        "folio_wait_writeback",
        "folio_wait_bit;folio_wait_writeback;__filemap_fdatawait_range;file_write_and_wait_range;generic_buffers_fsync_noflush;ext4_fsync_nojournal;ext4_sync_file",
    ),
    (
        WaitClass::Signal,
        "do_signal_stop",
        "do_signal_stop;get_signal;arch_do_signal_or_restart;exit_to_user_mode_loop",
    ),
];

fn classified(stack: &str, module_of: impl Fn(&str) -> &'static str) -> Wait {
    let functions = stack.split(';').map(|name| Function {
        name,
        module: module_of(name),
    });
    classify(&functions.collect::<Vec<_>>())
}

#[test]
fn recorded_stacks_have_the_class_of_what_was_done() {
    for &(class, function, stack) in RECORDED {
        let wait = classified(stack, |_| "");
        assert_eq!(
            (wait.class, wait.function.as_str()),
            (class, function),
            "{stack}"
        );
    }
}

#[test]
fn memory_explains_more_than_what_needed_it() {
    let wait = classified(
        "io_schedule;folio_wait_writeback;shrink_folio_list;shrink_node;try_to_free_pages;\
         __alloc_pages_slowpath;filemap_read;vfs_read",
        |_| "",
    );
    assert_eq!(wait.class, WaitClass::Reclaim);
    let fault_in_read =
        "io_schedule;folio_wait_bit_common;filemap_fault;handle_mm_fault;copyout;filemap_read";
    assert_eq!(
        classified(fault_in_read, |_| "").class,
        WaitClass::PageFault
    );
}

#[test]
fn a_function_of_a_gpu_module_is_the_driver() {
    let module_of = |name: &str| match name {
        "os_acquire_rwlock_write" | "nvidia_ioctl" => "nvidia",
        _ => "",
    };
    let stack =
        "rwsem_down_write_slowpath;down_write;os_acquire_rwlock_write;nvidia_ioctl;__x64_sys_ioctl";
    let wait = classified(stack, module_of);
    assert_eq!(
        (wait.class, wait.function.as_str()),
        (WaitClass::GpuDriver, "os_acquire_rwlock_write")
    );
}

#[test]
fn an_unknown_wait_is_named_by_the_function_that_made_it() {
    let stack = "schedule;schedule_timeout;wait_for_completion;flush_work;lru_add_drain_all";
    let wait = classified(stack, |_| "");
    assert_eq!(
        (wait.class, wait.function.as_str()),
        (WaitClass::Other, "flush_work")
    );
    assert_eq!(wait.stack.len(), 5);
    assert_eq!(classified("schedule", |_| "").function, "unknown");
}
