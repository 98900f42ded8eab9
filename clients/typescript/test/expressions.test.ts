/** That every regular expression of the package takes time linear in the text, measured by doubling it. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import ts from "typescript";

import { patternOf } from "../src/redaction/forms.js";
import { BESIDE, FORMS } from "../src/redaction/tables.js";

const SOURCE = fileURLToPath(new URL("../src/", import.meta.url));
const CHARS = 4_000;
const QUICK_MS = 1;
const SLOW_MS = 50;
const GROWTH = 3; // of the time for twice the text: 2 is linear, 4 quadratic
const SINGLE = [..." \t\n\"'`#$%&()*+,-./09:;<=>?@AFZ[\\]^_afz{|}~\u00e9"];

/** Every expression: the literals of the source, and what is made when its modules are loaded or a text is redacted. */
async function expressions(): Promise<RegExp[]> {
  const found = new Map<string, RegExp>();
  const made = globalThis.RegExp;
  globalThis.RegExp = new Proxy(made, {
    construct(target, args: [string, string?]) {
      const one = new target(...args);
      found.set(String(one), one);
      return one;
    },
  });
  try {
    for (const file of readdirSync(SOURCE, { recursive: true, encoding: "utf8" })) {
      if (!file.endsWith(".js")) continue;
      const visit = (node: ts.Node): void => {
        if (ts.isRegularExpressionLiteral(node)) {
          const end = node.text.lastIndexOf("/");
          new RegExp(node.text.slice(1, end), node.text.slice(end + 1));
        }
        ts.forEachChild(node, visit);
      };
      visit(ts.createSourceFile(file, readFileSync(join(SOURCE, file), "utf8"), ts.ScriptTarget.Latest));
      await import(`${join(SOURCE, file)}?again`).catch(() => undefined); // without its peer dependency
    }
    for (const row of FORMS) new RegExp(patternOf(row), "u");
    for (const row of BESIDE) new RegExp(row.form, "u");
  } finally {
    globalThis.RegExp = made;
  }
  return [...found.values()];
}

/** What may be read slowly again and again: single characters, and words of the expression with one. */
function units(form: RegExp): string[] {
  const words = form.source.match(/(?<!\\)[A-Za-z_]{2,}|[a-z-]{2,}(?=:)/g) ?? [];
  const some = [...new Set(words)].slice(0, 12);
  return [...SINGLE, ...some, ...some.flatMap((word) => [`${word} `, `${word}=`, `${word}-`, ` -${word}`])];
}

function milliseconds(form: RegExp, unit: string, chars: number): number {
  const text = unit.repeat(chars / unit.length + 1).slice(0, chars - 1) + "\0";
  const every = new RegExp(form.source, `${form.flags.replace(/[gyd]/g, "")}g`);
  let least = Infinity;
  for (let time = 0; time < 3 && least > QUICK_MS; time++) {
    const start = process.cpuUsage();
    for (const _ of text.matchAll(every)) continue;
    const { user, system } = process.cpuUsage(start);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}

test("every expression takes time linear in the text", async () => {
  const slow: string[] = [];
  const all = await expressions();
  for (const form of all) {
    for (const unit of units(form)) {
      if (milliseconds(form, unit, CHARS) < QUICK_MS) continue;
      const [some, twice, four] = [2, 4, 8].map((times) => milliseconds(form, unit, times * CHARS));
      if (four! > SLOW_MS && four! > GROWTH * twice! && twice! > GROWTH * some!) {
        slow.push(`${JSON.stringify(unit)}: ${String(form)}`);
        break;
      }
    }
  }
  assert.ok(all.length > 400, `expected every expression, got ${all.length}`);
  assert.deepEqual(slow, []);
});
