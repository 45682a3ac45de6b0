// Prints how long Perfetto's trace processor takes to load a trace, and the most memory it had.
//
// usage: node load.cjs DIRECTORY_OF_TRACE_PROCESSOR TRACE
'use strict';
const path = require('path');
const {TraceProcessor} = require(
  path.join(__dirname, '../../../../tests/perfetto/trace_processor.cjs'));

async function main([directory, trace]) {
  const processor = await TraceProcessor.start(directory);
  const begun = process.hrtime.bigint();
  await processor.load(trace);
  const seconds = Number(process.hrtime.bigint() - begun) / 1e9;
  const slices = await processor.number('select count(*) from slice');
  processor.close();
  const peak = process.resourceUsage().maxRSS * 1024;
  console.log(JSON.stringify({slices, seconds, peak_rss_bytes: peak}));
}

main(process.argv.slice(2)).catch((error) => {
  console.log(`Perfetto refuses it: ${error.message}`);
  process.exit(1);
});
