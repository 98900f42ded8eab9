/** Topics that an earlier release has grown, by the entry of `control`. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Grown, Topics } from "../src/kafka/topics.js";

test("topics that an earlier release has grown are refused by the name of those in use", () => {
  const entry = { v: 1, scope: "session", id: "topics", state: "probation", prefixes: ["haltline.", "haltline.2."] };
  const value = Buffer.from(JSON.stringify(entry));
  assert.throws(() => new Topics("haltline.").require(value), { constructor: Grown, message: /topicPrefix haltline\.2\. / });
  new Topics("haltline.2.").require(value);
  for (const other of ["{", "null", "7", '{"prefixes":[]}', '{"prefixes":[7]}', '{"prefixes":"haltline.2."}']) {
    assert.doesNotThrow(() => new Topics("haltline.").require(Buffer.from(other)), other);
  }
  assert.doesNotThrow(() => new Topics("haltline.").require(undefined));
});
