// A disk spool: records that wait while the broker is down, in order, in bounded files, also for the next process. The
// records of a file are those of the Python client's spool: lengths, a checksum, topic, key and value. File names
// differ, as Node has no file locks: they identify the owner, and files of an ended process of this host are taken
// over.

import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { threadId } from "node:worker_threads";
import * as zlib from "node:zlib";

import type { Outgoing, Report } from "./waiting.js";

const HEAD_BYTES = 12; // of topic, key (16 bits each) and value (32), and the checksum (32)
const FILE_BYTES = 4 * 1024 * 1024;
const NAME = /^(\d{20}-[0-9a-f]{8})\.(.+)\.(\d+)-(\d+)\.nodespool$/;
const held = new Map<string, DiskSpool>(); // by path: the open spools of this thread

/** Takes a record, and later reports once whether it arrived. False: it accepts no more now. */
export type Send = (record: Omit<Outgoing, "report">, report: Report) => boolean;

interface Spooled {
  readonly path: string;
  bytes: number;
  /** The position of the next record to send. */
  at: number;
  onTheWay: number;
  isAllTaken: boolean;
  /** The position of the first record that did not arrive. */
  againFrom: number;
}

/** First in, first out. Throws Error if the folder cannot be created or read. */
export class DiskSpool {
  readonly #folder: string;
  readonly #maxBytes: number;
  readonly #warn: (message: string) => void;
  #files: Spooled[] = [];
  #writing: { readonly file: Spooled; readonly descriptor: number } | undefined;
  #bytes = 0;
  #isClosed = false;
  /** Records that could not be read back. A damaged header counts as one: the number of records after it is unknown. */
  lost = 0;

  constructor(folder: string, maxBytes: number, warn: (message: string) => void) {
    if (zlib.crc32 === undefined) throw new Error("spoolDir: expected Node 20.15 or newer, got " + process.version);
    this.#folder = folder;
    this.#maxBytes = maxBytes;
    this.#warn = warn;
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    for (const name of fs.readdirSync(folder).sort()) this.#adopt(name);
  }

  get isEmpty(): boolean {
    return this.#files.length === 0;
  }

  /** Appends one record. False: there is no room, or the disk fails. */
  append({ topic, key, value }: Omit<Outgoing, "report">): boolean {
    const body = Buffer.concat([Buffer.from(topic), key, value]);
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeUInt16BE(body.length - key.length - value.length, 0);
    head.writeUInt16BE(key.length, 2);
    head.writeUInt32BE(value.length, 4);
    head.writeUInt32BE(zlib.crc32(body), 8);
    const data = Buffer.concat([head, body]);
    if (this.#isClosed || this.#bytes + data.length > this.#maxBytes) return false;
    try {
      const { file, descriptor } = this.#current();
      if (fs.writeSync(descriptor, data, 0, data.length, file.bytes) < data.length) throw new Error("the disk is full");
      file.bytes += data.length; // an incomplete write is overwritten
    } catch (error) {
      this.#warn(`${this.#folder}: cannot keep what the broker does not take: ${String(error)}`);
      return false;
    }
    this.#bytes += data.length;
    return true;
  }

  /** Sends waiting records, oldest first, until `send` accepts no more. Files are removed when all has arrived. */
  drain(send: Send): void {
    for (let file = this.#files[0]; file !== undefined; file = this.#files[0]) {
      if (this.#writing?.file === file) this.#stopWriting(); // later records go to another file
      if (!this.#handOut(file, send)) return;
      this.#files.shift();
      file.isAllTaken = true;
      this.#settle(file);
    }
  }

  /** Closes the files; waiting records stay for the next process. */
  close(): void {
    this.#stopWriting();
    this.#isClosed = true;
    for (const [path, of] of held) if (of === this) held.delete(path);
  }

  #handOut(file: Spooled, send: Send): boolean {
    let data: Buffer;
    try {
      data = fs.readFileSync(file.path);
    } catch (error) {
      const aside = file.path.replace(/nodespool$/, "unreadable");
      this.#lose(`${file.path} cannot be read, and is kept as ${aside}: ${String(error)}`);
      if (fs.existsSync(file.path)) fs.renameSync(file.path, aside);
      return true;
    }
    for (let at = file.at; at < data.length; ) {
      const head = data.subarray(at, at + HEAD_BYTES);
      const [topic, key, value] = head.length < HEAD_BYTES ? [0, 0, 0] : [head.readUInt16BE(0), head.readUInt16BE(2), head.readUInt32BE(4)];
      const body = data.subarray(at + HEAD_BYTES, at + HEAD_BYTES + topic + key + value);
      if (topic === 0 || body.length < topic + key + value) {
        this.#lose(`${file.path}: the end is damaged`); // incomplete, or no header: later records cannot be found
        return true;
      }
      const [from, next] = [at, at + HEAD_BYTES + body.length];
      if (zlib.crc32(body) !== head.readUInt32BE(8)) this.#lose(`${file.path}: a damaged record was left out`);
      else {
        file.onTheWay++;
        const record = { topic: body.toString("utf8", 0, topic), key: body.subarray(topic, topic + key), value: body.subarray(topic + key) };
        if (!send(record, (isOk) => this.#arrived(file, from, isOk))) {
          file.onTheWay--;
          return false;
        }
      }
      file.at = at = next;
    }
    return true;
  }

  #arrived(file: Spooled, from: number, isOk: boolean): void {
    file.onTheWay--;
    if (!isOk) file.againFrom = Math.min(file.againFrom, from);
    this.#settle(file);
  }

  /** Removes a file whose records are all confirmed, or queues it again. */
  #settle(file: Spooled): void {
    if (this.#isClosed || file.onTheWay > 0 || !file.isAllTaken) return;
    if (file.againFrom === Infinity) {
      this.#bytes -= file.bytes;
      held.delete(file.path);
      fs.rmSync(file.path, { force: true });
    } else {
      Object.assign(file, { at: file.againFrom, againFrom: Infinity, isAllTaken: false });
      this.#files.unshift(file);
    }
  }

  #current(): { readonly file: Spooled; readonly descriptor: number } {
    if (this.#writing !== undefined && this.#writing.file.bytes < FILE_BYTES) return this.#writing;
    this.#stopWriting();
    const microseconds = Math.round((performance.timeOrigin + performance.now()) * 1000);
    const path = this.#own(`${String(microseconds).padStart(17, "0")}000-${randomBytes(4).toString("hex")}`);
    this.#writing = { descriptor: fs.openSync(path, "wx", 0o600), file: this.#add(path, 0) };
    return this.#writing;
  }

  #stopWriting(): void {
    if (this.#writing !== undefined) fs.closeSync(this.#writing.descriptor);
    this.#writing = undefined;
  }

  /** Takes over a file of an ended process. */
  #adopt(name: string): void {
    const [, begun = "", host, pid, thread] = NAME.exec(name) ?? [];
    const path = join(this.#folder, name);
    const isOurs = Number(pid) === process.pid;
    if (host !== hostname() || held.has(path) || (isOurs ? Number(thread) !== threadId : isAlive(Number(pid)))) return;
    try {
      fs.renameSync(path, this.#own(begun));
      this.#bytes += this.#add(this.#own(begun), fs.statSync(this.#own(begun)).size).bytes;
    } catch {
      // another process was first
    }
  }

  #own(begun: string): string {
    return join(this.#folder, `${begun}.${hostname()}.${process.pid}-${threadId}.nodespool`);
  }

  #add(path: string, bytes: number): Spooled {
    const file = { path, bytes, at: 0, onTheWay: 0, isAllTaken: false, againFrom: Infinity };
    held.set(path, this);
    this.#files.push(file);
    return file;
  }

  #lose(why: string): void {
    this.lost++;
    this.#warn(why);
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"; // it belongs to another user
  }
}
