// Is each message signed as Standard Webhooks wants it? Reads a line per message, {"secret", "headers", "body"}, and prints `good` or the
// reason of the npm package `standardwebhooks` for each.
import readline from 'node:readline';
import { Webhook } from 'standardwebhooks';

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { secret, headers, body } = JSON.parse(line);
  try {
    new Webhook(secret).verify(body, headers);
    console.log('good');
  } catch (error) {
    console.log(String(error.message));
  }
}
