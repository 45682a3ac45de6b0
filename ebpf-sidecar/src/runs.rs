//! Stacks of samples as runs with names, each held once.

use crate::mapped::Mapped;
use crate::programs::Programs;
use crate::recording::RunId;
use crate::run::{self, Run};
use crate::symbols::{Function, KernelSymbols};
use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{Input, Symbolized};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Most names of functions that are kept for later samples: a few MB.
const MAX_NAMES: usize = 50_000;

/// Addresses of one sample: of which process, in the kernel, in the program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Stacks {
    /// The process.
    pub(crate) pid: u32,
    /// Addresses in the kernel, the innermost first.
    pub(crate) kernel: Vec<u64>,
    /// Addresses in the program, the innermost first.
    pub(crate) user: Vec<u64>,
}

/// What stands at an address of a program.
#[derive(Debug)]
struct Place {
    name: String,
    /// Whether it is in a library that compiles code for devices.
    compiles: bool,
}

/// The runs of one recording.
#[derive(Default)]
pub(crate) struct Runs {
    list: Vec<Stacks>,
    by_stacks: HashMap<Stacks, RunId>,
    /// Names of addresses in programs.
    names: HashMap<(u32, u64), Place>,
    /// Addresses that were not looked up yet, by process.
    unnamed: BTreeMap<u32, Vec<u64>>,
}

impl Runs {
    /// The run on these stacks.
    pub(crate) fn id(&mut self, stacks: Stacks) -> RunId {
        if let Some(&id) = self.by_stacks.get(&stacks) {
            return id;
        }
        let id = RunId(self.list.len() as u32);
        for address in places(&stacks.user) {
            if !self.names.contains_key(&(stacks.pid, address)) {
                self.unnamed.entry(stacks.pid).or_default().push(address);
            }
        }
        self.list.push(stacks.clone());
        self.by_stacks.insert(stacks, id);
        id
    }

    /// Looks up the names of the program's functions that are not known yet, while the processes
    /// live. Takes some ten milliseconds the first time that it meets a large program.
    pub(crate) fn look_up(&mut self, programs: &mut Programs) {
        for (pid, mut addresses) in std::mem::take(&mut self.unnamed) {
            addresses.sort_unstable();
            addresses.dedup();
            let source = Source::from(process(pid));
            let mapped = Mapped::of(pid);
            let symbolizer = programs.of(pid);
            // First by the files that are mapped there, then by the functions in them.
            for &address in &addresses {
                if let Some(file) = mapped.file(address) {
                    let name = format!("[{}]", file.name);
                    let compiles = file.compiles_for_devices();
                    self.names.insert((pid, address), Place { name, compiles });
                }
            }
            let mut find = |addresses: &[u64]| -> bool {
                let found = symbolizer.symbolize(&source, Input::AbsAddr(addresses));
                for (&address, symbol) in addresses.iter().zip(found.iter().flatten()) {
                    if let Symbolized::Sym(symbol) = symbol {
                        let name = symbol.name.clone().into_owned();
                        let known = self.names.get(&(pid, address));
                        let compiles = known.is_some_and(|place| place.compiles);
                        self.names.insert((pid, address), Place { name, compiles });
                    }
                }
                found.is_ok()
            };
            // One file that cannot be read fails them all: then one by one. The names of a process
            // that is gone, or not ours to read, stay unknown.
            if !find(&addresses) && Path::new(&format!("/proc/{pid}")).exists() {
                for address in addresses {
                    find(&[address]);
                }
            }
        }
    }

    /// All of them, with names; none is known afterwards.
    pub(crate) fn take(&mut self, symbols: &KernelSymbols) -> Vec<Run> {
        self.by_stacks.clear();
        let list = std::mem::take(&mut self.list);
        let named = |stacks: Stacks| {
            let kernel = stacks.kernel.iter().filter_map(|&ip| symbols.at(ip));
            let kernel: Vec<Function<'_>> = kernel.collect();
            let mut compiles = false;
            let user = places(&stacks.user).map(|address| {
                let place = self.names.get(&(stacks.pid, address));
                compiles |= place.is_some_and(|place| place.compiles);
                place.map_or_else(|| "?".to_owned(), |place| place.name.clone())
            });
            let user = user.collect();
            run::classify(&kernel, user, compiles)
        };
        let runs = list.into_iter().map(named).collect();
        if self.names.len() > MAX_NAMES {
            self.names.clear();
        }
        runs
    }
}

/// How the files of a process are found. The kernel's own links to them are right in every mount
/// namespace, but only root can follow them; in our own namespace their paths are as good.
fn process(pid: u32) -> Process {
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let ours = namespace("self");
    let mut process = Process::new(pid.into());
    let same = ours.is_some() && ours == namespace(&pid.to_string());
    process.map_files = !same || std::fs::read_dir(format!("/proc/{pid}/map_files")).is_ok();
    // The symbol table has all that is shown; debug information takes seconds to read.
    process.debug_syms = false;
    process
}

/// The addresses in whose functions the frames are: a return address may lie behind its function.
fn places(frames: &[u64]) -> impl Iterator<Item = u64> {
    let caller = |(n, &ip): (usize, &u64)| if n == 0 { ip } else { ip.saturating_sub(1) };
    frames.iter().enumerate().map(caller)
}
