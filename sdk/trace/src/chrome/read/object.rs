//! The object form: a finished file. Its block is read; its events only when the block is not
//! there.

use super::rebuild::Rebuild;
use super::scan::{Scanner, Stop};
use crate::block::Decoder;
use crate::schema::{PRODUCER, TRACE_SCHEMA};
use crate::{Meta, Trace};
use std::io::BufRead;

/// What an object had.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// It names us as its producer, or has our block.
    pub(super) ours: bool,
    /// It has a list of Chrome events.
    pub(super) events: bool,
    /// The newest schema that it names.
    pub(super) schema: u32,
    /// The trace from the block.
    pub(super) trace: Option<Trace>,
    /// Chunks of kinds that this build does not know.
    pub(super) unknown_chunks: u64,
    /// The report could not be read.
    pub(super) report_lost: bool,
    /// Why the block is of no use, or where the file stops being one.
    pub(super) damage: Option<String>,
}

/// Reads the block, and passes over the events.
pub(super) fn block(text: &mut dyn BufRead) -> Found {
    let mut found = Found::default();
    let mut scanner = Scanner::new(text);
    let result = scanner.object(|scanner, key| match key {
        "otherData" => header(scanner, &mut found),
        "traceEvents" => {
            found.events = true;
            scanner.value(None)
        }
        "gpustall" => {
            found.ours = true;
            our_block(scanner, &mut found)
        }
        _ => scanner.value(None),
    });
    if let Err(stop) = result {
        found.damage.get_or_insert_with(|| describe(&stop));
    } else if found.trace.is_none() {
        found
            .damage
            .get_or_insert_with(|| "it has no \"gpustall\" block".into());
    }
    found
}

/// Reads the events of either form into `rebuild`, wherever its lines end. Returns how many could not be used, and whether the list was
/// read to its end.
pub(super) fn events(text: &mut dyn BufRead, rebuild: &mut Rebuild) -> (u64, bool) {
    let mut scanner = Scanner::new(text);
    if matches!(scanner.peek(), Ok(b'[')) {
        return event_list(&mut scanner, rebuild);
    }
    let mut read = (0, false);
    // Where the text stops being JSON, the events before that are kept.
    let _ = scanner.object(|scanner, key| {
        if key != "traceEvents" {
            return scanner.value(None);
        }
        read = event_list(scanner, rebuild);
        if read.1 { Ok(()) } else { Err(Stop::End) }
    });
    read
}

fn event_list(scanner: &mut Scanner<'_>, rebuild: &mut Rebuild) -> (u64, bool) {
    let (mut unusable, mut json) = (0, Vec::new());
    let whole = scanner.array(|scanner| {
        json.clear();
        scanner.value(Some(&mut json))?;
        unusable += u64::from(rebuild.add(&json).is_err());
        Ok(())
    });
    (unusable, whole.is_ok())
}

fn header(scanner: &mut Scanner<'_>, found: &mut Found) -> Result<(), Stop> {
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct Header {
        producer: String,
        schema: u32,
    }
    let mut json = Vec::new();
    scanner.value(Some(&mut json))?;
    // Another program's may look different.
    let header: Header = serde_json::from_slice(&json).unwrap_or_default();
    if header.producer == PRODUCER {
        found.ours = true;
        found.schema = found.schema.max(header.schema);
    }
    Ok(())
}

fn our_block(scanner: &mut Scanner<'_>, found: &mut Found) -> Result<(), Stop> {
    let mut json = Vec::new();
    let mut decoder = Decoder::default();
    let mut meta: Option<Meta> = None;
    let mut report = None;
    let mut count: Option<u64> = None;
    let mut damage: Option<String> = None;
    let schema = &mut found.schema;
    let report_lost = &mut found.report_lost;
    scanner.object(|scanner, key| {
        json.clear();
        match key {
            "schema" => {
                scanner.value(Some(&mut json))?;
                *schema = serde_json::from_slice(&json).unwrap_or(*schema);
            }
            _ if *schema > TRACE_SCHEMA => scanner.value(None)?,
            "meta" => {
                scanner.value(Some(&mut json))?;
                meta = serde_json::from_slice(&json).ok();
            }
            "chunks" => scanner.array(|scanner| {
                json.clear();
                if damage.is_some() {
                    return scanner.value(None);
                }
                scanner.value(Some(&mut json))?;
                damage = decoder.add(&json).err();
                Ok(())
            })?,
            "report" => {
                scanner.value(Some(&mut json))?;
                report = serde_json::from_slice(&json).ok();
                *report_lost = report.is_none();
            }
            "chunk_count" => {
                scanner.value(Some(&mut json))?;
                count = serde_json::from_slice(&json).ok();
            }
            _ => scanner.value(None)?,
        }
        Ok(())
    })?;
    found.unknown_chunks = decoder.unknown();
    let whole = count == Some(decoder.chunks());
    match (damage, meta, whole) {
        (Some(damage), ..) => found.damage = Some(damage),
        (None, Some(meta), true) => {
            let mut trace = decoder.into_trace();
            trace.meta = meta;
            trace.report = report;
            found.trace = Some(trace);
        }
        (None, None, _) => found.damage = Some("its meta cannot be read".into()),
        (None, _, false) => found.damage = Some("chunks of it are missing".into()),
    }
    Ok(())
}

fn describe(stop: &Stop) -> String {
    match stop {
        Stop::Io(error) => format!("reading stopped: {error}"),
        Stop::End => "the file is cut off".into(),
        Stop::Syntax => "the file is not valid JSON".into(),
        Stop::TooLong => "one value in it is absurdly long".into(),
    }
}
