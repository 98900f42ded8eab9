// BLAKE2b (RFC 7693) with a digest of 16 bytes and an optional key, which Node's crypto does not offer: its
// `blake2b512` has one size of digest only, and the size is a part of what is hashed. 64-bit words are two of 32.

const SIZE_BYTES = 16;
const BLOCK_BYTES = 128;
const MAX_KEY_BYTES = 64;

const IV = Uint32Array.of(
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
);
const SIGMA = Uint8Array.of(
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
  14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3,
  11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4,
  7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8,
  9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13,
  2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9,
  12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11,
  13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10,
  6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5,
  10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0,
);

/** 32 hex digits: `hashlib.blake2b(data, digest_size=16, key=key[:64])` of Python. */
export function blake2b(data: Uint8Array, key: Uint8Array = new Uint8Array()): string {
  const used = key.subarray(0, MAX_KEY_BYTES);
  const state = Uint32Array.from(IV);
  state[0] = (state[0]! ^ 0x01010000 ^ (used.length << 8) ^ SIZE_BYTES) >>> 0;
  const blocks: Uint8Array[] = [];
  if (used.length > 0) {
    const padded = new Uint8Array(BLOCK_BYTES);
    padded.set(used);
    blocks.push(padded);
  }
  let counted = 0;
  const total = data.length + (used.length > 0 ? BLOCK_BYTES : 0);
  for (const block of blocks) {
    counted += BLOCK_BYTES;
    compress(state, block, counted, counted === total);
  }
  for (let at = 0; at < data.length || (at === 0 && total === 0); at += BLOCK_BYTES) {
    const part = data.subarray(at, at + BLOCK_BYTES);
    counted += part.length;
    const block = part.length === BLOCK_BYTES ? part : new Uint8Array(BLOCK_BYTES);
    if (block !== part) block.set(part);
    compress(state, block, counted, counted === total);
  }
  const view = new DataView(new ArrayBuffer(SIZE_BYTES));
  for (let word = 0; word < SIZE_BYTES / 4; word++) view.setUint32(word * 4, state[word]!, true);
  return Buffer.from(view.buffer).toString("hex");
}

const work = new Uint32Array(32);
const message = new Uint32Array(32);

function compress(state: Uint32Array, block: Uint8Array, counted: number, last: boolean): void {
  work.set(state);
  work.set(IV, 16);
  work[24] = work[24]! ^ counted >>> 0;
  work[25] = work[25]! ^ Math.floor(counted / 0x100000000);
  if (last) {
    work[28] = ~work[28]!;
    work[29] = ~work[29]!;
  }
  const view = new DataView(block.buffer, block.byteOffset, BLOCK_BYTES);
  for (let word = 0; word < 32; word++) message[word] = view.getUint32(word * 4, true);
  for (let round = 0; round < 12; round++) {
    const from = (round % 10) * 16;
    mix(0, 8, 16, 24, from);
    mix(2, 10, 18, 26, from + 2);
    mix(4, 12, 20, 28, from + 4);
    mix(6, 14, 22, 30, from + 6);
    mix(0, 10, 20, 30, from + 8);
    mix(2, 12, 22, 24, from + 10);
    mix(4, 14, 16, 26, from + 12);
    mix(6, 8, 18, 28, from + 14);
  }
  for (let word = 0; word < 16; word++) state[word] = state[word]! ^ work[word]! ^ work[word + 16]!;
}

function mix(a: number, b: number, c: number, d: number, sigma: number): void {
  add(a, work[b]!, work[b + 1]!);
  add(a, message[SIGMA[sigma]! * 2]!, message[SIGMA[sigma]! * 2 + 1]!);
  rotate(d, a, 32);
  add(c, work[d]!, work[d + 1]!);
  rotate(b, c, 24);
  add(a, work[b]!, work[b + 1]!);
  add(a, message[SIGMA[sigma + 1]! * 2]!, message[SIGMA[sigma + 1]! * 2 + 1]!);
  rotate(d, a, 16);
  add(c, work[d]!, work[d + 1]!);
  rotate(b, c, 63);
}

function add(at: number, low: number, high: number): void {
  const sum = work[at]! + low;
  work[at + 1] = work[at + 1]! + high + (sum >= 0x100000000 ? 1 : 0);
  work[at] = sum;
}

/** The word at `at`, xor the one at `by`, turned right by so many bits. */
function rotate(at: number, by: number, bits: 16 | 24 | 32 | 63): void {
  const low = work[at]! ^ work[by]!;
  const high = work[at + 1]! ^ work[by + 1]!;
  if (bits === 32) {
    work[at] = high;
    work[at + 1] = low;
  } else if (bits === 63) {
    work[at] = (high >>> 31) ^ (low << 1);
    work[at + 1] = (low >>> 31) ^ (high << 1);
  } else {
    work[at] = (low >>> bits) ^ (high << (32 - bits));
    work[at + 1] = (high >>> bits) ^ (low << (32 - bits));
  }
}
