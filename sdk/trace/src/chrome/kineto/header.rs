//! What stands in a file beside its events.

use crate::{DeviceInfo, DistributedInfo};
use serde_json::Value;

/// Longest value beside the events that is looked at, in bytes.
pub(super) const HEADER_BYTES: usize = 1 << 20;

/// What was found there.
#[derive(Debug, Default)]
pub(super) struct Header {
    /// Keys that only Kineto writes.
    pub(super) kineto: bool,
    /// What the file calls itself.
    pub(super) name: Option<String>,
    /// Nanoseconds since the Unix epoch from which times are counted; 0 if it is not given.
    pub(super) base_ns: i64,
    pub(super) devices: Vec<DeviceInfo>,
    /// The rank, where several train together.
    pub(super) distributed: Option<DistributedInfo>,
    /// It has the block of gpustall, or names gpustall as its producer.
    pub(super) ours: bool,
}

impl Header {
    /// Takes in the value of a key; `json` is cut at [`HEADER_BYTES`].
    pub(super) fn set(&mut self, key: &str, json: &[u8]) {
        match key {
            "schemaVersion" | "trace_id" => self.kineto = true,
            "distributedInfo" => {
                self.kineto = true;
                let info = serde_json::from_slice::<Value>(json).ok();
                self.distributed = info.as_ref().and_then(rank).or(self.distributed);
            }
            "traceName" => {
                self.kineto = true;
                self.name = serde_json::from_slice(json).ok().or(self.name.take());
            }
            "baseTimeNanoseconds" => {
                self.kineto = true;
                self.base_ns = serde_json::from_slice(json).unwrap_or(self.base_ns);
            }
            "deviceProperties" => {
                self.kineto = true;
                if let Ok(Value::Array(list)) = serde_json::from_slice(json) {
                    self.devices = list.iter().filter_map(device).collect();
                }
            }
            "otherData" => {
                let producer = serde_json::from_slice::<Value>(json).ok().and_then(|data| {
                    Some(data.get("producer")?.as_str()? == crate::schema::PRODUCER)
                });
                self.ours |= producer == Some(true);
            }
            _ => {}
        }
    }
}

fn rank(info: &Value) -> Option<DistributedInfo> {
    let number = |key: &str| u32::try_from(info.get(key)?.as_u64()?).ok();
    let (rank, world_size) = (number("rank")?, number("world_size")?);
    (rank < world_size).then_some(DistributedInfo { rank, world_size })
}

fn device(properties: &Value) -> Option<DeviceInfo> {
    let number = |key: &str| properties.get(key).and_then(Value::as_u64);
    Some(DeviceInfo {
        id: u32::try_from(number("id")?).ok()?,
        name: properties
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .into(),
        memory_bytes: number("totalGlobalMem").unwrap_or(0),
        multiprocessors: number("numSms")
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(0),
        uuid: properties
            .get("uuid")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .into(),
    })
}
