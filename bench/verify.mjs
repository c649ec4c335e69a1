// aws-jwt-verify behind node's own HTTP server: the rival of POST /v1/tokens/verify. It looks at no account and no revocation.
//
//   node verify.mjs PORT SETUP   SETUP: a file {"issuer", "audience", "jwks"}
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';

const require = createRequire(new URL('../tests/e2e/js/package.json', import.meta.url));
const { JwtVerifier } = require('aws-jwt-verify');
const [port, file] = process.argv.slice(2);
const { issuer, audience, jwks } = JSON.parse(fs.readFileSync(file, 'utf8'));
const verifier = JwtVerifier.create({ issuer, audience, jwksUri: `${issuer}/keys` });

verifier.cacheJwks(jwks);
const answer = (text) => {
  try {
    const claims = verifier.verifySync(JSON.parse(text).token);
    return { valid: true, verdict: 'allow', subject: claims.sub, issuer: claims.iss };
  } catch (error) {
    return { valid: false, reason: error.name };
  }
};

const server = http.createServer((request, response) => {
  let text = '';
  request.on('data', (part) => { text += part; });
  request.on('end', () => {
    const body = JSON.stringify(answer(text));
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body);
  });
});
server.keepAliveTimeout = 0; // never: it is stopped while others are measured
server.listen(Number(port), '127.0.0.1');
