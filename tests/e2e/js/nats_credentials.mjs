// An operator, an account and a user of NATS, as its own tools make them: prints {"operator", "account", "accountJwt", "credentials"}.
import { generateKeyPairSync, randomUUID, sign } from "node:crypto";

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const SEED = 18 << 3;
const KINDS = { operator: 14 << 3, account: 0, user: 20 << 3 };

function checksum(data) {
  let crc = 0;
  for (const byte of data) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  }
  return [crc & 255, crc >> 8];
}

function text(bytes) {
  const bits = [...bytes, ...checksum(bytes)].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return bits.match(/.{1,5}/g).map((five) => LETTERS[parseInt(five.padEnd(5, "0"), 2)]).join("");
}

function key(kind) {
  const { privateKey } = generateKeyPairSync("ed25519");
  const raw = privateKey.export({ format: "jwk" });
  const prefix = KINDS[kind];
  return {
    privateKey,
    name: text([prefix, ...Buffer.from(raw.x, "base64url")]),
    seed: text([SEED | (prefix >> 5), (prefix & 31) << 3, ...Buffer.from(raw.d, "base64url")]),
  };
}

function jwt(issuer, subject, type, more) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const claims = { jti: randomUUID(), iat: Math.floor(Date.now() / 1000), iss: issuer.name, name: type, sub: subject.name, nats: { ...more, type, version: 2 } };
  const signed = `${part({ typ: "JWT", alg: "ed25519-nkey" })}.${part(claims)}`;
  return `${signed}.${sign(null, Buffer.from(signed), issuer.privateKey).toString("base64url")}`;
}

const [operator, account, user] = [key("operator"), key("account"), key("user")];
const unlimited = { subs: -1, data: -1, payload: -1 };
const limits = { ...unlimited, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 };
console.log(JSON.stringify({
  operator: jwt(operator, operator, "operator", {}),
  account: account.name,
  accountJwt: jwt(operator, account, "account", { limits }),
  credentials: `-----BEGIN NATS USER JWT-----\n${jwt(account, user, "user", { pub: {}, sub: {}, ...unlimited })}\n------END NATS USER JWT------\n\n` +
    `-----BEGIN USER NKEY SEED-----\n${user.seed}\n------END USER NKEY SEED------\n`,
}));
