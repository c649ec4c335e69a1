// Sends what the standard input says with AWS's own SDK: {"service": "sqs" | "eventbridge", "endpoint", "region", "input"}. Times are
// texts there, and dates for the SDK. Only what the receiver sees counts: errors in its answers are ignored.
import { readFileSync } from "node:fs";
import { EventBridgeClient, PutEventsCommand } from "@aws-sdk/client-eventbridge";
import { SQSClient, SendMessageBatchCommand } from "@aws-sdk/client-sqs";

const asked = JSON.parse(readFileSync(0, "utf8"));
const options = { endpoint: asked.endpoint, region: asked.region, maxAttempts: 1, md5: false };
for (const entry of asked.input.Entries) if (entry.Time !== undefined) entry.Time = new Date(entry.Time);

try {
  if (asked.service === "sqs") await new SQSClient(options).send(new SendMessageBatchCommand(asked.input));
  else await new EventBridgeClient(options).send(new PutEventsCommand(asked.input));
} catch (error) {
  if (error.$metadata === undefined) throw error;
}
