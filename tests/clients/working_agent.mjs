// An agent that works until it is stopped: node working_agent.mjs URL SESSION
import { httpSession, Refused } from "../../clients/typescript/dist/index.js";

const session = httpSession({ url: process.argv[2], sessionId: process.argv[3], agentId: "worker" });
try {
  for (;;) {
    await session.beforeTurn();
    const verdict = await session.before(undefined, "get_asset", { asset_id: "x" });
    if (!verdict.allowed) throw verdict.refused;
    await session.after(verdict.callId, `rows at ${Date.now()}`);
    console.log("read");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.log(`stopped: ${error.code} ${session.stopped?.code}`);
}
