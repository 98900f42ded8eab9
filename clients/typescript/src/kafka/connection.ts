// A process's connection to Kafka: one producer and one consumer for all of its sessions with the same settings.
//
// The consumer uses manual assignment, as every process reads all records. It reads the whole compacted control topic
// (an entry may be about any tool or target) and, of `interventions`, the partitions of its sessions, each from its end
// offset when the first session of that partition joined.

import { connected, consumerOf, ended, endOf, endsOf, isLost, producerOf, served, somePartitionsOf } from "./clients.js";
import {
  type Consumer, type DeliveryReport, type Library, libraryOf, type LibraryError, type Message, type Place, type Producer,
} from "./library.js";
import { Outbox } from "./outbox.js";
import { partitionOf } from "./partitioner.js";
import type { WorkerPresence } from "./presence.js";
import { rawOf, read } from "./raw.js";
import { Reachability } from "./reachability.js";
import { type ControlRecord, controlOf, type Decision } from "./records.js";
import { type Sealed, sealedOf } from "./seals.js";
import type { KafkaSettings } from "./settings.js";
import { Grown, SETS_KEY, Topics } from "./topics.js";
import type { Outgoing, Report } from "./waiting.js";

const RETRY_MS = 500;
const LONGEST_MS = 2 ** 31 - 1; // of a timer
const TICK_MS = 100;
const CONSUME_MS = 20;

/** Receives the records for one session. Does not throw. */
export interface Receiver {
  concerns(key: string): boolean;
  control(key: string, record: ControlRecord | undefined): void;
  loaded(): void;
  unloaded(): void;
  decision(decision: Decision): void;
}

interface Member {
  readonly sessionId: string;
  readonly receiver: Receiver;
}

/** The state of one attempt to read, until it fails. */
interface Reading {
  readonly consumer: Consumer;
  /** Partitions of the control topic that are to be read first. */
  readonly unread: Set<number>;
  /** New sessions without the entries in force yet, with the control topic's end offsets when they joined. */
  readonly joined: { members: Member[]; ends: Map<number, number> }[];
  readonly fail: (why: unknown) => void;
}

/** Transports the records of the sessions that have joined. Throws for settings that librdkafka, or a key, rejects. */
export class Connection {
  readonly #settings: KafkaSettings;
  readonly #library: Library;
  readonly #sealed: Sealed | undefined;
  readonly #warn: (message: string) => void;
  readonly #topics: Topics;
  readonly #reach: Reachability;
  readonly #members = new Map<object, Member>();
  readonly #entries = new Map<string, Buffer>();
  readonly #partitionsRead = new Map<number, boolean>(); // of `interventions`: whether the consumer has it already
  readonly #controlNext = new Map<number, number>(); // of the control topic, by partition
  readonly #outbox: Outbox;
  #joined: Member[] = [];
  #count = 0; // partitions of `interventions`; 0: not known yet
  #loaded = false;
  #producer: Producer;
  #isConnected = false;
  #reading: Reading | undefined;
  #running: Promise<void> | undefined;
  #stopping = false;
  #wake: (() => void) | undefined;
  #isTicking = false;

  constructor(settings: KafkaSettings, warn: (message: string) => void) {
    this.#settings = settings;
    this.#warn = warn;
    this.#library = libraryOf();
    this.#sealed = settings.verifyKey === undefined ? undefined : sealedOf(settings.verifyKey, warn);
    this.#topics = new Topics(settings.topicPrefix);
    this.#reach = new Reachability(this.#topics, warn);
    this.#producer = this.#newProducer();
    consumerOf(this.#library, settings); // reports invalid settings now; it is never connected
    const line = {
      isDown: () => this.#reach.isDown,
      producer: () => (this.#isConnected ? this.#producer : undefined),
    };
    this.#outbox = new Outbox(settings, line, warn);
  }

  /** Whether workers see the events of this process. */
  get watched(): WorkerPresence {
    return this.#reach.watched;
  }

  /** Whether the last of its sessions has left. */
  get ended(): boolean {
    return this.#stopping;
  }

  /** False: the broker did not respond to the last request, or the connection has ended. */
  get up(): boolean {
    return !(this.#reach.isDown || this.#stopping);
  }

  /** Adds a session. False: the connection has ended. */
  join(owner: object, member: Member): boolean {
    if (this.#stopping) return false;
    this.#members.set(owner, member);
    if (this.#running === undefined) {
      this.#running = this.#run();
    } else if (this.#count > 0) {
      const partition = partitionOf(member.sessionId, this.#count);
      if (!this.#partitionsRead.has(partition)) this.#partitionsRead.set(partition, false);
      this.#joined.push(member);
      void this.#tick();
    }
    return true;
  }

  /** Removes a session; the last one ends the connection. */
  async leave(owner: object): Promise<void> {
    this.#members.delete(owner);
    if (this.#members.size > 0 || this.#stopping) return;
    this.#stopping = true;
    this.#reading?.fail(new Error("the connection has ended"));
    this.#wake?.();
    await this.#running;
    this.#outbox.drop();
    if (this.#isConnected) await ended(this.#producer);
    this.#outbox.close();
  }

  /** Queues one record; `report` receives whether it was delivered. False: there is no room for it. */
  publish(topic: string, key: Buffer, value: Buffer, report: Report, must: boolean): boolean {
    if (this.#stopping) return false;
    return this.#outbox.publish({ topic, key, value, report }, must);
  }

  /** Moves undelivered records to the disk, as far as there is a spool with room. */
  toDisk(): void {
    this.#outbox.toDisk();
  }

  #newProducer(): Producer {
    const producer = producerOf(this.#library, this.#settings);
    producer.on("event.error", (error) => this.#onError(error));
    producer.on("delivery-report", (error, delivered) => this.#delivered(error, delivered));
    return producer;
  }

  #delivered(error: LibraryError | null, { topic, partition, offset, opaque }: DeliveryReport): void {
    // Without an offset, librdkafka takes it for delivered because a later record was; the broker may have refused it.
    const isStored = !error && offset >= 0;
    if (isStored && topic === this.#topics.actions) this.watched.delivered(partition, offset);
    this.#outbox.delivered(error, opaque as Outgoing, isStored);
  }

  async #run(): Promise<void> {
    let said = "";
    while (!this.#stopping) {
      try {
        if (!this.#isConnected) await this.#connect();
        await this.#read(() => (said = ""));
      } catch (error) {
        this.#isTicking = false;
        if (this.#stopping) break;
        const why = this.#reach.reasonOf(error);
        if (said === "") this.#warn(`decisions cannot be read: ${why}`);
        said = why;
        this.#loaded = false;
        this.#entries.clear();
        for (const { receiver } of this.#members.values()) receiver.unloaded();
        this.#reach.isDown = !isLost(error);
        this.#outbox.failed();
        await this.#pause(error instanceof Grown ? LONGEST_MS : RETRY_MS);
      }
    }
  }

  async #connect(): Promise<void> {
    try {
      await connected(this.#producer, this.#topics.actions);
    } catch (error) {
      this.#producer = this.#newProducer(); // a producer that failed to connect is not used again
      throw error;
    }
    served(this.#producer);
    this.#isConnected = true;
    this.#outbox.connected();
  }

  /** Reads until an error, with which it rejects. */
  async #read(begun: () => void): Promise<void> {
    const consumer = consumerOf(this.#library, this.#settings);
    let timer: NodeJS.Timeout | undefined;
    let consuming: Promise<void> | undefined;
    try {
      consumer.on("event.error", (error) => this.#onError(error));
      await connected(consumer, this.#topics.control);
      let fail: (why: unknown) => void = () => {};
      const failed = new Promise<never>((_, reject) => (fail = reject));
      failed.catch(() => {}); // it is awaited below
      const reading: Reading = { consumer, unread: new Set(), joined: [], fail };
      consumer.on("partition.eof", (end) => this.#guarded(reading, () => this.#atEnd(reading, end)));
      consumer.assign(await this.#places(reading));
      if (this.#stopping) return;
      this.#reading = reading;
      this.#reach.restored();
      begun();
      await this.#reach.look(this.#producer);
      if (reading.unread.size === 0) this.#allLoaded();
      timer = setInterval(() => void this.#tick(), TICK_MS);
      consumer.setDefaultConsumeTimeout(CONSUME_MS);
      consuming = this.#consume(reading).catch(fail);
      await failed;
    } finally {
      clearInterval(timer);
      this.#reading = undefined;
      await consuming;
      await ended(consumer);
    }
  }

  /**
   * Reads record by record: when reading several, the library drops an error after the first record, and its own loop
   * loses records at its end, for which the consumer then waits forever.
   */
  async #consume(reading: Reading): Promise<void> {
    while (this.#reading === reading) {
      const messages = await new Promise<readonly Message[]>((resolve, reject) => {
        reading.consumer.consume(1, (error, found) => (error ? reject(error) : resolve(found)));
      });
      for (const message of messages) this.#deliver(reading, message);
    }
  }

  /** Returns the initial positions: the control topic's beginning, the ends of the sessions' partitions. */
  async #places(reading: Reading): Promise<Place[]> {
    const control = await somePartitionsOf(this.#producer, this.#topics.control);
    this.#count = await somePartitionsOf(this.#producer, this.#topics.interventions);
    const mine = new Set([...this.#members.values()].map(({ sessionId }) => partitionOf(sessionId, this.#count)));
    this.#partitionsRead.clear();
    for (const partition of mine) this.#partitionsRead.set(partition, false);
    this.#joined = [];
    this.#controlNext.clear();
    const places = await Promise.all([...mine].map((one) => endOf(reading.consumer, this.#topics.interventions, one)));
    for (let partition = 0; partition < control; partition++) {
      const [first, end] = await endsOf(reading.consumer, this.#topics.control, partition);
      places.push({ topic: this.#topics.control, partition, offset: first });
      this.#controlNext.set(partition, first);
      if (end > first) reading.unread.add(partition);
    }
    for (const partition of mine) this.#partitionsRead.set(partition, true);
    return places;
  }

  /** Runs the periodic work beside reading; one run at a time. */
  async #tick(): Promise<void> {
    const reading = this.#reading;
    if (reading === undefined || this.#isTicking) return;
    this.#isTicking = true;
    try {
      await this.#reach.ask(this.#producer);
      if (!this.#reach.isDown) this.#outbox.catchUp();
      await this.#takeJoined(reading);
      this.#tellWhoJoined(reading);
    } catch (error) {
      reading.fail(error);
    } finally {
      this.#isTicking = false;
    }
  }

  async #takeJoined(reading: Reading): Promise<void> {
    const members = this.#joined;
    this.#joined = [];
    const fresh = [...this.#partitionsRead].filter(([, isRead]) => !isRead).map(([partition]) => partition);
    if (fresh.length > 0) {
      const places = await Promise.all(fresh.map((one) => endOf(reading.consumer, this.#topics.interventions, one)));
      reading.consumer.incrementalAssign(places);
      for (const partition of fresh) this.#partitionsRead.set(partition, true);
    }
    if (members.length === 0) return;
    const ends = new Map<number, number>();
    for (const partition of this.#controlNext.keys()) {
      ends.set(partition, (await endsOf(reading.consumer, this.#topics.control, partition))[1]);
    }
    reading.joined.push({ members, ends });
  }

  /** Delivers the entries in force to new sessions, once all entries from before they joined are read. */
  #tellWhoJoined(reading: Reading): void {
    for (let first = reading.joined[0]; first !== undefined && this.#loaded; first = reading.joined[0]) {
      if ([...first.ends].some(([partition, end]) => (this.#controlNext.get(partition) ?? 0) < end)) return;
      reading.joined.shift();
      const here = new Set(this.#members.values());
      for (const member of first.members) if (here.has(member)) this.#tellWhatStands(member.receiver);
    }
  }

  #atEnd(reading: Reading, end: { topic: string; partition: number; offset: number }): void {
    if (end.topic !== this.#topics.control) return;
    this.#controlNext.set(end.partition, end.offset);
    if (reading.unread.delete(end.partition) && reading.unread.size === 0) this.#allLoaded();
    this.#tellWhoJoined(reading);
  }

  #allLoaded(): void {
    this.#topics.require(this.#entries.get(SETS_KEY));
    this.#loaded = true;
    const later = new Set([...this.#joined, ...(this.#reading?.joined ?? []).flatMap(({ members }) => members)]);
    for (const member of this.#members.values()) {
      const isRead = this.#partitionsRead.get(partitionOf(member.sessionId, this.#count));
      if (!later.has(member) && isRead) this.#tellWhatStands(member.receiver);
    }
  }

  /** Delivers all entries, then reports that they are complete. */
  #tellWhatStands(receiver: Receiver): void {
    for (const [key, value] of this.#entries) {
      if (receiver.concerns(key)) receiver.control(key, controlOf(key, value));
    }
    receiver.loaded();
  }

  #deliver(reading: Reading, message: Message): void {
    const record = rawOf(message);
    const key = record.key?.toString() ?? "";
    if (message.topic === this.#topics.control) {
      const sealed = this.#sealed;
      this.#takeEntry(key, sealed === undefined ? record.value : sealed.entry(key, record, this.#entries.get(key)));
      this.#controlNext.set(message.partition, message.offset + 1);
      this.#tellWhoJoined(reading);
      return;
    }
    const concerned = [...this.#members.values()].filter(({ sessionId }) => key === "" || sessionId === key);
    if (concerned.length === 0) return;
    const isShadow = (): boolean => read(record.value)?.mode === "shadow";
    if (this.#sealed !== undefined && !this.#sealed.holds(record, isShadow)) return;
    const decision = read(record.value, (why) => {
      this.#warn(`${message.topic}, partition ${message.partition}, offset ${message.offset} cannot be read: ${why}`);
    });
    for (const { sessionId, receiver } of concerned) {
      if (decision?.session_id === sessionId) receiver.decision(decision);
    }
  }

  #takeEntry(key: string, value: Buffer | null | undefined): void {
    if (value === null || value === undefined) this.#entries.delete(key);
    else this.#entries.set(key, value);
    if (!this.#loaded) return;
    for (const { receiver } of this.#members.values()) {
      if (receiver.concerns(key)) receiver.control(key, value ? controlOf(key, value) : undefined);
    }
  }

  #onError(error: LibraryError): void {
    if (this.#reach.complained(error)) void this.#tick();
  }

  /** Makes an error in a callback of the library end the reading, not the process. */
  #guarded(reading: Reading, run: () => void): void {
    try {
      run();
    } catch (error) {
      reading.fail(error);
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
