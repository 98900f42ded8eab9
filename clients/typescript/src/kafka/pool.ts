// Which connection to Kafka a session uses: one that its process has already, if the settings for Kafka are the same.

import { Connection } from "./connection.js";
import type { KafkaSettings } from "./settings.js";

const connections = new Map<string, Connection>();

/** The connection that this process has with these settings already, or a new one. Throws as Connection does. */
export function connectionOf(settings: KafkaSettings, warn?: (message: string) => void): Connection {
  const { bootstrap, topicPrefix, isBlocking, fetchWaitMs, verifyKey, spoolDir, spoolMaxMb, kafka } = settings;
  const own = [bootstrap, topicPrefix, isBlocking, fetchWaitMs, verifyKey, spoolDir, spoolMaxMb];
  const key = JSON.stringify([...own, Object.entries(kafka).sort()]);
  for (const [other, connection] of connections) if (connection.ended) connections.delete(other);
  let connection = connections.get(key);
  if (connection === undefined) {
    connection = new Connection(settings, warn ?? ((message) => process.emitWarning(`haltline: ${message}`)));
    connections.set(key, connection);
  }
  return connection;
}
