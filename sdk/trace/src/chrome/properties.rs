//! What a finished file says of devices and ranks beside its events, under the keys of PyTorch's
//! profiler, so that tools for its files find them.

use crate::{DeviceInfo, DistributedInfo, Meta};
use serde::Serialize;

/// One of `deviceProperties`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Device<'a> {
    id: u32,
    name: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    total_global_mem: u64,
    #[serde(skip_serializing_if = "is_zero")]
    num_sms: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    uuid: &'a str,
}

impl<'a> Device<'a> {
    fn of(info: &'a DeviceInfo) -> Self {
        Self {
            id: info.id,
            name: &info.name,
            total_global_mem: info.memory_bytes,
            num_sms: info.multiprocessors.into(),
            uuid: &info.uuid,
        }
    }
}

/// `distributedInfo`.
#[derive(Serialize)]
struct Distributed {
    rank: u32,
    world_size: u32,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Appends the keys, each with a comma and a new line behind it; nothing where nothing is known.
pub(super) fn append(out: &mut Vec<u8>, meta: &Meta) {
    if !meta.devices.is_empty() {
        let devices: Vec<Device<'_>> = meta.devices.iter().map(Device::of).collect();
        key(out, "deviceProperties", &devices);
    }
    if let Some(DistributedInfo { rank, world_size }) = meta.distributed {
        key(out, "distributedInfo", &Distributed { rank, world_size });
    }
}

fn key(out: &mut Vec<u8>, name: &str, value: &impl Serialize) {
    out.extend_from_slice(format!("\"{name}\":").as_bytes());
    serde_json::to_writer(&mut *out, value).expect("a Vec takes every write");
    out.extend_from_slice(b",\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_rank_stand_under_the_keys_of_kineto() {
        let variable = |name: &str| match name {
            "RANK" => Some("1".to_owned()),
            "WORLD_SIZE" => Some("4".to_owned()),
            _ => None,
        };
        let meta = Meta {
            devices: vec![DeviceInfo {
                id: 0,
                name: "NVIDIA H200".into(),
                memory_bytes: 150_000_000_000,
                multiprocessors: 132,
                ..DeviceInfo::default()
            }],
            distributed: DistributedInfo::of(variable),
            ..Meta::default()
        };
        let mut out = Vec::new();
        append(&mut out, &meta);
        let text = String::from_utf8(out).expect("it is JSON");
        assert_eq!(
            text,
            "\"deviceProperties\":[{\"id\":0,\"name\":\"NVIDIA H200\",\"totalGlobalMem\":150000000000,\"numSms\":132}],\n\
             \"distributedInfo\":{\"rank\":1,\"world_size\":4},\n"
        );
    }

    #[test]
    fn a_process_that_trains_alone_has_no_rank() {
        assert_eq!(DistributedInfo::of(|_| None), None);
        assert_eq!(DistributedInfo::of(|_| Some("4".into())), None);
    }
}
