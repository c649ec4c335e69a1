// The AWS SDK for JavaScript, bare: for each attempt it sends the two requests that Gatehouse sends, filled from a recording (recorded.py). The rival of
// POST /v1/attempts on tables at an endpoint. A closed loop of some clients over kept connections. It stays for all its turns, so that its code is compiled
// and optimised when it counts: each line of standard input is a turn, and is answered by a line of JSON like bench/load's.
//
//   node bare.mjs PORT RECORDING   {"clients": 1, "keys": 10000, "seed": 1, "seconds": 4, "warmup": 1}   or, for one subject: {"subject": "a", "times": 3}
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import readline from 'node:readline';

const require = createRequire(new URL('../tests/e2e/js/package.json', import.meta.url));
const { DynamoDBClient, TransactGetItemsCommand, TransactWriteItemsCommand } = require('@aws-sdk/client-dynamodb');
const [port, file] = process.argv.slice(2);
const recording = JSON.parse(fs.readFileSync(file, 'utf8'));
const CLIENTS_MAX = 64;
const TRIES_MAX = 100;
const PAUSE_MS = 2; // at most, after the first; it grows up to 64 times that
const HISTORY_KEPT = 256; // as HISTORY_BYTES_MAX - HISTORY_LINE_BYTES has it

const client = new DynamoDBClient({
  endpoint: `http://127.0.0.1:${port}`,
  region: 'us-east-1',
  credentials: { accessKeyId: 'bench', secretAccessKey: 'bench' },
  requestHandler: { httpAgent: new http.Agent({ keepAlive: true, maxSockets: CLIENTS_MAX }) },
});

// ---- what is sent: each place that differs from attempt to attempt becomes a function, once ----

const place = (text) => {
  if (text === '%subject') return (at) => at.subject;
  if (text === '%token') return (at) => at.token;
  if (text === '%version') return (at) => at.version.version.S;
  if (text === '%count') return (at) => String(Number(at.old?.count.N ?? 0) + 1);
  if (text === '%history') return (at) => at.history;
  if (text.startsWith('%now')) return ((more) => (at) => String(at.now + more))(Number(text.slice(4)));
  if (text.startsWith('%old.')) return ((name) => (at) => Object.values(at.old[name])[0])(text.slice(5));
  return () => text;
};

const compile = (node) => {
  if (typeof node === 'string') return place(node);
  if (Array.isArray(node)) return ((parts) => (at) => parts.map((part) => part(at)))(node.map(compile));
  if (node === null || typeof node !== 'object') return () => node;
  const parts = Object.entries(node).map(([name, value]) => [name, compile(value)]);
  return (at) => {
    const made = {};
    for (const [name, part] of parts) made[name] = part(at);
    return made;
  };
};

const [get, first, next] = [recording.get, recording.first, recording.next].map(compile);

const historyWith = (old, line) => {
  let before = old?.history.S ?? '';
  while (before.length > HISTORY_KEPT) before = before.slice(before.indexOf(',') + 2);
  return before ? `${before}, ${line}` : line;
};

// ---- an attempt ----

const once = async (subject) => {
  const at = { subject, token: randomBytes(18).toString('hex'), now: Math.floor(Date.now() / 1000) };
  const answer = await client.send(new TransactGetItemsCommand(get(at)));
  const row = (sk) => answer.Responses.find(({ Item }) => Item?.SK.S === sk)?.Item;
  at.old = row(recording.row);
  at.version = row(recording.partition);
  at.history = historyWith(at.old, `${at.now} failure v${recording.policy}`);
  await client.send(new TransactWriteItemsCommand((at.old ? next : first)(at)));
};

const inTheWay = (error) => error.CancellationReasons?.some(({ Code }) => Code === 'TransactionConflict');
const pause = (tries) => new Promise((done) => { setTimeout(done, Math.random() * PAUSE_MS * 2 ** Math.min(tries, 6)); });

/** When another attempt of the subject was quicker, it reads and decides again, as Gatehouse does; after a pause if one was under way. */
const attempt = async (subject) => {
  for (let tries = 1; ; tries++) {
    try {
      return await once(subject);
    } catch (error) {
      if (error.name !== 'TransactionCanceledException' || tries === TRIES_MAX) throw error;
      if (inTheWay(error)) await pause(tries);
    }
  }
};

// ---- the loop ----

const randomFrom = (seed) => { // mulberry32
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
};

const measured = async (plan) => {
  const random = randomFrom(plan.seed);
  const begin = performance.now() + 1000 * plan.warmup;
  const end = begin + 1000 * plan.seconds;
  const took = [];
  let answered = 0;
  let cpu = null;
  const loop = async () => {
    for (;;) {
      const start = performance.now();
      if (start >= end) return;
      if (start >= begin) cpu ??= { answered, usage: process.cpuUsage() };
      await attempt(`s${random(plan.keys)}`);
      answered++;
      if (start >= begin) took.push(performance.now() - start);
    }
  };
  await Promise.all(Array.from({ length: plan.clients }, loop));
  if (took.length === 0) throw new Error('not one answer in the time measured');
  const used = process.cpuUsage(cpu.usage);
  const sorted = Float64Array.from(took).sort();
  const quantile = (share) => 1000 * sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  return { seconds: plan.seconds, answered, measured: took.length, p50_us: quantile(0.5), p99_us: quantile(0.99), cpu_us: (used.user + used.system) / (answered - cpu.answered) };
};

const turn = async (plan) => {
  if (!plan.subject) return measured(plan);
  for (let i = 0; i < plan.times; i++) await attempt(plan.subject);
  return null;
};

for await (const line of readline.createInterface({ input: process.stdin })) console.log(JSON.stringify(await turn(JSON.parse(line))));
process.exit(0);
