//! The devices that the process sees, asked of the driver that it has loaded.
#![allow(
    unsafe_code,
    reason = "calls a C library; every call stands in this file"
)]

use gpustall_trace::DeviceInfo;
use libloading::os::unix::Library;
use std::ffi::{CStr, c_char, c_int};

/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
const MULTIPROCESSORS: c_int = 16;
/// Devices at most; no machine has more.
const MOST: c_int = 64;

/// The devices of this process. Empty if it has not loaded the driver, or not started it.
pub fn devices() -> Vec<DeviceInfo> {
    // SAFETY: it only finds a library that is loaded already.
    let library = unsafe {
        Library::open(
            Some("libcuda.so.1"),
            libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NOLOAD,
        )
    };
    let Ok(library) = library else {
        return Vec::new();
    };
    // SAFETY: the types are those of the header of CUDA 12, unchanged since version 3.2, and
    // every pointer is to a place of the right size.
    unsafe {
        type Get = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
        type Name = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
        type Memory = unsafe extern "C" fn(*mut usize, c_int) -> c_int;
        type Uuid = unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_int;
        type Attribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
        let count = library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>("cuDeviceGetCount\0");
        let get = library.get::<Get>("cuDeviceGet\0");
        let name = library.get::<Name>("cuDeviceGetName\0");
        let memory = library.get::<Memory>("cuDeviceTotalMem_v2\0");
        let attribute = library.get::<Attribute>("cuDeviceGetAttribute\0");
        // The second one tells the parts of a divided card apart; older drivers have the first only.
        let uuid = (library.get::<Uuid>("cuDeviceGetUuid_v2\0"))
            .or_else(|_| library.get::<Uuid>("cuDeviceGetUuid\0"));
        let (Ok(count), Ok(get), Ok(name), Ok(memory), Ok(attribute)) =
            (count, get, name, memory, attribute)
        else {
            return Vec::new();
        };
        let mut devices = 0;
        if count(&raw mut devices) != 0 {
            return Vec::new();
        }
        let mut found = Vec::new();
        for number in 0..devices.min(MOST) {
            let mut device = 0;
            if get(&raw mut device, number) != 0 {
                continue;
            }
            let mut text: [c_char; 256] = [0; 256];
            let mut bytes = 0_usize;
            let mut processors = 0;
            name(text.as_mut_ptr(), 255, device);
            memory(&raw mut bytes, device);
            attribute(&raw mut processors, MULTIPROCESSORS, device);
            let mut id = [0_u8; 16];
            let known = uuid
                .as_ref()
                .is_ok_and(|uuid| uuid(&raw mut id, device) == 0);
            found.push(DeviceInfo {
                id: number as u32,
                name: CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned(),
                memory_bytes: bytes as u64,
                multiprocessors: processors.max(0) as u32,
                uuid: if known { uuid_text(id) } else { String::new() },
            });
        }
        found
    }
}

/// As `nvidia-smi -L` prints it.
fn uuid_text(id: [u8; 16]) -> String {
    let mut text = "GPU".to_owned();
    for (at, byte) in id.iter().enumerate() {
        if [0, 4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_uuid_is_written_as_nvidia_smi_writes_it() {
        let id = std::array::from_fn(|at| at as u8 * 17);
        assert_eq!(
            super::uuid_text(id),
            "GPU-00112233-4455-6677-8899-aabbccddeeff"
        );
    }
}
