// The used part of the client library `@confluentinc/kafka-javascript`, an optional peer dependency that binds
// librdkafka. Its own types are not needed to compile this package.

import { createRequire } from "node:module";

export interface LibraryError {
  readonly code: number;
  readonly message: string;
}

export interface DeliveryReport {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly opaque?: unknown;
}

export interface Message {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key: Buffer | string | null;
  readonly value: Buffer | null;
  readonly headers?: readonly Readonly<Record<string, Buffer | string | null>>[];
}

export interface EndOfPartition {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

export interface Metadata {
  readonly topics: readonly { readonly name: string; readonly partitions: readonly unknown[] }[];
}

export interface Place {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

type Callback<T> = (error: LibraryError | null | undefined, result: T) => void;
type MetadataOptions = { topic: string; allTopics: false; timeout: number };

interface Client {
  connect(options: MetadataOptions, callback: Callback<Metadata>): unknown;
  getMetadata(options: MetadataOptions, callback: Callback<Metadata>): unknown;
  on(event: "event.error", listener: (error: LibraryError) => void): unknown;
}

export interface Producer extends Client {
  produce(topic: string, partition: null, value: Buffer, key: Buffer, timestamp: null, opaque: unknown): unknown;
  setPollInterval(ms: number): unknown;
  poll(): unknown;
  disconnect(flushMs: number, callback: () => void): unknown;
  on(event: "event.error", listener: (error: LibraryError) => void): unknown;
  on(event: "delivery-report", listener: (error: LibraryError | null, report: DeliveryReport) => void): unknown;
}

export interface Consumer extends Client {
  queryWatermarkOffsets(
    topic: string,
    partition: number,
    timeoutMs: number,
    callback: Callback<{ lowOffset: number; highOffset: number }>,
  ): void;
  assign(places: readonly Place[]): unknown;
  incrementalAssign(places: readonly Place[]): unknown;
  setDefaultConsumeTimeout(ms: number): void;
  consume(most: number, callback: Callback<readonly Message[]>): void;
  disconnect(callback: () => void): unknown;
  on(event: "event.error", listener: (error: LibraryError) => void): unknown;
  on(event: "partition.eof", listener: (end: EndOfPartition) => void): unknown;
}

export interface Library {
  readonly Producer: new (settings: Record<string, unknown>) => Producer;
  readonly KafkaConsumer: new (settings: Record<string, unknown>) => Consumer;
}

const NAME = "@confluentinc/kafka-javascript";

/** Loads the library. Throws an Error with the installation command. */
export function libraryOf(): Library {
  try {
    return createRequire(import.meta.url)(NAME) as Library;
  } catch (error) {
    throw new Error(`expected ${NAME} installed and its binary built (npm install ${NAME}), got: ${String(error)}`, {
      cause: error,
    });
  }
}
