"""The time of every expression of the npm package grows no faster than the text; its tables are Python's."""

import json
import re
from pathlib import Path
from typing import Final

from tests.clients.typescript import CLIENT, require_built
from tests.programs import printed
from tests.schemas.expression_texts import units

EXPRESSIONS: Final = """
import ts from "typescript";
import { readdirSync, readFileSync } from "node:fs";
const found = new Map();
const add = (form) => found.set(String(form), [form.source, form.flags]);
globalThis.RegExp = class extends RegExp { constructor(...given) { super(...given); add(this); } };
const read = (node) => {
  if (ts.isRegularExpressionLiteral(node)) add((0, eval)(node.text));
  ts.forEachChild(node, read);
};
for (const file of readdirSync("dist", { recursive: true }).filter((name) => name.endsWith(".js"))) {
  read(ts.createSourceFile(file, readFileSync(`dist/${file}`, "utf8"), ts.ScriptTarget.Latest));
  await import(`${process.cwd()}/dist/${file}`);
}
const { redactText } = await import(`${process.cwd()}/dist/redaction/secrets.js`);
redactText("password");
console.log(JSON.stringify([...found.values()]));
"""
"""Prints the source and flags of each expression: of those written in the modules, and of those that they make."""
MEASURE: Final = """
import { readFileSync } from "node:fs";
const SHORT = 500, QUICK_MS = 0.2, SLOW_MS = 50, LINEAR = 3;
const once = (form, text) => {
  const start = process.cpuUsage();
  form.lastIndex = 0;
  if (form.flags.includes("g")) for (const _ of text.matchAll(form)); else form.test(text);
  const used = process.cpuUsage(start);
  return (used.user + used.system) / 1000;
};
const slow = [];
for (const [source, flags, texts] of JSON.parse(readFileSync(process.argv[1], "utf8"))) {
  const form = new RegExp(source, flags);
  for (const [begin, unit] of texts) {
    const text = (length) => (begin + unit.repeat(length / unit.length + 1)).slice(0, length) + "\\0";
    const ms = (times) => once(form, text(times * SHORT));
    const grows = () => {
      const [a, b, c] = [8, 16, 32].map((times) => Math.min(ms(times), ms(times)));
      return c > SLOW_MS && b > LINEAR * a && c > LINEAR * b;
    };
    if (ms(8) > QUICK_MS && grows() && grows()) slow.push([source, begin, unit]);
  }
}
console.log(JSON.stringify(slow));
"""


def texts_for(source: str, flags: str) -> list[tuple[str, str]]:
    """Return beginnings and units for an expression, as Python reads it."""
    written = re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", re.sub(r"\\k<(\w+)>", r"(?P=\1)", source)).replace(r"\/", "/")
    written = re.sub(r"\\u\{?([0-9A-Fa-f]+)\}?", lambda code: re.escape(chr(int(code[1], 16))), written)
    written = re.sub(r"\\p\{\w+\}", r"\\w", written).replace("[^]", r"[\s\S]")
    return units(written, (re.IGNORECASE if "i" in flags else 0) | re.ASCII)


def test_expressions_of_the_package_take_time_linear_in_the_text(tmp_path: Path) -> None:
    node = require_built()
    found = json.loads(printed(node, "--input-type=module", "--eval", EXPRESSIONS, cwd=CLIENT))
    file = tmp_path / "expressions.json"
    file.write_text(json.dumps([(source, flags, texts_for(source, flags)) for source, flags in found]), "utf-8")

    slow = printed(node, "--input-type=module", "--eval", MEASURE, str(file), cwd=CLIENT, timeout=900)

    assert len(found) > 150
    assert json.loads(slow) == []
