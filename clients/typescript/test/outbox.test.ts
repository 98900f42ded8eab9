/** The outgoing records of a connection over Kafka: which reports of the library are taken as delivery. */

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Producer } from "../src/kafka/library.js";
import { Outbox } from "../src/kafka/outbox.js";
import { settingsOf } from "../src/kafka/settings.js";
import type { Outgoing } from "../src/kafka/waiting.js";

test("a record that is reported as delivered without an offset is sent again", () => {
  const produced: Outgoing[] = [];
  const producer = {
    produce: (...[, , , , , record]: unknown[]) => produced.push(record as Outgoing),
  } as unknown as Producer;
  const line = { isDown: () => false, producer: () => producer };
  const outbox = new Outbox(settingsOf({ bootstrap: "broker:9092" }), line, assert.fail);
  const reports: boolean[] = [];
  const record = { topic: "t.actions", key: Buffer.from("k"), value: Buffer.from("v"), report: (is: boolean) => reports.push(is) };
  outbox.publish(record, true);
  outbox.delivered(null, record, false);
  assert.deepEqual([produced, reports], [[record, record], []]);
  outbox.delivered(null, record, true);
  assert.deepEqual([produced, reports], [[record, record], [true]]);
  outbox.publish(record, true);
  outbox.delivered({ code: -192, message: "timed out" }, record, false);
  assert.deepEqual(reports, [true, false]);
});
