// A post-confirmation trigger for Amazon Cognito that forwards the user to Gatehouse (POST /v1/sync/events). See README.md.
// Node 18 or later; no packages.

const NAMES = { email: "email", given_name: "firstName", family_name: "lastName", phone_number: "phone" };
const TRIES = 3;
const PAUSE_MS = 100; // doubles
const CALL_MS = 1200; // Cognito waits for 5 seconds in all

export function record(event, now = new Date()) {
  const { sub, email_verified, ...attributes } = event.request.userAttributes;
  const body = {
    provider: process.env.GATEHOUSE_PROVIDER ?? event.userPoolId,
    id: sub,
    username: event.userName,
    emailVerified: email_verified === "true",
    updatedAt: now.toISOString(),
  };

  for (const [name, member] of Object.entries(NAMES)) if (attributes[name]) body[member] = attributes[name];
  for (const [name, value] of Object.entries(attributes))
    if (name.startsWith("custom:")) body.attributes = { ...body.attributes, [name.slice("custom:".length)]: value };
  return body;
}

async function send(body) {
  const headers = { "Content-Type": "application/json" };

  if (process.env.GATEHOUSE_KEY) headers.Authorization = `Bearer ${process.env.GATEHOUSE_KEY}`;
  const answer = await fetch(`${process.env.GATEHOUSE_URL}/v1/sync/events`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(CALL_MS),
  });
  if (answer.ok) return;
  // The type of the problem says enough: what was sent is personal, and belongs into no log.
  const problem = await answer.json().catch(() => ({}));
  const error = new Error(`Gatehouse answered ${answer.status} ${problem.type ?? ""}`);

  error.final = answer.status < 500 && answer.status !== 429;
  throw error;
}

// Where records wait that Gatehouse did not take: the SQS queue GATEHOUSE_QUEUE_URL, which calls this function again. Lambda brings the SDK along.
export const outside = {
  async enqueue(body) {
    const { SQSClient, SendMessageCommand } = await import("@aws-sdk/client-sqs");

    await new SQSClient({}).send(new SendMessageCommand({ QueueUrl: process.env.GATEHOUSE_QUEUE_URL, MessageBody: JSON.stringify(body) }));
  },
};

// An alarm can count these lines. They say nothing about the person.
function note(what, error) {
  console.error(JSON.stringify({ level: "error", message: what, error: error?.name, detail: error?.final !== undefined ? error.message : undefined }));
}

async function sendPatiently(body) {
  for (let tried = 1; ; tried++) {
    try {
      return await send(body);
    } catch (error) {
      if (error.final || tried === TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * 2 ** (tried - 1)));
    }
  }
}

// The account is confirmed, whatever becomes of this call: an error here would tell the person that signing up failed. So nothing is thrown.
// What could not be sent is queued; what could not be queued, the next reconciliation finds.
async function confirmed(event) {
  if (!event.triggerSource.startsWith("PostConfirmation_")) return event;
  const body = record(event);

  try {
    await sendPatiently(body);
  } catch (error) {
    note("Gatehouse did not take the record", error);
    try {
      if (process.env.GATEHOUSE_QUEUE_URL) await outside.enqueue(body);
    } catch (failed) {
      note("the record was not queued", failed);
    }
  }
  return event;
}

// Records from the queue. Those that fail go back to it, and to its dead-letter queue in the end (ReportBatchItemFailures).
async function queued(event) {
  const failures = [];

  for (const { messageId, body } of event.Records)
    try {
      await send(JSON.parse(body));
    } catch (error) {
      note("Gatehouse did not take a queued record", error);
      failures.push({ itemIdentifier: messageId });
    }
  return { batchItemFailures: failures };
}

export async function handler(event) {
  return Array.isArray(event.Records) ? queued(event) : confirmed(event);
}
