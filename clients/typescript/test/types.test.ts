/** That the types say what the values are: it is compiled, and hardly does anything. */

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Allowed, Denied, Session } from "../src/index.js";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

function holds<T extends true>(): T | undefined {
  return undefined;
}

export async function uses(session: Session): Promise<void> {
  const verdict = await session.before(undefined, "send", { to: "x" }, { effect: "write", targets: ["a"] });
  if (verdict.allowed) holds<Equal<typeof verdict, Allowed>>();
  else holds<Equal<typeof verdict, Denied>>();
  const send = session.guarded("send", ({ to }: { to: string }) => to.length);
  holds<Equal<typeof send, (args: { to: string }) => Promise<number>>>();
  // @ts-expect-error an argument of another type
  await send({ to: 7 });
  // @ts-expect-error an effect that does not exist
  await session.before("c", "send", {}, { effect: "bad" });
  // @ts-expect-error arguments of what is denied
  if (!verdict.allowed) void verdict.args;
  // @ts-expect-error nobody sets it
  session.sessionId = "x";
}

test("the types are compiled", () => assert.equal(typeof uses, "function"));
