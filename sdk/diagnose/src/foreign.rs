//! What the annotations of other profilers mean: steps, loaders, phases.
//!
//! PyTorch's profiler marks each step (`ProfilerStep#7`), each `next()` of a `DataLoader`
//! (`enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__`) and each call of an optimizer
//! (`Optimizer.step#SGD.step`); users mark what they like with `record_function`.

use crate::cause::Cause;
use crate::id_map::IdMap;
use gpustall_trace::{Symbol, Trace};

/// How the name of a `DataLoader`'s annotation begins.
const DATA_LOADER: &str = "enumerate(DataLoader)";

/// How the names of the parts of `torch.compile` end.
pub(crate) const COMPILES: &str = "(dynamo_timed)";

/// What an annotation of this name marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A step, by its number.
    Step(u64),
    /// The `next()` of PyTorch's loader, and whether it makes the batch itself.
    Loader(Option<bool>),
    /// A stretch in which the user waits for data, by the name that he gave it.
    Data,
    /// A call that the framework marks, among its operators in old files.
    Framework,
    /// A part of `torch.compile`, which stands among the operators.
    Compiles,
    /// A stretch that the user named after what stands for a cause, or a function that does it.
    Marked(Cause),
}

/// The names of a trace that mean something.
pub(crate) type Meanings = IdMap<Symbol, Meaning>;

/// Looks through the names of a trace.
pub(crate) fn meanings(trace: &Trace) -> Meanings {
    let of = |name: &str| Some((trace.strings.find(name)?, meaning(name)?));
    trace.strings.iter().filter_map(of).collect()
}

fn meaning(name: &str) -> Option<Meaning> {
    if let Some(number) = name.strip_prefix("ProfilerStep#") {
        return number.trim().parse().ok().map(Meaning::Step);
    }
    if let Some(iterator) = name.strip_prefix(DATA_LOADER) {
        let has = |word| iterator.contains(word);
        let in_process = has("SingleProcess").then_some(true);
        return Some(Meaning::Loader(
            in_process.or_else(|| has("MultiProcess").then_some(false)),
        ));
    }
    if is_optimizer(name) {
        return Some(Meaning::Framework);
    }
    if name.ends_with(COMPILES) {
        return Some(Meaning::Compiles);
    }
    if name.contains(".py(") {
        return of_frame(name);
    }
    if is_data(name) {
        return Some(Meaning::Data);
    }
    // Operators have such names too: `CheckpointFunctionBackward` computes once more.
    let operator = name.contains("::") || name.contains("Function") || name.contains("Backward");
    let marked = Cause::of_phase(name).filter(|_| !operator);
    marked.map(Meaning::Marked)
}

/// What a function of Python is known for, by the name that the profiler gives its frame:
/// `torch/serialization.py(945): save`. An iterator's `__next__` that is written in Python gives data.
fn of_frame(name: &str) -> Option<Meaning> {
    let (place, function) = name.split_once("): ")?;
    let (path, _) = place.rsplit_once(".py(")?;
    let saves = path.ends_with("torch/serialization")
        || path.ends_with("safetensors/torch")
        || path.contains("torch/distributed/checkpoint/");
    if function == "__next__" {
        Some(Meaning::Data)
    } else if saves && function.starts_with("save") {
        Some(Meaning::Marked(Cause::HostCheckpoint))
    } else if path.ends_with("torchmetrics/metric") || path.contains("sklearn/metrics/") {
        Some(Meaning::Marked(Cause::HostMetrics))
    } else {
        None
    }
}

/// Whether PyTorch gives this name to a call of an optimizer.
fn is_optimizer(name: &str) -> bool {
    name.starts_with("Optimizer.") && name.contains('#')
}

/// Whether it is the name of the call in which an optimizer changes the parameters.
pub(crate) fn is_optimizer_step(name: &str) -> bool {
    is_optimizer(name) && name.starts_with("Optimizer.step")
}

/// Whether a user who chose this name meant that he waits for data: `data`, `data_next`,
/// `load batch`, `next(loader)`, `[...].train_dataloader_next`, `[...].val_next`.
fn is_data(name: &str) -> bool {
    // Operators of PyTorch have names like `aten::data`.
    if name.len() > 200 || name.contains("::") {
        return false;
    }
    let lower = name.to_ascii_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    const WAITS: [&str; 13] = [
        "next", "wait", "waiting", "load", "loading", "loader", "fetch", "fetching", "get", "iter",
        "read", "reading", "time",
    ];
    const THINGS: [&str; 4] = ["data", "batch", "batches", "dataset"];
    const SOURCES: [&str; 9] = [
        "loader",
        "dataset",
        "train",
        "val",
        "valid",
        "validation",
        "test",
        "predict",
        "eval",
    ];
    const ALONE: [&str; 4] = ["data", "loader", "fetch", "input"];
    matches!(words.as_slice(), [one] if ALONE.contains(one))
        || words
            .iter()
            .any(|word| ["dataloader", "dataloading", "dataload"].contains(word))
        || words.windows(2).any(|pair| {
            (pair[0] == "data" && WAITS.contains(&pair[1]))
                || (WAITS.contains(&pair[0]) && THINGS.contains(&pair[1]))
                || (SOURCES.contains(&pair[0]) && pair[1] == "next")
                || (["next", "wait"].contains(&pair[0]) && pair[1] == "loader")
        })
}

/// A loader's annotation as people call it.
pub(crate) fn loader_name(name: &str) -> &str {
    if name.starts_with(DATA_LOADER) {
        "DataLoader"
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_pytorch_and_its_users_choose_are_known() {
        let single = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        let multi = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
        assert_eq!(meaning("ProfilerStep#12"), Some(Meaning::Step(12)));
        assert_eq!(meaning(single), Some(Meaning::Loader(Some(true))));
        assert_eq!(meaning(multi), Some(Meaning::Loader(Some(false))));
        assert_eq!(meaning("Optimizer.step#SGD.step"), Some(Meaning::Framework));
        let compiles = "_compile.compile_inner (dynamo_timed)";
        assert_eq!(meaning(compiles), Some(Meaning::Compiles));
        for name in [
            "data",
            "data_next",
            "Data Loading",
            "next batch",
            "get_batch",
            "train_loader_next",
            "next(loader)",
            "[pl][profile][_EvaluationLoop].val_next",
        ] {
            assert_eq!(meaning(name), Some(Meaning::Data), "{name}");
        }
        let checkpoint = Some(Meaning::Marked(Cause::HostCheckpoint));
        assert_eq!(meaning("save_checkpoint"), checkpoint);
        assert_eq!(meaning("torch/serialization.py(945): save"), checkpoint);
        assert_eq!(meaning("torch/serialization.py(945): load"), None);
        assert_eq!(meaning("loader.py(7): __next__"), Some(Meaning::Data));
        assert_eq!(meaning("metrics/data_next.py(7): main"), None);
        for name in [
            "CheckpointFunction",
            "DataParallel.forward",
            "forward",
            "batch_norm",
            "data_parallel",
            "database",
            "next layer",
            "train_step",
        ] {
            assert_eq!(meaning(name), None, "{name}");
        }
    }
}
