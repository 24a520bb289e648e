// Logits of a text model in node-llama-cpp behind some ids, for bench/peers/types.sh: raw f32 to a file.
// Arguments: MODEL.gguf OUT.f32 ID...
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const require = createRequire(process.env.PEER_DIR + "/");
const { getLlama } = await import(pathToFileURL(require.resolve("node-llama-cpp")).href);
const [path, out, ...words] = process.argv.slice(2);
const llama = await getLlama({ gpu: false, build: "never", maxThreads: 1, logLevel: "error" });
const model = await llama.loadModel({ modelPath: path });
const context = await model.createContext({ contextSize: 256, threads: { ideal: 1, min: 1 } });
const sequence = context.getSequence();
const ids = words.map(Number);
const input = [...ids.slice(0, -1), [ids.at(-1), { generateNext: { logits: true } }]];
const told = await sequence.controlledEvaluate(input);
const logits = told.at(-1).next.logits;
const values = new Float32Array(logits.size);
for (const [id, logit] of logits) values[id] = logit;
writeFileSync(out, Buffer.from(values.buffer));
process.exit(0);
