//! Giving up privileges once the probes are loaded.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use std::io;

/// What a serving sidecar keeps: to read the maps and namespaces of other users' processes in `/proc`,
/// the program files that only their users may read, and those in other mount namespaces.
const KEPT: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::CHECKPOINT_RESTORE);

/// Leaves the calling thread what it needs once the probes are loaded, for good. `works` says whether
/// the probes can still be used; on older kernels that takes `CAP_BPF`, which is then kept.
pub(crate) fn give_up(works: impl Fn() -> bool) -> io::Result<()> {
    let had = capabilities(None)?.permitted;
    for capability in CapabilitySet::all().difference(KEPT).iter() {
        match remove_capability_from_bounding_set(capability) {
            // A kernel without it, or no right to (then none that it lacks can be gained either).
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    let kept = had & KEPT;
    let bpf = had & (CapabilitySet::BPF | CapabilitySet::SYS_ADMIN);
    set(kept, kept | bpf)?;
    if works() {
        return Ok(set(kept, kept)?);
    }
    // With the smaller one of the two, if it has it.
    let bpf = match bpf.contains(CapabilitySet::BPF) {
        true => CapabilitySet::BPF,
        false => bpf,
    };
    Ok(set(kept | bpf, kept | bpf)?)
}

fn set(effective: CapabilitySet, permitted: CapabilitySet) -> rustix::io::Result<()> {
    let inheritable = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective,
        permitted,
        inheritable,
    };
    set_capabilities(None, sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Privileges are those of one thread: the others of this process keep theirs.
    fn in_a_thread(works: bool) -> CapabilitySets {
        let thread = std::thread::spawn(move || {
            give_up(|| works).expect("given up");
            capabilities(None).expect("read")
        });
        thread.join().expect("no panic")
    }

    #[test]
    fn nothing_but_what_is_kept_is_left() {
        let left = in_a_thread(true);
        assert!(KEPT.contains(left.permitted), "{left:?}");
        assert_eq!(left.effective, left.permitted);
        assert_eq!(left.inheritable, CapabilitySet::empty());
    }

    #[test]
    fn what_the_probes_turn_out_to_need_is_kept() {
        let had = capabilities(None).expect("read").permitted;
        let left = in_a_thread(false);
        assert_eq!(
            left.effective.contains(CapabilitySet::BPF),
            had.contains(CapabilitySet::BPF)
        );
        assert!(!left.permitted.contains(CapabilitySet::SYS_ADMIN));
    }
}
