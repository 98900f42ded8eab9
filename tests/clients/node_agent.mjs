// A session of `localSession` that does what it reads: one line of JSON in, one out. Its modules are in the folder of argv[2].
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, options] = process.argv.slice(2);
const { localSession } = await import(pathToFileURL(`${folder}/index.js`));
const warnings = [];
const sessions = {};
const does = {
  async open() {
    sessions.own = await localSession({ ...JSON.parse(options), onWarning: (message) => warnings.push(message) });
    return true;
  },
  async call(name, args, of = "own") {
    const verdict = await sessions[of].before(undefined, name, args);
    if (!verdict.allowed) return verdict.code;
    await sessions[of].after(verdict.callId, "asset still exists");
    return "executed";
  },
  subagent(sessionId) {
    sessions[sessionId] = sessions.own.subagent({ sessionId });
    return true;
  },
  warnings: () => warnings,
  end: (of = "own") => sessions[of].end(),
};

const lines = createInterface({ input: process.stdin });
for await (const line of lines) {
  const [name, ...given] = JSON.parse(line);
  let answer;
  try {
    answer = { is: (await does[name](...given)) ?? null };
  } catch (error) {
    answer = { raised: error.name, code: error.code ?? null, reason: error.reason ?? error.message };
  }
  console.log(JSON.stringify(answer));
}
