// Checks that Perfetto takes a trace without complaint and shows every row that it must.
//
// usage: node check.cjs DIRECTORY_OF_TRACE_PROCESSOR TRACE [ROWS_JSON]
//
// ROWS_JSON is what `cargo run -p gpustall-trace --example trace_rows -- TRACE` prints; a number
// that is absent or null is not compared. Exit code 0 when all holds, 1 otherwise.
'use strict';
const {TraceProcessor} = require('./trace_processor.cjs');

const COMPLAINTS =
  "select name, value from stats where severity in ('error', 'data_loss') and value > 0";

// Slices and instants, which Perfetto shows as slices without a length, without the instants that
// the writer adds where an arrow ends, and where scheduler tracks are not complete.
const THREAD_ROWS = `
  select count(*) from slice
  where track_id in (select id from thread_track)
    and coalesce(arg_set_id, -1) not in
      (select arg_set_id from args where key = 'args.flow_marker')
    and coalesce(category, '') != 'gpustall.left_out'`;
const ASYNC_ROWS = `
  select count(*) from slice where track_id not in (select id from thread_track)`;

const TIMES = `
  select coalesce(sum(ts), 0), coalesce(sum(dur), 0) from slice
  where dur > 0 and track_id in (select id from thread_track)`;

// The `batch` flows: for both ends the categories of the slice and of the one around it, and the
// thread.
const BATCH_FLOWS = `
  select o.category, coalesce(op.category, ''), i.category, coalesce(ip.category, ''),
    ot.utid, it.utid
  from flow f
  join slice o on o.id = f.slice_out join thread_track ot on ot.id = o.track_id
  join slice i on i.id = f.slice_in join thread_track it on it.id = i.track_id
  left join slice op on op.id = o.parent_id left join slice ip on ip.id = i.parent_id
  join args a on a.arg_set_id = f.arg_set_id and a.key = 'cat'
  where a.string_value = 'batch'`;

// Whether an arrow leads from the stage that finished a batch to the wait that took it. The writer
// of a partial file does not know the slices: there Perfetto may take a child that ended, and
// turns round the arrow to a wait that began first.
function leadsToWait([from, fromParent, to, toParent, fromThread, toThread], partial) {
  if (fromThread === toThread) return false;
  if (!partial) return from === 'data_collate' && to === 'data_wait';
  const made = (...cats) => cats.includes('data_collate');
  const taken = (...cats) => cats.includes('data_wait');
  return (made(from, fromParent) && taken(to, toParent)) ||
    (taken(from, fromParent) && made(to, toParent));
}

async function check(directory, trace, rows) {
  const faults = [];
  const equal = (what, found, expected) => {
    if (expected !== undefined && expected !== null && found !== expected) {
      faults.push(`${what}: Perfetto has ${found}, the file ${expected}`);
    }
  };
  const processor = await TraceProcessor.start(directory);
  try {
    await processor.load(trace);
    for (const [name, value] of await processor.query(COMPLAINTS)) {
      faults.push(`Perfetto complains: ${name} = ${value}`);
    }
    const threadRows = await processor.number(THREAD_ROWS);
    const asyncRows = await processor.number(ASYNC_ROWS);
    if (rows.instants !== undefined && rows.instants !== null) {
      equal('slices and instants', threadRows, rows.slices + rows.instants);
    } else if (rows.slices !== undefined && threadRows < rows.slices) {
      faults.push(`slices: Perfetto has ${threadRows}, the file ${rows.slices}`);
    }
    const [[starts, lengths]] = await processor.query(TIMES);
    equal('sum of starts', Number(starts), rows.sum_of_starts_ns);
    equal('sum of lengths', Number(lengths), rows.sum_of_lengths_ns);
    equal('async slices', asyncRows, rows.async_slices);
    equal('counter samples', await processor.number('select count(*) from counter'), rows.counters);
    equal('flows', await processor.number('select count(*) from flow'), rows.flows);
    const batches = await processor.query(BATCH_FLOWS);
    equal('batch flows', batches.length, rows.batch_flows);
    const wrong = batches.filter((flow) => !leadsToWait(flow, rows.partial));
    if (wrong.length > 0) {
      faults.push(`${wrong.length} batch flows do not lead from a collate to a wait on another ` +
        `thread, the first from ${wrong[0][0]} to ${wrong[0][2]}`);
    }
    const summary = {thread_rows: threadRows, async: asyncRows, batches: batches.length};
    return {faults, summary};
  } finally {
    processor.close();
  }
}

module.exports = {check};

if (require.main === module) {
  const [directory, trace, rows] = process.argv.slice(2);
  check(directory, trace, rows ? JSON.parse(rows) : {}).then(
    ({faults, summary}) => {
      for (const fault of faults) console.log(`${trace}: ${fault}`);
      if (faults.length === 0) console.log(`${trace}: good ${JSON.stringify(summary)}`);
      process.exit(faults.length === 0 ? 0 : 1);
    },
    (error) => {
      console.log(`${trace}: Perfetto refuses it: ${error.message}`);
      process.exit(1);
    },
  );
}
