// The clients of a process's connection to Kafka, and their metadata requests at its start.

import {
  type Consumer,
  type Library,
  type LibraryError,
  type Metadata,
  type Place,
  type Producer,
} from "./library.js";
import type { KafkaSettings } from "./settings.js";

export const QUEUE_RECORDS = 20_000;
const QUEUE_KIB = 32 * 1024;
const BATCHING_MS = 5;
const POLL_MS = 20;
/** Timeout of each request. */
const METADATA_MS = 1000;
const PROBE_MS = 500;
/** How long closing a client may take, before it is abandoned. */
const END_MS = 3000;

const ALL_BROKERS_DOWN = -187;
const TRANSPORT = -195;
const AUTO_OFFSET_RESET = -140;

/** Whether the error shows that the broker may be down. */
export function isAway(error: LibraryError): boolean {
  return error.code === ALL_BROKERS_DOWN || error.code === TRANSPORT;
}

/** Whether the position is invalid: records were deleted before they were read, or the topic was recreated. */
export function isLost(error: unknown): boolean {
  return (error as Partial<LibraryError> | undefined)?.code === AUTO_OFFSET_RESET;
}

/** Creates a producer with a bounded queue; throws if librdkafka rejects the settings. */
export function producerOf(library: Library, settings: KafkaSettings): Producer {
  return new library.Producer({
    "linger.ms": settings.isBlocking ? 0 : BATCHING_MS,
    "queue.buffering.max.messages": QUEUE_RECORDS,
    "queue.buffering.max.kbytes": QUEUE_KIB,
    "delivery.timeout.ms": 120_000,
    ...commonOf(settings),
    partitioner: "murmur2_random",
    "enable.idempotence": true,
    acks: "all",
    dr_cb: true,
  });
}

/** Creates a consumer with manual assignment, without a consumer group or commits. */
export function consumerOf(library: Library, settings: KafkaSettings): Consumer {
  return new library.KafkaConsumer({
    "fetch.wait.max.ms": settings.fetchWaitMs,
    "queued.max.messages.kbytes": 16 * 1024,
    ...commonOf(settings),
    "group.id": "haltline-agent", // required; not used with manual assignment and without commits
    "enable.auto.commit": false,
    "enable.auto.offset.store": false,
    "enable.partition.eof": true,
    "auto.offset.reset": "error",
  });
}

/** Resolves when the client has reached a broker; rejects without a response. */
export function connected(client: Producer | Consumer, topic: string): Promise<void> {
  return new Promise((resolve, reject) => {
    client.connect({ topic, allTopics: false, timeout: METADATA_MS }, (error) => {
      if (error) reject(asError(error));
      else resolve();
    });
  });
}

/** Serves the delivery reports of a producer from now on. */
export function served(producer: Producer): void {
  producer.setPollInterval(POLL_MS);
}

/** Returns the number of partitions of the topic; 0: it is missing. Rejects without a response. */
export async function partitionsOf(client: Producer, topic: string, probe = false): Promise<number> {
  const timeout = probe ? PROBE_MS : METADATA_MS;
  const metadata = await new Promise<Metadata>((resolve, reject) => {
    client.getMetadata({ topic, allTopics: false, timeout }, (error, found) => {
      if (error) reject(asError(error));
      else resolve(found);
    });
  });
  return metadata.topics.find((one) => one.name === topic)?.partitions.length ?? 0;
}

/** Like `partitionsOf`, for a topic that must exist. */
export async function somePartitionsOf(client: Producer, topic: string): Promise<number> {
  const count = await partitionsOf(client, topic);
  if (count === 0) throw new Error(`topic ${topic}: expected a topic that is there, got none`);
  return count;
}

/** Returns the first offset of a partition, and the one after its last. */
export function endsOf(consumer: Consumer, topic: string, partition: number): Promise<[number, number]> {
  return new Promise((resolve, reject) => {
    consumer.queryWatermarkOffsets(topic, partition, METADATA_MS, (error, found) =>
      error ? reject(asError(error)) : resolve([found.lowOffset, found.highOffset]),
    );
  });
}

/** Returns the current end of a partition. */
export async function endOf(consumer: Consumer, topic: string, partition: number): Promise<Place> {
  const [, offset] = await endsOf(consumer, topic, partition);
  return { topic, partition, offset };
}

/** Closes a client, within a time limit. */
export function ended(client: Producer | Consumer): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, END_MS);
    const finish = (): void => {
      clearTimeout(timer);
      resolve();
    };
    try {
      if ("produce" in client) client.disconnect(1, finish);
      else client.disconnect(finish);
    } catch {
      finish(); // it was never connected
    }
  });
}

function commonOf(settings: KafkaSettings): Record<string, unknown> {
  return {
    "socket.timeout.ms": 10_000, // a broker that hangs is noticed
    "log_level": 2, // a broker that is down is logged once by us, not repeatedly by librdkafka
    "log.connection.close": false,
    ...settings.kafka,
    "bootstrap.servers": settings.bootstrap,
  };
}

function asError(error: LibraryError): Error {
  return error instanceof Error ? error : new Error(error.message);
}
