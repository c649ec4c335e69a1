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

// If this throws, Cognito tells the person that signing up failed, although the account is confirmed. Reconciliation creates the user
// later in any case, so you may want to catch the error here and count it instead.
export async function handler(event) {
  if (!event.triggerSource.startsWith("PostConfirmation_")) return event;
  const body = record(event);

  for (let tried = 1; ; tried++) {
    try {
      await send(body);
      return event;
    } catch (error) {
      if (error.final || tried === TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * 2 ** (tried - 1)));
    }
  }
}
