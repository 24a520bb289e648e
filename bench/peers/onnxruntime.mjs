// Ticks of ONNX models in onnxruntime-node, for bench/peers/onnxruntime.sh: one line of JSON a model and
// round. Arguments: THREADS TICKS MODEL.onnx DIMS ("batch=1,..." or "-").
import { createRequire } from "node:module";
const require = createRequire(process.env.PEER_DIR + "/");
const ort = require("onnxruntime-node");
const [threads, ticks, path, dims] = process.argv.slice(2);
const sizes = Object.fromEntries(dims === "-" ? [] : dims.split(",").map((d) => d.split("=")));
const session = await ort.InferenceSession.create(path, {
  intraOpNumThreads: +threads, interOpNumThreads: 1, executionMode: "sequential",
  graphOptimizationLevel: "all",
});
const feeds = {};
for (const meta of session.inputMetadata) {
  const shape = meta.shape.map((d) => (typeof d === "number" && d >= 0 ? d : +(sizes[d] ?? 1)));
  const n = shape.reduce((a, b) => a * b, 1);
  const whole = { int64: BigInt64Array, int32: Int32Array, uint8: Uint8Array, bool: Uint8Array }[meta.type];
  const data = whole ? new whole(n)
    : Float32Array.from({ length: n }, (_, i) => ((i * 37) % 101 - 50) * 0.02);
  feeds[meta.name] = new ort.Tensor(meta.type, data, shape);
}
for (let i = 0; i < 50; ++i) await session.run(feeds);
const us = [];
for (let i = 0; i < +ticks; ++i) {
  const start = process.hrtime.bigint();
  await session.run(feeds);
  us.push(Number(process.hrtime.bigint() - start) / 1000);
}
us.sort((a, b) => a - b);
const at = (p) => us[Math.min(us.length - 1, Math.floor(p * us.length))];
console.log(JSON.stringify({ peer: "onnxruntime-node " + require("onnxruntime-node/package.json").version,
  model: path.split("/").pop(), threads: +threads, p50_us: at(0.5), p99_us: at(0.99), min_us: us[0] }));
