// An agent behind haltline, over Kafka: HALTLINE_BOOTSTRAP=127.0.0.1:9092 node examples/kafka_agent.mjs [SESSION]
// It deletes the same thing again and again; a worker stops it.
import { randomUUID } from "node:crypto";

import { Refused } from "haltline";
import { kafkaSession } from "haltline/kafka";

const [sessionId = randomUUID()] = process.argv.slice(2);
const session = kafkaSession({ sessionId, agentId: "cleaner", mode: "blocking" });
const deleteAsset = session.guarded("delete_asset", async ({ asset_id }) => `${asset_id} still exists`);

try {
  for (let turn = 1; turn <= 10; turn++) {
    await session.beforeTurn(); // throws Refused if the session has been stopped
    console.log(`turn ${turn}: ${await deleteAsset({ asset_id: "fact_sales" })}`);
  }
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.log(`stopped: ${error.code}`);
} finally {
  await session.end();
}
