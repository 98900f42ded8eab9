/** BLAKE2b (RFC 7693) with a digest of any size and a key, which Node lacks. In halves of 32 bits. */

const BLOCK = 128;
const IV = new Uint32Array([
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
]);
const SIGMA = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
  [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
  [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
  [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
  [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const ROUNDS = new Uint8Array([...SIGMA, SIGMA[0]!, SIGMA[1]!].flat().map((word) => 2 * word));
const v = new Uint32Array(32);
const m = new Uint32Array(32);

/** RFC 7693's G, on words of v at even places; each word is a low and a high half. */
function mix(a: number, b: number, c: number, d: number, x: number, y: number): void {
  let al = v[a]!, ah = v[a + 1]!, bl = v[b]!, bh = v[b + 1]!, cl = v[c]!, ch = v[c + 1]!, dl = v[d]!, dh = v[d + 1]!;
  let sum = al + bl + m[x]!;
  ah = (ah + bh + m[x + 1]! + Math.floor(sum / 0x100000000)) | 0;
  al = sum | 0;
  let low = dl ^ al;
  dl = dh ^ ah;
  dh = low;
  sum = (cl >>> 0) + (dl >>> 0);
  ch = (ch + dh + (sum > 0xffffffff ? 1 : 0)) | 0;
  cl = sum | 0;
  low = bl ^ cl;
  let high = bh ^ ch;
  bl = (low >>> 24) | (high << 8);
  bh = (high >>> 24) | (low << 8);
  sum = (al >>> 0) + (bl >>> 0) + m[y]!;
  ah = (ah + bh + m[y + 1]! + Math.floor(sum / 0x100000000)) | 0;
  al = sum | 0;
  low = dl ^ al;
  high = dh ^ ah;
  dl = (low >>> 16) | (high << 16);
  dh = (high >>> 16) | (low << 16);
  sum = (cl >>> 0) + (dl >>> 0);
  ch = (ch + dh + (sum > 0xffffffff ? 1 : 0)) | 0;
  cl = sum | 0;
  low = bl ^ cl;
  high = bh ^ ch;
  v[a] = al;
  v[a + 1] = ah;
  v[b] = (low << 1) | (high >>> 31);
  v[b + 1] = (high << 1) | (low >>> 31);
  v[c] = cl;
  v[c + 1] = ch;
  v[d] = dl;
  v[d + 1] = dh;
}

function compress(h: Uint32Array, block: DataView, counted: number, isLast: boolean): void {
  v.set(h);
  v.set(IV, 16);
  v[24] = v[24]! ^ counted;
  v[25] = v[25]! ^ Math.floor(counted / 0x100000000);
  if (isLast) {
    v[28] = ~v[28]!;
    v[29] = ~v[29]!;
  }
  for (let word = 0; word < 32; word++) m[word] = block.getUint32(4 * word, true);
  for (let at = 0; at < ROUNDS.length; at += 16) {
    mix(0, 8, 16, 24, ROUNDS[at]!, ROUNDS[at + 1]!);
    mix(2, 10, 18, 26, ROUNDS[at + 2]!, ROUNDS[at + 3]!);
    mix(4, 12, 20, 28, ROUNDS[at + 4]!, ROUNDS[at + 5]!);
    mix(6, 14, 22, 30, ROUNDS[at + 6]!, ROUNDS[at + 7]!);
    mix(0, 10, 20, 30, ROUNDS[at + 8]!, ROUNDS[at + 9]!);
    mix(2, 12, 22, 24, ROUNDS[at + 10]!, ROUNDS[at + 11]!);
    mix(4, 14, 16, 26, ROUNDS[at + 12]!, ROUNDS[at + 13]!);
    mix(6, 8, 18, 28, ROUNDS[at + 14]!, ROUNDS[at + 15]!);
  }
  for (let word = 0; word < 16; word++) h[word] = h[word]! ^ v[word]! ^ v[word + 16]!;
}

/** Returns the digest in hex: `size` bytes of it, under a key of at most 64 bytes. */
export function blake2b(data: Uint8Array, size: number, key: Uint8Array = new Uint8Array()): string {
  const h = IV.slice();
  h[0] = h[0]! ^ 0x01010000 ^ (key.length << 8) ^ size;
  const whole = new Uint8Array((key.length ? BLOCK : 0) + data.length);
  whole.set(key);
  whole.set(data, key.length ? BLOCK : 0);
  const last = new Uint8Array(BLOCK);
  const begin = whole.length ? BLOCK * Math.floor((whole.length - 1) / BLOCK) : 0;
  last.set(whole.subarray(begin));
  for (let at = 0; at < begin; at += BLOCK) compress(h, new DataView(whole.buffer, at, BLOCK), at + BLOCK, false);
  compress(h, new DataView(last.buffer), whole.length, true);
  return Buffer.from(h.buffer).subarray(0, size).toString("hex");
}
