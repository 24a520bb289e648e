// Prefill and decode of a text model in node-llama-cpp, for bench/peers/llama.sh: one line of JSON.
// Arguments: THREADS PROMPT_TOKENS NEW_TOKENS MODEL.gguf
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const require = createRequire(process.env.PEER_DIR + "/");
const entry = require.resolve("node-llama-cpp");
const { getLlama } = await import(pathToFileURL(entry).href);
const home = process.env.PEER_DIR + "/node_modules/node-llama-cpp/package.json";
const version = JSON.parse(readFileSync(home, "utf8")).version;
const [threads, nPrompt, nNew, path] = process.argv.slice(2);
const llama = await getLlama({ gpu: false, build: "never", maxThreads: +threads, logLevel: "error" });
const model = await llama.loadModel({ modelPath: path, defaultContextFlashAttention: true });
const context = await model.createContext({
  contextSize: +nPrompt + +nNew + 8, batchSize: 512, threads: { ideal: +threads, min: +threads },
});
const sequence = context.getSequence();
const vocabulary = 500;  // ordinary pieces of every model that is compared
const ids = Array.from({ length: +nPrompt }, (_, i) => (i * i * 31 + 7 * i) % vocabulary + 120);
const ms = (start) => Number(process.hrtime.bigint() - start) / 1e6;
await sequence.evaluateWithoutGeneratingNewTokens(ids.slice(0, 16));  // warm
await sequence.clearHistory();
let start = process.hrtime.bigint();
await sequence.evaluateWithoutGeneratingNewTokens(ids);
const prefill_ms = ms(start);
let n = 0;
start = process.hrtime.bigint();
for await (const _ of sequence.evaluate([ids[0]], { temperature: 0, yieldEogToken: true })) {
  if (++n === 1) start = process.hrtime.bigint();  // the first also reads the last prompt id
  if (n > +nNew) break;
}
const decode_ms = ms(start);
console.log(JSON.stringify({
  peer: "node-llama-cpp " + version, threads: +threads,
  prefill_tokens_per_s: +nPrompt / prefill_ms * 1e3, decode_tokens_per_s: (n - 1) / decode_ms * 1e3,
}));
process.exit(0);
