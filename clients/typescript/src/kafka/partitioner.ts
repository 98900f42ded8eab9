// The partition of a key: the Java client's default partitioner, `murmur2_random` in librdkafka.

const SEED = 0x9747b28c;
const MULTIPLIER = 0x5bd1e995;

/** The 32-bit MurmurHash2 of `data`, with Kafka's seed; unsigned. */
export function murmur2(data: Uint8Array): number {
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const whole = data.length & ~3;
  let state = SEED ^ data.length;
  for (let start = 0; start < whole; start += 4) {
    let word = Math.imul(view.getUint32(start, true), MULTIPLIER);
    word = Math.imul(word ^ (word >>> 24), MULTIPLIER);
    state = Math.imul(state, MULTIPLIER) ^ word;
  }
  if (whole < data.length) {
    for (let at = whole; at < data.length; at++) state ^= data[at]! << (8 * (at - whole));
    state = Math.imul(state, MULTIPLIER);
  }
  state = Math.imul(state ^ (state >>> 13), MULTIPLIER);
  return (state ^ (state >>> 15)) >>> 0;
}

/** Returns the partition of a key, from 0, on a topic with this number of partitions. */
export function partitionOf(key: string, partitions: number): number {
  return (murmur2(Buffer.from(key)) & 0x7fffffff) % partitions;
}
