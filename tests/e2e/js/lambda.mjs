// Calls the example Lambda (packaging/examples/cognito-lambda) with the event on standard input; prints what it returns, and what it queued.
import { readFileSync } from "node:fs";
import { handler, outside } from "../../../packaging/examples/cognito-lambda/index.mjs";

const queued = [];

outside.enqueue = async (body) => {
  if (process.env.GATEHOUSE_QUEUE_URL === "broken") throw new Error("no queue");
  queued.push(body);
};
process.stdout.write(JSON.stringify({ returned: await handler(JSON.parse(readFileSync(0, "utf8"))), queued }));
