// Calls the example Lambda (packaging/examples/cognito-lambda) with the event on standard input; prints what it returns.
import { readFileSync } from "node:fs";
import { handler } from "../../../packaging/examples/cognito-lambda/index.mjs";

process.stdout.write(JSON.stringify(await handler(JSON.parse(readFileSync(0, "utf8")))));
