// An emulator of SQS (fauxqs) on loopback: says its port on the first line, and serves until it is killed. The package's own start listens
// on every address, so the application is built here. An argument is the port, or 0.
import { buildApp } from "fauxqs";

const app = buildApp({ logger: false });
await app.listen({ host: "127.0.0.1", port: Number(process.argv[2] ?? 0) });
console.log(app.server.address().port);
