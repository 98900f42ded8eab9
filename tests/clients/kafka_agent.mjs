// A session over Kafka, or a local one, that does what it reads: one line of JSON in, one out. Its modules are in the folder of argv[2].
import { copyFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, options] = process.argv.slice(2);
const { kafkaSession, KafkaTransport } = await import(pathToFileURL(`${folder}/kafka/index.js`));
const { Session } = await import(pathToFileURL(`${folder}/session.js`));
const { localSession } = await import(pathToFileURL(`${folder}/index.js`));
const warnings = [];
const settings = { ...JSON.parse(options), onWarning: (message) => warnings.push(message) };

if (settings.work !== undefined) {
  const { work } = settings;
  const at = (id) => work.replace(/[^.]*$/, id);
  settings.checkpoints = { keep: (id) => copyFile(work, at(id)), restore: (id) => copyFile(at(id), work).then(() => "by hand") };
  delete settings.work;
}

let transport;
const sessions = {};
const does = {
  // A session of its own transport, so that `about` can ask that too.
  open() {
    transport = new KafkaTransport(settings);
    sessions.own = new Session(transport, { mode: "async", ...settings });
    return true;
  },
  async local() {
    sessions.own = await localSession(settings);
    return true;
  },
  create: () => kafkaSession(settings).sessionId,
  async before(name, args, callOptions, of = "own") {
    const verdict = await sessions[of].before(undefined, name, args, callOptions ?? {});
    const { refused, ...shown } = verdict;
    return refused === undefined ? shown : { ...shown, reason: refused.reason, hints: refused.hints, approval: refused.approval };
  },
  after: (callId, output, error, of = "own") => sessions[of].after(callId, output ?? undefined, error ? { error: new Error(error) } : {}),
  async call(name, args, callOptions, of = "own") {
    const verdict = await does.before(name, args, callOptions, of);
    if (!verdict.allowed) return verdict.code;
    await sessions[of].after(verdict.callId, "asset still exists");
    return "executed";
  },
  async said(name, args) {
    const verdict = await does.before(name, args);
    if (!verdict.allowed) return `${verdict.code}: ${verdict.reason}`;
    await does.after(verdict.callId, "done");
    return "executed";
  },
  async replay(key) {
    let made = 0;
    for (let times = 0; times < 2; times++) {
      const result = await sessions.own.run("send", {}, () => `sent ${++made}`, { key });
      if (result !== "sent 1") throw new Error(`expected the first result, got ${result}`);
    }
    return made;
  },
  beginRun: () => sessions.own.beginRun(),
  checkpoint: (id) => sessions.own.checkpoint(id),
  prompt: (text) => sessions.own.prompt(text),
  turn: (usage, output) => sessions.own.turn({ usage, output }),
  beforeTurn: () => sessions.own.beforeTurn(),
  subagent(sessionId) {
    sessions[sessionId] = sessions.own.subagent({ sessionId });
    return true;
  },
  about: () => ({ degraded: transport?.degraded, ready: transport?.ready, dropped: transport?.dropped, warnings }),
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
