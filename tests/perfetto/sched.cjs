// Checks that the scheduler tracks that Perfetto makes of a trace are those that were recorded.
//
// usage: node sched.cjs DIRECTORY_OF_TRACE_PROCESSOR TRACE FILE_OF_ROWS
//
// FILE_OF_ROWS is what `cargo run -p gpustall-trace --example sched_rows -- TRACE` prints. Every
// recorded state of every thread must be a row of `thread_state`, to the nanosecond; the only other
// rows in which a thread does not run are `R`: another traced thread had the CPU, and the thread was
// off it for too short a time to be recorded, or moved. Exit code 0 when all holds, 1 otherwise.
'use strict';
const fs = require('fs');
const {TraceProcessor} = require('./trace_processor.cjs');

const COMPLAINTS =
  "select name, value from stats where severity in ('error', 'data_loss') and value > 0";

// Rows of no length come from putting a thread on a CPU where it was not seen to arrive.
const STATES = `
  select p.pid, t.tid, s.state, s.ts, s.dur from thread_state s
  join thread t using (utid) join process p using (upid)
  where s.dur != 0 and s.state not in ('Running', 'X')`;

// On one CPU one thread runs at a time, and each begins when the one before ends.
const OVERLAPS = `
  select count(*) from
    (select ts, lag(ts + dur) over (partition by cpu order by ts, id) as before,
      lag(dur) over (partition by cpu order by ts, id) as length from sched_slice)
  where before is not null and (before != ts or length < 0)`;

// A thread runs on one CPU at a time.
const TWICE = `
  select count(*) from
    (select ts, lag(ts + dur) over (partition by utid order by ts, id) as before
      from sched_slice where utid in (select utid from thread where tid != 0))
  where before is not null and before > ts`;

// The spans of `chrome_spans` in which it sleeps for 5 ms, and how long it was then asleep. They are on
// one clock and one thread if they agree.
const SLEEPS = `
  select s.name, (select sum(min(t.ts + t.dur, s.ts + s.dur) - max(t.ts, s.ts)) from thread_state t
      where t.utid = tt.utid and t.state = 'S' and t.dur > 0
        and t.ts < s.ts + s.dur and t.ts + t.dur > s.ts)
  from slice s join thread_track tt on tt.id = s.track_id
  where s.category = 'chrome_spans' and s.name = 'wait'`;
const SLEEP_NS = 5e6;

// How long the rows `R` beside the recorded ones may take, against the time off CPU that was not
// recorded one by one. They end when a CPU is seen to be free, which is a little later.
const SHORT_FACTOR = 2;

async function check(directory, trace, threads) {
  const faults = [];
  const fault = (text) => faults.length < 10 && faults.push(text);
  const processor = await TraceProcessor.start(directory);
  try {
    await processor.load(trace);
    for (const [name, value] of await processor.query(COMPLAINTS)) {
      fault(`Perfetto complains: ${name} = ${value}`);
    }
    for (const [sql, what] of [[OVERLAPS, 'CPU'], [TWICE, 'thread']]) {
      const n = await processor.number(sql);
      if (n > 0) fault(`${n} slices of a ${what} overlap or leave gaps`);
    }
    const cut = await processor.number(
      "select count(*) from slice where category = 'gpustall.left_out'");
    const rows = new Map();
    for (const [pid, tid, state, ts, dur] of await processor.query(STATES)) {
      const key = `${pid} ${tid}`;
      if (!rows.has(key)) rows.set(key, []);
      rows.get(key).push([state, Number(ts), Number(dur)]);
    }
    const sum = {threads: threads.length, recorded: 0, shown: 0, extra: 0, extra_ms: 0, short_ms: 0};
    for (const thread of threads) {
      const name = `thread ${thread.tid} of ${thread.pid}`;
      const expected = new Map();
      for (const state of thread.states) {
        const key = state.join(' ');
        expected.set(key, (expected.get(key) ?? 0) + 1);
      }
      sum.recorded += thread.states.length;
      let extra = 0;
      for (const row of rows.get(`${thread.pid} ${thread.tid}`) ?? []) {
        const key = row.join(' ');
        const left = expected.get(key) ?? 0;
        if (left > 0) {
          expected.set(key, left - 1);
          sum.shown++;
        } else if (row[0] === 'R') {
          sum.extra++;
          extra += Math.max(row[2], 0);
        } else {
          fault(`${name}: Perfetto has ${key}, which was not recorded`);
        }
      }
      const missing = [...expected].filter(([, n]) => n > 0);
      if (missing.length > 0 && cut === 0) {
        fault(`${name}: ${missing.length} states are missing, the first ${missing[0][0]}`);
      }
      sum.extra_ms += extra / 1e6;
      sum.short_ms += thread.short_ns / 1e6;
    }
    const sleeps = await processor.query(SLEEPS);
    sum.sleeps = sleeps.length;
    const awake = sleeps.filter(([, asleep]) => Number(asleep ?? 0) < SLEEP_NS);
    if (awake.length > 0) fault(`in ${awake.length} spans that sleep the thread was awake`);
    if (sum.shown === 0) fault('no state is shown');
    if (cut === 0 && sum.extra_ms > SHORT_FACTOR * sum.short_ms) {
      fault(`${sum.extra} rows R take ${sum.extra_ms} ms; only ${sum.short_ms} ms were too short`);
    }
    return {faults, summary: {...sum, cut: cut > 0}};
  } finally {
    processor.close();
  }
}

const [directory, trace, rows] = process.argv.slice(2);
check(directory, trace, JSON.parse(fs.readFileSync(rows))).then(
  ({faults, summary}) => {
    for (const fault of faults) console.log(`${trace}: ${fault}`);
    console.log(`${trace}: ${faults.length === 0 ? 'good' : 'BAD'} ${JSON.stringify(summary)}`);
    process.exit(faults.length === 0 ? 0 : 1);
  },
  (error) => {
    console.log(`${trace}: Perfetto refuses it: ${error.message}`);
    process.exit(1);
  },
);
