// The little of the protobuf wire format that talking to the trace processor needs.
'use strict';

function varint(value) {
  let n = BigInt(value);
  const out = [];
  while (n > 127n) {
    out.push(Number(n & 127n) | 128);
    n >>= 7n;
  }
  out.push(Number(n));
  return Buffer.from(out);
}

const int = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, value) =>
  Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);

// Reads a varint at `at`; returns it as a signed 64-bit number, and the position after it.
function readVarint(buffer, at) {
  let value = 0n;
  let shift = 0n;
  for (;;) {
    const byte = buffer[at++];
    value |= BigInt(byte & 127) << shift;
    if (!(byte & 128)) return [BigInt.asIntN(64, value), at];
    shift += 7n;
  }
}

// The [field, value] pairs of a message.
function* fields(buffer) {
  let at = 0;
  let key;
  let value;
  while (at < buffer.length) {
    [key, at] = readVarint(buffer, at);
    const field = Number(key >> 3n);
    switch (Number(key & 7n)) {
      case 0:
        [value, at] = readVarint(buffer, at);
        yield [field, value];
        break;
      case 1:
        yield [field, buffer.readDoubleLE(at)];
        at += 8;
        break;
      case 2:
        [value, at] = readVarint(buffer, at);
        yield [field, buffer.subarray(at, at + Number(value))];
        at += Number(value);
        break;
      case 5:
        yield [field, buffer.readFloatLE(at)];
        at += 4;
        break;
      default:
        throw new Error('unknown wire type in field ' + field);
    }
  }
}

// The values of a packed field of varints.
function varints(buffer) {
  const out = [];
  for (let at = 0, value; at < buffer.length; ) {
    [value, at] = readVarint(buffer, at);
    out.push(value);
  }
  return out;
}

// The values of a packed field of doubles.
function doubles(buffer) {
  const out = [];
  for (let at = 0; at < buffer.length; at += 8) out.push(buffer.readDoubleLE(at));
  return out;
}

module.exports = {int, bytes, fields, varints, doubles, readVarint};
