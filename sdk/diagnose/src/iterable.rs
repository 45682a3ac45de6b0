//! What to change at a PyTorch loader whose data set is iterated, not indexed: an IterableDataset.

use crate::pytorch;
use crate::remedy::{Facts, Remedy};

const CHEAPER: &str = "make a batch cheaper: let the data set yield whole batches that it makes at once \
    (batch_size=None), instead of item by item";

const DIVIDED: &str = " Each worker iterates a copy of the IterableDataset: divide its items among them by \
    torch.utils.data.get_worker_info(), or each item comes once per worker.";

/// The same remedy in words that suit the data set of the loader. Nothing is indexed in one that is iterated,
/// and more workers gain only where each has a part of it.
pub(crate) fn suited(facts: &Facts<'_>, mut remedy: Remedy) -> Remedy {
    if !facts.loader.is_some_and(|loader| loader.iterable) {
        return remedy;
    }
    remedy.text = remedy.text.replace(pytorch::CHEAPER, CHEAPER);
    if remedy.text.contains("num_workers") && !remedy.fewer {
        remedy.text.push_str(DIVIDED);
    }
    remedy
}
