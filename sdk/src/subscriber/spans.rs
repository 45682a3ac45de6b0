//! The ids of spans, and the fields of those that have some.

use super::callsites;
use crate::fields::Fields;
use crate::recorder::Args;
use parking_lot::Mutex;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::Metadata;
use tracing::span::Id;

/// Ids that a thread takes at once.
const BLOCK: u64 = 1 << 16;

/// Set in the id of a span with fields.
const HAS_FIELDS: u64 = 1 << 15;

/// In the place of a number: there were no more.
const NO_NUMBER: u16 = HAS_FIELDS as u16 - 1;

const SHARDS: usize = 64;

/// Fields of open spans. A thread's spans are together, so that another thread takes the lock only when
/// one of them went there.
static OPEN: [Mutex<Shard>; SHARDS] =
    [const { Mutex::new(Shard::with_hasher(FxBuildHasher)) }; SHARDS];

type Shard = FxHashMap<u64, Open>;

struct Open {
    handles: u32,
    fields: Fields,
}

/// A new span: from the top, a number that no other span had, whether it has fields, its place.
pub(super) fn open(metadata: &'static Metadata<'static>, fields: Option<Fields>) -> Id {
    let place = u64::from(callsites::number(metadata).unwrap_or(NO_NUMBER));
    let id = serial() << 16 | place;
    let Some(fields) = fields else {
        return Id::from_u64(id);
    };
    let with_fields = Id::from_u64(id | HAS_FIELDS);
    let kept = with(&with_fields, |shard, id| {
        shard.insert(id, Open { handles: 1, fields });
    });
    kept.map_or(Id::from_u64(id), |()| with_fields)
}

/// One handle more.
pub(super) fn share(id: &Id) {
    with(id, |shard, id| {
        if let Some(open) = shard.get_mut(&id) {
            open.handles = open.handles.saturating_add(1);
        }
    });
}

/// One handle less; whether it was the last. Spans without fields are not counted.
pub(super) fn close(id: &Id) -> bool {
    with(id, |shard, id| {
        let last = shard.get_mut(&id).is_some_and(|open| {
            open.handles = open.handles.saturating_sub(1);
            open.handles == 0
        });
        if last {
            shard.remove(&id);
        }
        last
    })
    .unwrap_or(false)
}

/// Changes the fields of a span.
pub(super) fn record(id: &Id, record: impl FnOnce(&mut Fields)) {
    with(id, |shard, id| {
        if let Some(open) = shard.get_mut(&id) {
            record(&mut open.fields);
        }
    });
}

/// The fields of a span as they are.
pub(super) fn args(id: &Id) -> Args {
    with(id, |shard, id| shard.get(&id)?.fields.to_args()).flatten()
}

/// The place of a span.
pub(super) fn metadata(id: &Id) -> Option<&'static Metadata<'static>> {
    callsites::metadata((id.into_u64() & (HAS_FIELDS - 1)) as u16)
}

/// Looks after a span with fields. `None` for others, and in a thread that does so already: its allocator
/// opens spans.
fn with<T>(id: &Id, job: impl FnOnce(&mut Shard, u64) -> T) -> Option<T> {
    thread_local! {
        static INSIDE: Cell<bool> = const { Cell::new(false) };
    }
    let id = id.into_u64();
    if id & HAS_FIELDS == 0 || INSIDE.try_with(|inside| inside.replace(true)) != Ok(false) {
        return None;
    }
    // The number of the block that the serial is from.
    let shard = &OPEN[(id >> 32) as usize % SHARDS];
    let done = job(&mut shard.lock(), id);
    let _ = INSIDE.try_with(|inside| inside.set(false));
    Some(done)
}

/// A number that was not given before, of 48 bits.
fn serial() -> u64 {
    static BLOCKS: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        /// The next one; a whole block's first means that a block is needed.
        static NEXT: Cell<u64> = const { Cell::new(0) };
    }
    let begin = || BLOCKS.fetch_add(1, Ordering::Relaxed) * BLOCK;
    NEXT.try_with(|next| {
        let serial = match next.get() {
            used if used.is_multiple_of(BLOCK) => begin(),
            next => next,
        };
        next.set(serial + 1);
        serial
    })
    .unwrap_or_else(|_| begin())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Text;
    use crate::subscriber::callsites::tests::PLACE;

    #[test]
    fn ids_differ_also_between_threads() {
        let take = || (0..3000).map(|_| open(&PLACE, None).into_u64()).collect();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(take)).collect();
        let ids = threads
            .into_iter()
            .map(|t| -> Vec<u64> { t.join().expect("ended") });
        let ids: Vec<u64> = ids.flatten().collect();
        let different: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
        let of = |id: &u64| metadata(&Id::from_u64(*id)).map(Metadata::name);
        assert!(ids.iter().all(|id| of(id) == Some("place")));
    }

    #[test]
    fn fields_are_kept_until_the_last_handle_is_gone() {
        let mut fields = Fields::default();
        fields.merge(Fields::of("rows", Text::U64(7)));
        let id = open(&PLACE, Some(fields));
        share(&id);
        record(&id, |fields| fields.merge(Fields::of("rows", Text::U64(8))));
        assert_eq!(args(&id).as_deref(), Some(&[("rows", Text::U64(8))][..]));
        // On another thread as well.
        let there = id.clone();
        let closed = std::thread::spawn(move || close(&there)).join();
        assert!(!closed.expect("ended"));
        assert!(args(&id).is_some());
        assert!(close(&id));
        assert!(args(&id).is_none());
        assert!(!close(&id));
    }
}
