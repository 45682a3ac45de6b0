// node shoot.cjs UI_FOLDER TRACE_FOLDER OUT_FOLDER: a picture of every trace in Perfetto's own UI,
// with the tracks pinned that a reader needs, cut to them.
const fs = require('fs'), http = require('http'), path = require('path');
const puppeteer = require('puppeteer-core');
const [ui, traces, out] = process.argv.slice(2).map(p => path.resolve(p));
const TYPES = {html: 'text/html', js: 'text/javascript', css: 'text/css', wasm: 'application/wasm', json: 'application/json'};
const sleep = ms => new Promise(r => setTimeout(r, ms));
// The tracks that a reader needs: the chains, the streams and the state of a device, threads. Where the
// host runs ahead of the device, its threads show nothing there.
const DEVICE = 'device state|^stream \\d+ \\d+$|starvation chains';
const THREADS = '^(main|dataloader-\\d+|thread \\d+( \\(.*\\))?|python3?|device_mix|pt_autograd_\\d+) \\d+$';
const tracks = cause => /^(comm|gpu)\./.test(cause) ? DEVICE : `${DEVICE}|${THREADS}`;

// The UI of the wheel asks for `localtrace` by itself when it is opened.
let current;
const server = http.createServer((request, response) => {
  const url = decodeURIComponent(request.url.split('?')[0]);
  const answer = (type, data) => { response.writeHead(200, {'Content-Type': type}); response.end(data); };
  if (url.endsWith('vizviewer_info') || url.endsWith('file_info')) { answer(TYPES.json, '{}'); return; }
  const file = url.endsWith('localtrace') ? path.join(traces, current) : path.join(ui, url === '/' ? 'index.html' : url);
  fs.readFile(file, (error, data) => {
    if (error) { response.writeHead(404); response.end(); return; }
    answer(TYPES[path.extname(file).slice(1)] || 'application/octet-stream', data);
  });
});

// Opens the trace and waits until its tracks are there.
async function open(page, base, file) {
  current = file;
  await page.goto('about:blank');
  await page.goto(base, {waitUntil: 'domcontentloaded'});
  await page.waitForFunction(() => window.app && window.app.trace && window.app.trace.engine, {timeout: 60000});
  // Plugins add their tracks one after the other: all are there when no more come.
  for (let same = 0, before = -1; same < 4; await sleep(1000)) {
    const now = await page.evaluate(() => window.app.trace.workspace.flatTracks.length);
    same = now > 0 && now === before ? same + 1 : 0;
    before = now;
  }
}

async function shoot(page, base, file) {
  await open(page, base, file);
  const cause = file.replace('.trace.json.gz', '');
  // Pinned in this order: threads, what the scheduler says of them, devices, chains. Tracks that only
  // group others, and thread states of threads without any, are left out.
  await page.evaluate(async wanted => {
    const {trace} = window.app;
    const of = new RegExp(wanted);
    const switches = (await trace.engine.query('select count(*) as n from sched')).firstRow({n: 0}).n;
    const rank = node => /starvation/.test(node.name) ? 3 : /^stream|device state/.test(node.name) ? 2 : /_state$/.test(node.uri) ? 1 : 0;
    const shown = trace.workspace.flatTracks.filter(node => of.test(node.name) && node.children.length === 0
      && (/slice_\d+$/.test(node.uri) || (switches > 0 && /_state$/.test(node.uri))));
    shown.sort((a, b) => rank(a) - rank(b)).forEach(node => node.pin());
  }, tracks(cause));
  await sleep(1500);
  // Select what filled the longest stall of the cause, or the stall: the arrows of that are drawn.
  await page.evaluate(async cause => {
    const {trace} = window.app;
    const one = async sql => {
      const rows = await trace.engine.query(sql);
      return rows.numRows() > 0 ? rows.firstRow({id: 0}).id : undefined;
    };
    const stall = await one(`select id from slice where name glob 'starved: ${cause} *' order by dur desc limit 1`);
    const filled = await one(`select s.id from slice s join flow f on f.slice_out = s.id or f.slice_in = s.id
      where s.parent_id = ${stall} order by s.dur desc limit 1`);
    trace.selection.selectSqlEvent('slice', filled ?? stall, {scrollToSelection: false});
  }, cause);
  await sleep(2500);
  const box = await page.evaluate(() => {
    const {x, y, width, height} = document.querySelector('.pf-viewer-page__pinned-track-tree').getBoundingClientRect();
    return {x, y, width: width - 14, height: height - 2};
  });
  const name = `${cause}.png`;
  await page.screenshot({path: path.join(out, name), clip: box});
  console.log(name);
}

(async () => {
  await new Promise(r => server.listen(0, '127.0.0.1', r));
  const base = `http://127.0.0.1:${server.address().port}/`;
  const browser = await puppeteer.launch({executablePath: process.env.CHROMIUM || '/usr/bin/chromium', headless: true,
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--use-gl=swiftshader', '--enable-unsafe-swiftshader']});
  const page = await browser.newPage();
  await page.setViewport({width: 1100, height: 2000});
  page.on('pageerror', e => console.error(String(e).slice(0, 200)));
  const only = process.env.ONLY;
  for (const file of fs.readdirSync(traces).filter(f => f.endsWith('.json.gz') && (!only || f.startsWith(only)))) await shoot(page, base, file);
  await browser.close();
  server.close();
})().catch(e => { console.error(e); process.exit(1); });
