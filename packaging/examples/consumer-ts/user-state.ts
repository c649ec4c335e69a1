// What a service keeps of the users that it knows from events: one row per user, in its own DynamoDB table.
//
// This replaces the usual handler, which looks up whether the event's id was processed, compares timestamps, updates its state, and
// marks the id as processed. That has two faults:
//
//   1. It orders by timestamp. Two events of one millisecond tie, and the second is dropped as stale or overwrites the first; clocks of
//      two writers differ. Here `seq` decides: Gatehouse counts the events of a subject without a gap.
//   2. Update and mark are two writes. If the process dies between them, the event is applied twice; if two processes get the event at
//      once, both find no mark. Here they are one: the row itself says up to which event it is, and the write depends on it.
import { ConditionalCheckFailedException, DynamoDBClient, UpdateItemCommand } from "@aws-sdk/client-dynamodb";

import type { GatehouseEvent } from "./consumer.js";

export type Outcome = "applied" | "stale";

const STATUS: Record<string, string> = {
  "user.created": "active",
  "user.suspended": "suspended",
  "user.reactivated": "active",
  "user.deleted": "deleted",
  "user.erased": "erased",
};

/** Applies the event exactly once, however often and on however many machines it comes. */
export async function handleUserEvent(db: DynamoDBClient, table: string, event: GatehouseEvent): Promise<Outcome> {
  const status = STATUS[event.type];
  try {
    await db.send(
      new UpdateItemCommand({
        TableName: table,
        Key: { userId: { S: event.subject } },
        UpdateExpression: `SET seq = :seq, lastEvent = :id${status ? ", #status = :status" : ""}`,
        ConditionExpression: "attribute_not_exists(seq) OR seq < :seq",
        ...(status && { ExpressionAttributeNames: { "#status": "status" } }),
        ExpressionAttributeValues: {
          ":seq": { N: String(event.seq) },
          ":id": { S: event.id },
          ...(status && { ":status": { S: status } }),
        },
      }),
    );
    return "applied";
  } catch (error) {
    if (error instanceof ConditionalCheckFailedException) return "stale"; // a repetition, or older than what is there
    throw error;
  }
}
