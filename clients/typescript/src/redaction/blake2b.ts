/** BLAKE2b (RFC 7693) with a digest of any size and a key, which Node's own has not. In halves of 32 bits. */

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
const COLUMNS = [
  [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
  [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14],
].map((columns) => new Uint8Array(columns.map((word) => 2 * word)));

const v = new Uint32Array(32);
const m = new Uint32Array(32);

/** Adds two words, or a word and a constant, to a word of v. */
function add(to: number, low: number, high: number): void {
  const sum = v[to]! + low;
  v[to] = sum;
  v[to + 1] = v[to + 1]! + high + (sum > 0xffffffff ? 1 : 0);
}

/** v[a] ^= v[b], turned right by so many bits. */
function turn(a: number, b: number, bits: 32 | 24 | 16 | 63): void {
  const low = v[a]! ^ v[b]!;
  const high = v[a + 1]! ^ v[b + 1]!;
  if (bits === 32) {
    v[a] = high;
    v[a + 1] = low;
  } else if (bits === 63) {
    v[a] = (low << 1) | (high >>> 31);
    v[a + 1] = (high << 1) | (low >>> 31);
  } else {
    v[a] = (low >>> bits) | (high << (32 - bits));
    v[a + 1] = (high >>> bits) | (low << (32 - bits));
  }
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
  for (let at = 0; at < ROUNDS.length; ) {
    for (const [a, b, c, d] of COLUMNS as unknown as [number, number, number, number][]) {
      const x = ROUNDS[at++]!;
      const y = ROUNDS[at++]!;
      add(a, v[b]!, v[b + 1]!);
      add(a, m[x]!, m[x + 1]!);
      turn(d, a, 32);
      add(c, v[d]!, v[d + 1]!);
      turn(b, c, 24);
      add(a, v[b]!, v[b + 1]!);
      add(a, m[y]!, m[y + 1]!);
      turn(d, a, 16);
      add(c, v[d]!, v[d + 1]!);
      turn(b, c, 63);
    }
  }
  for (let word = 0; word < 16; word++) h[word] = h[word]! ^ v[word]! ^ v[word + 16]!;
}

/** The digest in hex: `size` bytes of it, under a key of at most 64 bytes. */
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
