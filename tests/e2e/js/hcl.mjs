// All *.tf files of each folder as one JSON object: node hcl.mjs FOLDER… prints a list.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "@cdktf/hcl2json";

const read = (folder) => readdirSync(folder).filter((name) => name.endsWith(".tf")).sort().map((name) => readFileSync(join(folder, name), "utf8"));
const modules = [];
for (const folder of process.argv.slice(2)) modules.push(await parse("module.tf", read(folder).join("\n")));
console.log(JSON.stringify(modules));
