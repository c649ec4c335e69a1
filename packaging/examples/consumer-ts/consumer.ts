// A member of a consumer: poll, work, acknowledge, for ever. It remembers nothing itself: Gatehouse keeps the place.
import { setTimeout as sleep } from "node:timers/promises";

/** A CloudEvent as Gatehouse publishes it. */
export interface GatehouseEvent {
  id: string;
  type: string;
  subject: string;
  time: string;
  /** Counts the events of the subject, without a gap. */
  seq: number;
  position: number;
  /** Of the log, if it is not 0. */
  shard?: number;
  /** The subject was erased: there is no data any more. */
  erased?: boolean;
  data?: Record<string, unknown>;
}

export interface ConsumerOptions {
  url: string;
  /** ID.SECRET of a key that may do gatehouse:PollConsumer and gatehouse:AckConsumer on consumer/NAME. */
  key?: string;
  consumer: string;
  /** Of this process. Two processes must not share one. */
  member: string;
  /** How many seconds a page of events may take. */
  lease?: number;
  signal: AbortSignal;
  /** Deals with an event. If it throws, the event comes again, and so do all after it. */
  handle(event: GatehouseEvent): Promise<void>;
  /** Told of what went wrong; the consumer goes on after a pause. */
  failed?(error: unknown): void;
}

interface Page {
  events: GatehouseEvent[];
  after: string;
  more: boolean;
  generation: number;
}

const WAIT_S = 20;
const PAUSE_MS = 200;
const PAUSE_MS_MAX = 10_000;

class Refused extends Error {
  constructor(readonly status: number, detail: string) {
    super(`${status}: ${detail}`);
  }
}

async function call<T>(options: ConsumerOptions, what: string, body: object): Promise<T> {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (options.key) headers["Authorization"] = `Bearer ${options.key}`;
  const reply = await fetch(`${options.url}/v1/consumers/${encodeURIComponent(options.consumer)}/${what}`, {
    method: "POST",
    headers,
    body: JSON.stringify({ member: options.member, ...body }),
    signal: AbortSignal.any([options.signal, AbortSignal.timeout((WAIT_S + 30) * 1000)]),
  });
  const answer = (await reply.json()) as T & { detail?: string };
  if (!reply.ok) throw new Refused(reply.status, answer.detail ?? "");
  return answer;
}

/** How far the log is dealt with, if these events of a page are not: in each shard, up to the first of them. */
export function before(left: GatehouseEvent[], after: string): string {
  const positions = after.split("-").map(Number);
  for (const event of left) {
    const shard = event.shard ?? 0;
    positions[shard] = Math.min(positions[shard]!, event.position - 1);
  }
  return positions.join("-");
}

/** One page: what was dealt with is acknowledged, also if a later event failed. */
async function round(options: ConsumerOptions): Promise<void> {
  const page = await call<Page>(options, "poll", { wait: WAIT_S, lease: options.lease ?? 30 });
  let after = page.after;
  let failure: unknown;
  for (const [i, event] of page.events.entries()) {
    try {
      await options.handle(event);
    } catch (error) {
      failure = error;
      after = before(page.events.slice(i), page.after);
      break;
    }
  }
  try {
    await call(options, "ack", { generation: page.generation, after });
  } catch (error) {
    // 409: this member was slow, and others have its events by now. They come again, and are recognised.
    if (!(error instanceof Refused && error.status === 409)) throw error;
  }
  if (failure) throw failure;
}

/** Until the signal. */
export async function consume(options: ConsumerOptions): Promise<void> {
  let pause = PAUSE_MS;
  while (!options.signal.aborted) {
    try {
      await round(options);
      pause = PAUSE_MS;
    } catch (error) {
      if (options.signal.aborted) return;
      options.failed?.(error);
      await sleep(pause * (0.5 + Math.random()), undefined, { signal: options.signal }).catch(() => undefined);
      pause = Math.min(pause * 2, PAUSE_MS_MAX);
    }
  }
}
