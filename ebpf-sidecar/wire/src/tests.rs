use crate::codes::{class, flag, kind, loss, memory};
use crate::plain::{bytes_of, read};
use crate::record::{BlockIo, Exit, Life, MemoryWork, OffCpu, OffCpuStack, OomKill, Other, Sample};
use crate::thread::{ThreadState, Totals};
use crate::{MAX_FRAMES, PID_LIMIT, TRACKED_WORD_BITS, TRACKED_WORDS};
use core::mem::{align_of, offset_of, size_of};

/// Sizes as the sum of the fields: a padding byte would make a type larger than its fields.
#[test]
fn no_type_has_padding() {
    let other = 4 + 4 + 16;
    let totals = 17 * 8;
    assert_eq!(size_of::<Other>(), other);
    assert_eq!(size_of::<Totals>(), totals);
    assert_eq!(
        size_of::<OffCpu>(),
        2 * 4 + 3 * 8 + 6 * 4 + 3 * other + 2 * 8
    );
    assert_eq!(
        size_of::<OffCpuStack>(),
        size_of::<OffCpu>() + 8 * MAX_FRAMES
    );
    assert_eq!(size_of::<Life>(), 4 * 4 + 8 + 16);
    assert_eq!(size_of::<Sample>(), 4 * 4 + 8 + 2 * 4 + 2 * 8 * MAX_FRAMES);
    assert_eq!(size_of::<Exit>(), 4 * 4 + 8 + totals);
    assert_eq!(
        size_of::<ThreadState>(),
        2 * 4 + 3 * 8 + 4 * 4 + other + 8 + 2 * 4 + other + 2 * 8 + 8 * memory::KINDS + totals
    );
    assert_eq!(size_of::<MemoryWork>(), 4 * 4 + 3 * 8);
    assert_eq!(size_of::<BlockIo>(), 6 * 4 + other + 2 * 8);
    assert_eq!(size_of::<OomKill>(), 2 * 4 + 8 + other);
}

/// The ring buffer hands out places aligned to 8 bytes and every record tells its kind first.
#[test]
fn every_record_fits_the_ring_buffer() {
    for (align, kind_at) in [
        (align_of::<OffCpu>(), offset_of!(OffCpu, kind)),
        (align_of::<Life>(), offset_of!(Life, kind)),
        (align_of::<Exit>(), offset_of!(Exit, kind)),
        (align_of::<Sample>(), offset_of!(Sample, kind)),
        (align_of::<OffCpuStack>(), offset_of!(OffCpuStack, off)),
        (align_of::<MemoryWork>(), offset_of!(MemoryWork, kind)),
        (align_of::<BlockIo>(), offset_of!(BlockIo, kind)),
        (align_of::<OomKill>(), offset_of!(OomKill, kind)),
    ] {
        assert!(align <= 8 && kind_at == 0);
    }
}

#[test]
fn a_record_is_read_back_from_its_bytes_and_not_from_fewer() {
    let life = Life {
        kind: kind::RENAME,
        tid: 7,
        tgid: 5,
        at_ns: 0x0102_0304_0506_0708,
        comm: *b"worker\0\0\0\0\0\0\0\0\0\0",
        ..Life::default()
    };
    let bytes = bytes_of(&life);
    assert_eq!(read::<Life>(bytes), Some(life));
    assert_eq!(read::<Life>(&bytes[1..]), None);
    assert_eq!(read::<OffCpu>(bytes), None);
}

#[test]
fn the_bitmap_has_a_bit_for_every_thread_id() {
    assert_eq!(TRACKED_WORDS * TRACKED_WORD_BITS, PID_LIMIT);
    assert_eq!(loss::NAMES.len(), loss::SOURCES as usize);
}

fn off(class: u32, wake_ns: u64) -> ThreadState {
    ThreadState {
        class,
        out_ns: 100,
        wake_ns,
        flags: flag::IOWAIT,
        ..ThreadState::default()
    }
}

#[test]
fn an_interval_is_cut_at_its_wake_up() {
    let cut = |class, wake_ns| {
        let split = off(class, wake_ns).split(200);
        (split.woken_ns, split.blocked_ns, split.runnable_ns)
    };
    assert_eq!(cut(class::SLEEPING, 130), (130, 30, 70));
    // Woken while it was still leaving its CPU; not seen to be woken; woken by a later clock.
    assert_eq!(cut(class::SLEEPING, 90), (100, 0, 100));
    assert_eq!(cut(class::SLEEPING, 0), (0, 100, 0));
    assert_eq!(cut(class::SLEEPING, 210), (200, 100, 0));
    assert_eq!(cut(class::PREEMPTED, 130), (0, 0, 100));
    assert_eq!(cut(class::STARTING, 100), (100, 0, 100));
}

#[test]
fn an_interval_is_added_whole_and_to_its_class_only() {
    for (state, field) in [(0, 0), (1, 1), (2, 2), (0x102, 2), (4, 3), (0x40, 3)] {
        let mut thread = off(class::of_state(state), 130);
        thread.add(&thread.split(200));
        let totals = thread.totals;
        let blocked = [
            0,
            totals.sleeping_ns,
            totals.uninterruptible_ns,
            totals.stopped_ns,
        ];
        assert_eq!(totals.measured_ns(), 100, "state {state:#x}");
        assert_eq!(blocked[field], totals.blocked_ns());
        assert_eq!(totals.iowait_ns, totals.blocked_ns());
        assert_eq!(
            (totals.preemptions + totals.waits, totals.on_cpu_ns),
            (1, 0)
        );
    }
}

#[test]
fn faults_are_counted_from_when_tracking_began() {
    let mut thread = ThreadState {
        minor_before: 40,
        major_before: 2,
        ..ThreadState::default()
    };
    thread.count_faults(100, 2);
    assert_eq!(thread.totals.minor_faults, 60);
    assert_eq!(thread.totals.major_faults, 0);
    assert_eq!(thread.faults_since_birth(), (100, 2));
}
