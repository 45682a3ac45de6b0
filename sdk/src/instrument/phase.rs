//! Parts of a step.

use crate::recorder::Category;
use crate::span::SpanGuard;

/// Marks a part of the step, until the guard is dropped.
///
/// Phases named `metrics...` or `checkpoint...` are host work that keeps the device waiting; the
/// diagnosis charges them as such. The others (`forward`, `backward`, `optimizer`) are where the
/// device computes.
///
/// ```
/// use gpustall::instrument;
///
/// {
///     let _forward = instrument::phase("forward");
///     // ...
/// }
/// let _optimizer = instrument::phase("optimizer");
/// ```
pub fn phase(name: &'static str) -> SpanGuard {
    SpanGuard::begin_visibly(Category::Phase, name, None)
}
