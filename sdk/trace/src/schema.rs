//! The version of the file format, and the names in it that are ours alone.

/// Version of the trace files that this build writes, and the newest that it reads.
///
/// It grows when an older reader would misread a file. New keys, new chunk kinds and new events
/// that an older reader may skip do not change it.
pub const TRACE_SCHEMA: u32 = 1;

/// `otherData.producer` of a finished file.
pub(crate) const PRODUCER: &str = "gpustall";
/// Metadata event with the schema and the [`Meta`](crate::Meta); the first event of every file.
pub(crate) const META_EVENT: &str = "gpustall.meta";
/// Metadata event with one note for the user.
pub(crate) const NOTE_EVENT: &str = "gpustall.note";
/// Metadata event with a counter sample that is not finite, which viewers cannot draw.
pub(crate) const COUNTER_EVENT: &str = "gpustall.counter";
/// Metadata event that closes the list of events of a finished file.
pub(crate) const END_EVENT: &str = "gpustall.end";
/// Category of the counter samples that are a [`Loss`](crate::Loss).
pub(crate) const LOSS_CAT: &str = "gpustall.loss";
/// Category of the instant that says what the scheduler tracks of a finished file lack.
pub(crate) const LEFT_OUT_CAT: &str = "gpustall.left_out";
