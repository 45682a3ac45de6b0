//! Devices of several processes: what each calls 0 may be another card.

use super::super::Part;
use super::apart::Space;
use crate::vocab::{arg, cat};
use crate::{DeviceInfo, Pid, Symbol, Trace, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Where viewers put devices: below the processes.
const SORT: i32 = 5_000_000;

/// What tells a device from all others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Card {
    Uuid(String),
    /// The number that a rank, or a process without one, has for it.
    Number(Space, Option<u32>, u32),
}

/// Gives each device one number in all recordings. Returns those that each recording has operations of.
pub(super) fn number(parts: &mut [Part], spaces: &[Space]) -> Vec<Vec<u32>> {
    let used: Vec<BTreeSet<u32>> = parts.iter().map(|part| used(&part.trace)).collect();
    let mut numbers = Numbers::default();
    // What was read of the whole machine, and used by no process, has the machine's own numbers.
    for (part, used) in parts.iter().zip(&used) {
        let all = part.trace.meta.devices.iter().filter(|_| used.is_empty());
        for info in all.filter(|info| !info.uuid.is_empty()) {
            numbers.of(Card::Uuid(info.uuid.clone()), info.id);
        }
    }
    let mut streams: HashMap<u32, (Vec<(Space, Pid)>, u64)> = HashMap::new();
    let mut list = Vec::with_capacity(parts.len());
    for ((part, &space), used) in parts.iter_mut().zip(spaces).zip(used) {
        let label = part.trace.meta.pid;
        let trace = &mut part.trace;
        let grouped: BTreeSet<u32> = device_pids(trace).into_values().collect();
        let mut moved: BTreeMap<u32, u32> = BTreeMap::new();
        for &device in used.union(&grouped) {
            moved.insert(device, numbers.of(card(trace, space, device), device));
        }
        for info in &trace.meta.devices {
            if !info.uuid.is_empty() {
                let number = numbers.of(Card::Uuid(info.uuid.clone()), info.id);
                moved.entry(info.id).or_insert(number);
            }
        }
        renumber(trace, &moved);
        let own: Vec<u32> = used
            .iter()
            .filter_map(|of| moved.get(of).copied())
            .collect();
        let mut raised = HashMap::new();
        for &device in &own {
            let (processes, next) = streams.entry(device).or_default();
            let known = processes.contains(&(space, label));
            if !known && !processes.is_empty() {
                raised.insert(u64::from(device), *next);
            }
            if !known {
                processes.push((space, label));
            }
        }
        if !raised.is_empty() {
            raise_streams(trace, &raised);
        }
        for (device, largest) in largest_streams(trace) {
            if let Some((_, next)) = streams.get_mut(&device) {
                *next = largest.saturating_add(1).max(*next);
            }
        }
        list.push(own);
    }
    list
}

/// The numbers of cards so far.
#[derive(Default)]
struct Numbers {
    of: HashMap<Card, u32>,
    taken: BTreeSet<u32>,
}

impl Numbers {
    /// The number of a card; a new one keeps `wish` if that is free.
    fn of(&mut self, card: Card, wish: u32) -> u32 {
        if let Some(&number) = self.of.get(&card) {
            return number;
        }
        let mut free = [wish].into_iter().chain(0..=u32::MAX);
        let number = free.find(|number| !self.taken.contains(number));
        let number = number.unwrap_or(wish);
        self.taken.insert(number);
        self.of.insert(card, number);
        number
    }
}

fn card(trace: &Trace, space: Space, device: u32) -> Card {
    let info = trace.meta.devices.iter().find(|info| info.id == device);
    match info.filter(|info| !info.uuid.is_empty()) {
        Some(info) => Card::Uuid(info.uuid.clone()),
        None => Card::Number(space, trace.meta.distributed.map(|of| of.rank), device),
    }
}

/// Devices of which there are operations.
fn used(trace: &Trace) -> BTreeSet<u32> {
    let cats = [cat::KERNEL, cat::GPU_MEMCPY, cat::GPU_MEMSET];
    let cats = cats.map(|cat| trace.strings.find(cat));
    let ops = trace.slices.iter().filter(|s| cats.contains(&Some(s.cat)));
    let key = trace.strings.find(arg::DEVICE);
    ops.map(|slice| device_of(&slice.args, key).unwrap_or(0))
        .collect()
}

fn device_of(args: &[(Symbol, Value)], key: Option<Symbol>) -> Option<u32> {
    let (_, value) = args.iter().find(|(of, _)| Some(*of) == key)?;
    u32::try_from(value.as_u64()?).ok()
}

/// The processes that group streams of devices, and the numbers of these: as their operations say, else
/// by the id.
fn device_pids(trace: &Trace) -> BTreeMap<Pid, u32> {
    let key = trace.strings.find(arg::DEVICE);
    let mut pids: BTreeMap<Pid, u32> = BTreeMap::new();
    for process in trace.processes.iter().filter(|p| p.pid.is_device()) {
        pids.insert(process.pid, process.pid.0 - Pid::FIRST_DEVICE);
    }
    let mut seen = BTreeSet::new();
    for slice in &trace.slices {
        let Some(track) = trace
            .track(slice.track)
            .filter(|track| track.pid.is_device())
        else {
            continue;
        };
        if let Some(device) = device_of(&slice.args, key)
            && seen.insert(track.pid)
        {
            pids.insert(track.pid, device);
        }
    }
    pids
}

/// Replaces the numbers of devices everywhere.
fn renumber(trace: &mut Trace, moved: &BTreeMap<u32, u32>) {
    let infos: Vec<DeviceInfo> = (trace.meta.devices.iter())
        .filter_map(|info| {
            let id = *moved.get(&info.id)?;
            Some(DeviceInfo { id, ..info.clone() })
        })
        .collect();
    let pids: BTreeMap<Pid, u32> = (device_pids(trace).into_iter())
        .filter_map(|(pid, device)| Some((pid, *moved.get(&device)?)))
        .collect();
    for process in &mut trace.processes {
        let Some(&number) = pids.get(&process.pid) else {
            continue;
        };
        let name = trace.strings.get(process.name);
        let model = name.split_once(" (").map(|(_, model)| model.to_owned());
        let name = match model {
            Some(model) => format!("GPU {number} ({model}"),
            None => format!("GPU {number}"),
        };
        process.name = trace.strings.intern(&name);
        process.sort = SORT.saturating_add(i32::try_from(number).unwrap_or(0));
        process.pid = Pid::of_device(number);
    }
    let pid = |of: &mut Pid| {
        if let Some(&number) = pids.get(of) {
            *of = Pid::of_device(number);
        }
    };
    trace.tracks.iter_mut().for_each(|of| pid(&mut of.pid));
    (trace.counter_series.iter_mut()).for_each(|of| pid(&mut of.pid));
    (trace.async_slices.iter_mut()).for_each(|of| pid(&mut of.pid));
    for member in &mut trace.meta.members {
        let number = |of: &mut u32| *of = moved.get(of).copied().unwrap_or(*of);
        member.devices.iter_mut().for_each(number);
    }
    trace.meta.devices = infos;
    if moved.iter().all(|(old, new)| old == new) {
        return;
    }
    let Some(key) = trace.strings.find(arg::DEVICE) else {
        return;
    };
    for (of, value) in trace
        .slices
        .iter_mut()
        .flat_map(|slice| slice.args.iter_mut())
    {
        let old = value.as_u64().filter(|_| *of == key);
        let old = old.and_then(|old| u32::try_from(old).ok());
        if let Some(new) = old.and_then(|old| moved.get(&old)) {
            *value = Value::U64(u64::from(*new));
        }
    }
}

/// The largest stream of each device.
fn largest_streams(trace: &Trace) -> BTreeMap<u32, u64> {
    let keys = [arg::STREAM, arg::WAIT_ON_STREAM].map(|key| trace.strings.find(key));
    let device = trace.strings.find(arg::DEVICE);
    let mut largest: BTreeMap<u32, u64> = BTreeMap::new();
    for slice in &trace.slices {
        let Some(device) = device_of(&slice.args, device) else {
            continue;
        };
        let streams = slice
            .args
            .iter()
            .filter(|(key, _)| keys.contains(&Some(*key)));
        // Some numbers stand for none.
        let streams = streams.filter_map(|(_, value)| value.as_u64());
        if let Some(most) = streams.filter(|n| *n < u64::from(u32::MAX)).max() {
            let largest = largest.entry(device).or_default();
            *largest = most.max(*largest);
        }
    }
    largest
}

/// Adds to the numbers of the streams of devices that another process used before, and says of which
/// process they are.
fn raise_streams(trace: &mut Trace, raised: &HashMap<u64, u64>) {
    let keys = [arg::STREAM, arg::WAIT_ON_STREAM].map(|key| trace.strings.find(key));
    let device = trace.strings.find(arg::DEVICE);
    for slice in &mut trace.slices {
        let of = device_of(&slice.args, device).map(u64::from);
        let Some(add) = of.and_then(|of| raised.get(&of)) else {
            continue;
        };
        for (key, value) in &mut slice.args {
            let stream = value.as_u64().filter(|n| *n < u64::from(u32::MAX));
            if let Some(stream) = stream.filter(|_| keys.contains(&Some(*key))) {
                *value = Value::U64(stream.saturating_add(*add));
            }
        }
    }
    for track in &mut trace.tracks {
        let device = track
            .pid
            .is_device()
            .then(|| track.pid.0 - Pid::FIRST_DEVICE);
        if device.is_some_and(|device| raised.contains_key(&u64::from(device))) {
            let name = format!("{} of {}", trace.strings.get(track.name), trace.meta.pid);
            track.name = trace.strings.intern(&name);
        }
    }
}
