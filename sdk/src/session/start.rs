//! From a description to a running session.

use super::Active;
use super::builder::SessionBuilder;
use crate::error::SessionError;
use crate::layer;
use crate::recorder::emit::Emitter;
use crate::recorder::gate::Generation;
use crate::recorder::ring::Exchange;
use crate::recorder::writer::WriterThread;
use crate::sidecar::Connection;
use gpustall_trace::{
    EventRef, Meta, MonotonicClock, PartialWriter, Pid, State, WriteError, partial_path,
};
use parking_lot::Mutex;

impl Active {
    pub(super) fn start(builder: SessionBuilder) -> Result<Self, SessionError> {
        let start = MonotonicClock::read();
        let output = std::path::absolute(&builder.output).unwrap_or(builder.output.clone());
        let meta = Meta {
            name: builder.name,
            recorder: env!("CARGO_PKG_VERSION").to_owned(),
            start_mono: start,
            start_unix_ns: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |d| d.as_nanos() as u64),
            pid: Pid(std::process::id()),
            cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
            state: State::Partial,
            distributed: gpustall_trace::DistributedInfo::of(|name| std::env::var(name).ok()),
            job: gpustall_trace::job_of(|name| std::env::var(name).ok()),
            boot: gpustall_trace::boot_id(),
            ..Meta::default()
        };
        let partial_path = partial_path(&output);
        // Fail now rather than after hours of training.
        if output.is_dir() {
            return Err(SessionError::Output(WriteError::Create {
                path: builder.output,
                source: std::io::ErrorKind::IsADirectory.into(),
            }));
        }
        let mut partial =
            PartialWriter::create(&partial_path, &meta).map_err(SessionError::Output)?;
        if let Some(kept) = partial.kept() {
            let text = format!(
                "an earlier recording that was never finished is kept as {}",
                kept.display()
            );
            partial.push(&EventRef::Note { text: &text });
        }
        let generation = Generation::next();
        let exchange = Exchange::new(generation);
        exchange.publish();
        if let Some(text) = layer::attach(builder.subscriber) {
            partial.push(&EventRef::Note { text });
        }
        #[cfg_attr(
            not(feature = "cuda"),
            allow(unused_mut, reason = "only devices are added")
        )]
        let mut emitter = Emitter::new(partial, start, meta.pid, &process_name(), &meta.name);
        #[cfg(feature = "cuda")]
        emitter.start_devices();
        let sidecar = Connection::begin(builder.sidecar, start);
        let kernel = sidecar.as_ref().map(|s| s.events(builder.max_events));
        let writer = WriterThread::spawn(exchange.clone(), emitter, kernel, builder.max_events)
            .map_err(|error| {
                Exchange::withdraw();
                SessionError::Thread(error)
            })?;
        if let Some(sidecar) = &sidecar {
            sidecar.wait_for_the_start();
        }
        crate::instrument::sample_items(builder.item_sampling);
        generation.open();
        layer::session_changed();
        Ok(Self {
            meta,
            output,
            shown: builder.output,
            partial: partial_path,
            generation,
            exchange,
            writer,
            sidecar,
            paused: Mutex::new(None),
        })
    }
}

fn process_name() -> String {
    std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "trainer".to_owned())
}
