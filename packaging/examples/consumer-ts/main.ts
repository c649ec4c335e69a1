// Keeps a copy of every user's status. Settings are environment variables: see README.md.
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { randomUUID } from "node:crypto";

import { consume } from "./consumer.js";
import { handleUserEvent } from "./user-state.js";

function setting(name: string, otherwise?: string): string {
  const value = process.env[name] ?? otherwise;
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());

const db = new DynamoDBClient({});
const table = setting("TABLE", "user-copies");

await consume({
  url: setting("GATEHOUSE_URL"),
  key: process.env["GATEHOUSE_KEY"],
  consumer: setting("GATEHOUSE_CONSUMER"),
  member: setting("MEMBER", randomUUID()),
  lease: Number(setting("LEASE_S", "30")),
  signal: stop.signal,
  async handle(event) {
    const outcome = await handleUserEvent(db, table, event);
    console.log(JSON.stringify({ outcome, type: event.type, seq: event.seq, position: event.position }));
  },
  failed: (error) => console.error(error instanceof Error ? error.message : error),
});
