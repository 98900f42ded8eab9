// A pool of connections to Kafka: sessions of a process with the same settings for Kafka share one.

import { Connection } from "./connection.js";
import type { KafkaSettings } from "./settings.js";

const connections = new Map<string, Connection>();

/** Returns this process's connection for these settings, or a new one. Throws like Connection. */
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
