// haltline hook: asks haltline before each call of a tool. Written by `haltline hook install --for opencode`.
import { spawn } from "node:child_process";

const COMMAND = [];

function ask(hook) {
  return new Promise((resolve) => {
    const child = spawn(COMMAND[0], COMMAND.slice(1));
    let out = "";
    let err = "";
    child.stdout.on("data", (part) => (out += part));
    child.stderr.on("data", (part) => (err += part));
    child.stdin.on("error", () => {});
    child.on("error", (error) => resolve({ code: 1, err: String(error), out: {} }));
    child.on("close", (code) => {
      try {
        resolve({ code, err, out: out.trim() ? JSON.parse(out) : {} });
      } catch {
        resolve({ code, err, out: {} });
      }
    });
    child.stdin.end(JSON.stringify(hook));
  });
}

export const Haltline = async ({ client }) => {
  const above = new Map(); // sessions of subagents, and the session that each is below of
  const late = new Map(); // hints of a call, until its result
  let said = "";
  const isAlone = process.argv.includes("run"); // no person writes the prompts, and nothing but text is shown
  const who = (id) => (above.has(id) ? { session_id: above.get(id), agent_id: id } : { session_id: id });

  async function told(id, hook) {
    const answer = await ask({ ...who(id), ...hook, is_attended: !isAlone });
    const { stopReason, systemMessage: message = stopReason } = answer.out;
    if (message && isAlone) {
      if (message !== said) {
        console.error(message);
      }
      said = message;
    } else if (message) {
      await client?.tui?.showToast?.({ body: { message, variant: "warning" } });
    }
    if (answer.out.continue === false) {
      await client?.session?.abort?.({ path: { id } });
    }
    return answer;
  }

  return {
    "tool.execute.before": async (input, output) => {
      const call = { tool_name: input.tool, tool_input: output.args, tool_use_id: input.callID };
      const { code, out, err } = await told(input.sessionID, { hook_event_name: "PreToolUse", ...call });
      const said = out.hookSpecificOutput ?? {};
      if (said.permissionDecision === "deny" || (said.permissionDecision && !said.updatedInput)) {
        throw new Error(said.permissionDecisionReason);
      }
      if (code === 2) {
        throw new Error(err);
      }
      if (said.updatedInput) {
        Object.assign(output.args, said.updatedInput);
      }
      if (said.additionalContext) {
        late.set(input.callID, said.additionalContext);
      }
    },
    "tool.execute.after": async (input, output) => {
      const hook = { hook_event_name: "PostToolUse", tool_name: input.tool, tool_use_id: input.callID };
      await told(input.sessionID, { ...hook, tool_response: output.output });
      if (late.has(input.callID)) {
        output.output += `\n\n${late.get(input.callID)}`;
        late.delete(input.callID);
      }
    },
    "chat.message": async (input, output) => {
      const texts = (output.parts ?? []).filter((part) => part.type === "text").map((part) => part.text);
      const hook = { hook_event_name: "UserPromptSubmit", prompt: texts.join("\n") };
      const { out } = await told(input.sessionID, hook);
      if (out.continue === false) {
        throw new Error(out.stopReason);
      }
    },
    event: async ({ event }) => {
      const of = event.properties ?? {};
      if (event.type === "session.created" && of.info?.parentID) {
        above.set(of.info.id, above.get(of.info.parentID) ?? of.info.parentID);
      } else if (event.type === "session.idle") {
        await told(of.sessionID, { hook_event_name: above.has(of.sessionID) ? "SubagentStop" : "Stop" });
      } else if (event.type === "session.deleted" && of.info) {
        await told(of.info.id, { hook_event_name: above.has(of.info.id) ? "SubagentStop" : "SessionEnd" });
      }
    },
  };
};
