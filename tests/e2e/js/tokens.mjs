// Tokens for tests/token/token_tool.c. Prints its set-up line, then a line per token: {"kind", "token", "aws"}, where `aws` says
// whether aws-jwt-verify accepts it (null: it does not know the algorithm).
//
//   node tokens.mjs good            tokens that jose signed, one for each algorithm and kind
//   node tokens.mjs mutated N SEED  N tokens, each changed in some way, most of them signed again by the issuer's key
import crypto from 'node:crypto';

globalThis.crypto ??= crypto.webcrypto; // node 18
const jose = await import('jose');
const { JwtVerifier, CognitoJwtVerifier } = await import('aws-jwt-verify');

const NOW = 1800000000;
const ISSUER = 'https://issuer.example/pool';
const POOL = 'eu-west-1_AbCdEf123';
const POOL_ISSUERS = [`https://cognito-idp.eu-west-1.amazonaws.com/${POOL}`, `https://issuer-cognito-idp.eu-west-1.amazonaws.com/${POOL}`];
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'ES256', 'ES384', 'EdDSA'];
Date.now = () => NOW * 1000;

// ---- keys, and both sides' set-up ----

const keys = {};
for (const alg of ALGORITHMS) {
  const pair = await jose.generateKeyPair(alg, { extractable: true });
  const secret = crypto.createPrivateKey({ key: await jose.exportJWK(pair.privateKey), format: 'jwk' });
  keys[alg] = { alg, kid: `kid-${alg}`, pair, secret, jwk: { ...(await jose.exportJWK(pair.publicKey)), kid: `kid-${alg}`, alg, use: 'sig' } };
}
const jwks = { keys: ALGORITHMS.map((alg) => keys[alg].jwk) };
const plain = JwtVerifier.create({ issuer: ISSUER, audience: 'app', jwksUri: `${ISSUER}/keys` });
const cognito = CognitoJwtVerifier.create({ userPoolId: POOL, tokenUse: null, clientId: 'app' });
plain.cacheJwks(jwks);
cognito.cacheJwks(jwks);

const accepts = (verifier, token) => {
  try {
    verifier.verifySync(token);
    return true;
  } catch {
    return false;
  }
};
const print = (kind, token, aws) => console.log(JSON.stringify({ kind, token, aws }));
const printAsked = (kind, token) => print(kind, token, accepts(plain, token) || accepts(cognito, token));

console.log(JSON.stringify({
  now: NOW,
  issuers: [
    { issuer: ISSUER, jwks, algorithms: ALGORITHMS, audiences: ['app'], uses: 0 },
    ...POOL_ISSUERS.map((issuer) => ({ issuer, jwks, algorithms: ALGORITHMS, audiences: ['app'], uses: 3 })),
  ],
}));

// ---- claims ----

const times = { iat: NOW - 60, exp: NOW + 600 };
const CLAIMS = {
  oidc: { iss: ISSUER, sub: 'user', aud: 'app', jti: 'j', ...times },
  audiences: { iss: ISSUER, sub: 'user', aud: ['other', 'app'], nbf: NOW - 60, ...times },
  access: { iss: POOL_ISSUERS[0], sub: 'user', client_id: 'app', token_use: 'access', scope: 'openid', username: 'u', ...times },
  global: { iss: POOL_ISSUERS[1], sub: 'user', client_id: 'app', token_use: 'access', ...times },
  id: { iss: POOL_ISSUERS[0], sub: 'user', aud: 'app', token_use: 'id', 'cognito:username': 'ü', ...times },
};

async function good() {
  for (const key of Object.values(keys)) {
    for (const [name, claims] of Object.entries(CLAIMS)) {
      const header = { alg: key.alg, kid: key.kid, ...(name === 'oidc' ? { typ: 'at+jwt' } : name === 'id' ? {} : { typ: 'JWT' }) };
      const token = await new jose.SignJWT(claims).setProtectedHeader(header).sign(key.pair.privateKey);

      if (key.alg === 'PS256') print(`${key.alg} ${name}`, token, null);
      else printAsked(`${key.alg} ${name}`, token);
    }
  }
}

// ---- mutations ----

let state = 0;
const random = () => { // mulberry32
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};
const below = (n) => Math.floor(random() * n);
const pick = (list) => list[below(list.length)];

const b64 = (data) => Buffer.from(data).toString('base64url');
const signatureOf = (key, text) => {
  const data = Buffer.from(text);

  if (key.alg === 'EdDSA') return crypto.sign(null, data, key.secret);
  const hash = `sha${key.alg.slice(2)}`;
  if (key.alg.startsWith('ES')) return crypto.sign(hash, data, { key: key.secret, dsaEncoding: 'ieee-p1363' });
  return crypto.sign(hash, data, key.secret);
};
const signed = (key, header, claims) => {
  const text = `${b64(header)}.${b64(claims)}`;

  return `${text}.${b64(signatureOf(key, text))}`;
};

const VALUES = [null, true, false, 0, 1, -1, 1.5, 1e300, '', 'app', 'x', [], ['app'], ['app', 1], {}, { app: 1 }, NOW, NOW + 1, NOW - 1, NOW + 0.5, NOW - 0.5, `${NOW}`,
  NOW - 86400, NOW - 86401, 'access', 'id', 'refresh', ISSUER, `${ISSUER}/`, ...POOL_ISSUERS, 'a\u0000b', 'x'.repeat(2000)];
const HEADER_NAMES = ['alg', 'kid', 'typ', 'crit', 'jku', 'x5u', 'jwk', 'x5c', 'x5t', 'b64', 'zip', 'cty', 'enc'];
const HEADER_VALUES = [...VALUES, 'none', 'None', 'HS256', 'rs256', 'ES512', ...ALGORITHMS, ...ALGORITHMS.map((alg) => `kid-${alg}`), 'JWT', 'jwt', 'at+jwt', 'logout+jwt', ['exp'], ['b64']];
const LETTERS = 'ABCabc019-_.=+/ \n{}[]",:\\u\u00e9\u6f22';

// One edit of a text: a letter replaced, put in, taken out, two swapped, a piece repeated or cut off.
function edited(text) {
  const at = below(text.length + 1);
  const rest = text.slice(at + 1);

  switch (below(7)) {
    case 0: return text.slice(0, at) + pick(LETTERS) + rest;
    case 1: return text.slice(0, at) + pick(LETTERS) + text.slice(at);
    case 2: return text.slice(0, at) + rest;
    case 3: return text.slice(0, at) + (text[at + 1] ?? '') + (text[at] ?? '') + text.slice(at + 2);
    case 4: return text.slice(0, at) + text.slice(Math.max(0, at - 1 - below(20)));
    case 5: return text.slice(0, at);
    default: return text.slice(0, at) + (text[at] ?? '').toUpperCase() + rest;
  }
}

// The same JSON otherwise: a member changed, added, removed or repeated.
function changed(object, names, values) {
  const copy = { ...object };
  const name = pick(random() < 0.7 ? names : Object.keys(object));

  switch (below(4)) {
    case 0: delete copy[name]; return JSON.stringify(copy);
    case 1: {
      const text = JSON.stringify(copy);

      return `${text.slice(0, -1)},${JSON.stringify(name)}:${JSON.stringify(pick(values))}}`;
    }
    default: copy[name] = pick(values); return JSON.stringify(copy);
  }
}

const MUTATIONS = {
  nothing: (key, header, claims) => signed(key, JSON.stringify(header), JSON.stringify(claims)),
  token: (key, header, claims) => edited(MUTATIONS.nothing(key, header, claims)),
  header: (key, header, claims) => signed(key, changed(header, HEADER_NAMES, HEADER_VALUES), JSON.stringify(claims)),
  claims: (key, header, claims) => signed(key, JSON.stringify(header),
    changed(claims, ['iss', 'sub', 'aud', 'exp', 'nbf', 'iat', 'jti', 'scope', 'client_id', 'token_use', 'azp'], VALUES)),
  times: (key, header, claims) => signed(key, JSON.stringify(header),
    JSON.stringify({ ...claims, [pick(['exp', 'nbf', 'iat'])]: NOW + pick([-86401, -86400, -1, -0.5, -1e-6, 0, 1e-6, 0.5, 1, 60]) })),
  audience: (key, header, claims) => signed(key, JSON.stringify(header),
    JSON.stringify({ ...claims, [pick(['aud', 'client_id'])]: pick([['app', 1], ['app', null], ['x', 'app'], [['app']], [], 'App', 'app ', 'x', 7, null, { 0: 'app' }]) })),
  header_text: (key, header, claims) => signed(key, edited(JSON.stringify(header)), JSON.stringify(claims)),
  claims_text: (key, header, claims) => signed(key, JSON.stringify(header), edited(JSON.stringify(claims))),
  space: (key, header, claims) => signed(key, JSON.stringify(header, null, 1), pick(['', ' ', '\n', '\ufeff']) + JSON.stringify(claims, null, 2) + pick(['', ' ', '\u0000'])),
  other_key: (key, header, claims) => signed(pick(Object.values(keys)), JSON.stringify(header), JSON.stringify(claims)),
  signature: (key, header, claims) => {
    const text = `${b64(JSON.stringify(header))}.${b64(JSON.stringify(claims))}`;
    const signature = signatureOf(key, text);
    const hash = key.alg === 'EdDSA' ? null : `sha${key.alg.slice(2)}`;
    const other = pick([
      Buffer.alloc(signature.length), signature.subarray(1), Buffer.concat([signature, Buffer.alloc(1)]), Buffer.concat([Buffer.alloc(1), signature]),
      crypto.sign(hash, Buffer.from(text), key.secret), // DER for ES…; the same for others
      crypto.createHmac('sha256', crypto.createPublicKey(key.secret).export({ type: 'spki', format: 'pem' })).update(text).digest(),
    ]);

    return `${text}.${b64(other)}`;
  },
  hmac: (key, header, claims) => {
    const text = `${b64(JSON.stringify({ ...header, alg: 'HS256' }))}.${b64(JSON.stringify(claims))}`;

    return `${text}.${crypto.createHmac('sha256', crypto.createPublicKey(key.secret).export({ type: 'spki', format: 'pem' })).update(text).digest('base64url')}`;
  },
  padding: (key, header, claims) => MUTATIONS.nothing(key, header, claims).split('.').map((part) => part + pick(['', '', '=', '=='])).join('.'),
};

function mutated(count) {
  const kinds = Object.keys(MUTATIONS);

  for (let i = 0; i < count; i++) {
    const key = keys[pick(ALGORITHMS.filter((alg) => alg !== 'PS256'))];
    const kind = kinds[i % kinds.length];
    const header = { alg: key.alg, kid: key.kid, ...pick([{}, { typ: 'JWT' }]) };

    printAsked(kind, MUTATIONS[kind](key, header, pick(Object.values(CLAIMS))));
  }
}

if (process.argv[2] === 'good') await good();
else {
  state = Number(process.argv[4]) | 0;
  mutated(Number(process.argv[3]));
}
