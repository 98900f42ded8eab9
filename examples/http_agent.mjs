// An agent in JavaScript behind haltline, over HTTP: node examples/http_agent.mjs http://127.0.0.1:8765
// It deletes the same thing again and again; haltline stops it.

const intake = process.argv[2];
const session_id = `js-${process.pid}`;

async function post(path, body) {
  const response = await fetch(intake + path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.errors.join("; "));
  return answer;
}

// Puts a function before haltline. Throws when a call must not be made.
function guarded(action, tool) {
  return async (args) => {
    const verdict = await post("/v1/verdict", { session_id, agent_id: "cleaner", action, args });
    if (!verdict.allowed) throw new Error(`${verdict.code}: ${verdict.message}`);
    const { call_id, change_arguments: change } = verdict;
    const allowed = { ...args, ...change?.put }; // it is only allowed with these arguments
    for (const name of change?.remove ?? []) delete allowed[name];
    try {
      const output = await tool(allowed);
      await post("/v1/result", { session_id, call_id, output });
      return verdict.hints ? `${output}\n\n${verdict.hints}` : output; // what the model should hear
    } catch (error) {
      await post("/v1/result", { session_id, call_id, error: String(error) });
      throw error;
    }
  };
}

const deleteAsset = guarded("delete_asset", async ({ asset_id }) => {
  console.log(`deleted ${asset_id}`);
  return `${asset_id} still exists`;
});

await post("/v1/turn", { session_id, agent_id: "cleaner", usage: { input_tokens: 900, output_tokens: 40 } });
try {
  for (let turn = 0; turn < 10; turn++) await deleteAsset({ asset_id: "fact_sales" });
} catch (refused) {
  console.log(`stopped: ${refused.message.split(":")[0]}`);
}
