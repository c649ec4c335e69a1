// Lints an OpenAPI document: its structure, that references lead somewhere, and that examples fit their schemas.
//   node lint_openapi.mjs FILE        exits with 1 and says why if there is anything to say
import { createConfig, lint } from "@redocly/openapi-core";

const config = await createConfig({ extends: ["recommended"] });
const problems = await lint({ ref: process.argv[2], config });
for (const { ruleId, message, location } of problems)
  console.log(`${ruleId}: ${message} (${location[0]?.pointer ?? "line " + location[0]?.start?.line})`);
process.exit(problems.length > 0 ? 1 : 0);
