// A token issuer on loopback, for tests and for the benchmark: publishes its keys, and signs with jose what it is asked to. Prints its
// address, and ends when its standard input does.
//
//   GET  /.well-known/openid-configuration, /keys, /POOL/.well-known/jwks.json   what an issuer publishes
//   POST /control   {"sign": {alg, kid?, header?, claims}}   -> {"token"}
//                   {"make": {alg, kid}}   a new key         {"publish": [kid, …]}   which are published
//                   {"answer": 200|500|"hang"}               how it answers for its keys   -> {"fetches"} so far
import crypto from 'node:crypto';
import http from 'node:http';

globalThis.crypto ??= crypto.webcrypto; // node 18
const jose = await import('jose');

const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'ES256', 'ES384', 'EdDSA'];
const keys = new Map();
let published = [];
let answer = 200;
let fetches = 0;

async function make({ alg, kid }) {
  const pair = await jose.generateKeyPair(alg, { extractable: true });
  keys.set(kid, { alg, pair, jwk: { ...(await jose.exportJWK(pair.publicKey)), kid, alg, use: 'sig' } });
}

const code = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

// `header` is added to alg and kid, and may replace them: then the signature is still that of `alg`'s key.
async function sign({ alg, kid = `kid-${alg}`, header = {}, claims }) {
  const head = { alg, kid, ...header };
  const key = keys.get(kid);
  const odd = head.alg !== alg || 'crit' in head || 'b64' in head || typeof claims === 'string';

  if (!odd) return new jose.SignJWT(claims).setProtectedHeader(head).sign(key.pair.privateKey);
  const text = `${code(head)}.${code(claims)}`;
  if (head.alg === 'none') return `${text}.`;
  if (head.alg === 'HS256') return `${text}.${crypto.createHmac('sha256', JSON.stringify(key.jwk)).update(text).digest('base64url')}`;
  const secret = crypto.createPrivateKey({ key: await jose.exportJWK(key.pair.privateKey), format: 'jwk' });
  return `${text}.${crypto.sign('sha256', Buffer.from(text), secret).toString('base64url')}`;
}

async function control(asked) {
  if (asked.make) await make(asked.make);
  if (asked.publish) published = asked.publish;
  if (asked.answer) answer = asked.answer;
  return { fetches, token: asked.sign ? await sign(asked.sign) : undefined };
}

for (const alg of ALGORITHMS) {
  await make({ alg, kid: `kid-${alg}` });
  published.push(`kid-${alg}`);
}

const server = http.createServer(async (request, response) => {
  const send = (status, body) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  let text = '';

  for await (const part of request) text += part;
  if (request.method === 'POST') return send(200, await control(JSON.parse(text)));
  const origin = `http://${request.headers.host}`;
  if (request.url.endsWith('/.well-known/openid-configuration')) return send(200, { issuer: origin, jwks_uri: `${origin}/keys` });
  fetches += 1;
  if (answer === 'hang') return undefined;
  return send(answer, answer === 200 ? { keys: published.map((kid) => keys.get(kid).jwk) } : { error: 'down' });
});
server.keepAliveTimeout = 0; // never
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
process.stdin.resume().on('end', () => process.exit(0));
