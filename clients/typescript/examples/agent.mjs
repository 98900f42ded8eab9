// An agent behind haltline: node examples/agent.mjs http://127.0.0.1:8765
// It deletes the same thing again and again; haltline stops it.
import { httpSession, Refused } from "haltline";

const session = httpSession({ url: process.argv[2], agentId: "cleaner", sessionId: process.argv[3] });
const deleteAsset = session.guarded("delete_asset", async ({ asset_id }) => {
  console.log(`deleted ${asset_id}`);
  return `${asset_id} still exists`;
});

try {
  for (let turn = 0; turn < 10; turn++) {
    await session.beforeTurn(); // throws if the session has been stopped
    await session.turn({ usage: { inputTokens: 900, outputTokens: 40 } });
    await deleteAsset({ asset_id: "fact_sales", note: process.argv[4] });
  }
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.log(`stopped: ${error.code}`);
} finally {
  await session.end();
}
