//! Which loaders are wrapped already: a `dyn DataLoader` does not say what it is.

use super::loader::untagged_loader_of_kind;
use super::steps::LoaderKind;
use burn_core::data::dataloader::DataLoader;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The addresses of wrapped loaders that live.
static TRACED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// A wrapped loader lives at this address from now on.
pub(super) fn remember(loader: *const ()) {
    TRACED.lock().insert(loader.addr());
}

/// It does not any more.
pub(super) fn forget(loader: *const ()) {
    TRACED.lock().remove(&loader.addr());
}

/// A loader of burn-train's learner, wrapped under the name of its kind unless it is wrapped already.
#[cfg_attr(
    not(feature = "burn-train"),
    allow(dead_code, reason = "the training strategy asks")
)]
pub(crate) fn traced_loader<O: Send + 'static>(
    kind: LoaderKind,
    loader: Arc<dyn DataLoader<O>>,
) -> Arc<dyn DataLoader<O>> {
    crate::layer::learner_runs();
    let address = Arc::as_ptr(&loader).cast::<()>().addr();
    // The lock must be free again before the loader is wrapped.
    let known = TRACED.lock().contains(&address);
    match known {
        true => loader,
        false => untagged_loader_of_kind(kind, kind.as_str(), loader),
    }
}
