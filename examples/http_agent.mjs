// An agent in JavaScript behind haltline, over HTTP: node examples/http_agent.mjs http://127.0.0.1:8765
// It deletes the same thing again and again; haltline stops it.

const service = process.argv[2];

async function ask(verb, body) {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${process.env.HALTLINE_INTAKE_TOKEN ?? ""}` };
  const response = await fetch(`${service}/v2/${verb}`, { method: "POST", headers, body: JSON.stringify(body) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.errors.join("; "));
  return answer;
}

const { token } = await ask("begin", { session_id: `js-${process.pid}`, agent_id: "cleaner" });

// Puts a function before haltline. Throws when a call must not be made.
function guarded(action, tool) {
  return async (args) => {
    const call = { token, call_id: crypto.randomUUID(), action, args };
    let said = await ask("propose", call);
    for (; said.answer === "wait"; said = await ask("propose", call)) await new Promise((done) => setTimeout(done, said.wait_ms));
    if (!["allow", "change", "reinforce"].includes(said.answer)) throw new Error(`${said.code}: ${said.message}`);
    const allowed = { ...args, ...said.put }; // it is only allowed with these arguments
    for (const name of said.remove ?? []) delete allowed[name];
    try {
      const output = await tool(allowed);
      await ask("end", { token, call_id: call.call_id, output });
      return said.hints ? `${output}\n\n${said.hints}` : output; // what the model should hear
    } catch (error) {
      await ask("end", { token, call_id: call.call_id, error: String(error) });
      throw error;
    }
  };
}

const deleteAsset = guarded("delete_asset", async ({ asset_id }) => {
  console.log(`deleted ${asset_id}`);
  return `${asset_id} still exists`;
});

await ask("turn", { token, usage: { input_tokens: 900, output_tokens: 40 } });
try {
  for (let turn = 0; turn < 10; turn++) await deleteAsset({ asset_id: "fact_sales" });
} catch (refused) {
  console.log(`stopped: ${refused.message.split(":")[0]}`);
}
