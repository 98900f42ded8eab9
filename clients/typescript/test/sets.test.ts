/** The set of topics in use, by the entry of `control`. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { prefixInUse } from "../src/kafka/sets.js";

test("the last prefix of the entry is in use", () => {
  const entry = { v: 1, scope: "session", id: "topics", state: "probation", prefixes: ["haltline.", "haltline.2."] };
  assert.equal(prefixInUse(Buffer.from(JSON.stringify(entry))), "haltline.2.");
  for (const other of ["{", "null", "7", '{"prefixes":[]}', '{"prefixes":[7]}', '{"prefixes":"haltline.2."}']) {
    assert.equal(prefixInUse(Buffer.from(other)), undefined, other);
  }
  assert.equal(prefixInUse(undefined), undefined);
});
