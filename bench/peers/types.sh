#!/usr/bin/env bash
# What node-llama-cpp computes from the files that make-model writes, in every element type, beside Outrider: the
# layouts of the blocks are the same when logits differ by the rounding of activations alone.
#   bench/peers/types.sh [-b BUILD_FOLDER] [TYPE...]
# node-llama-cpp 3.22.1 as in llama.sh, in PEER_DIR. Exit status 1 when a type is further off than 10 % of its logits.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../../build/release
while getopts b: flag; do case $flag in b) build=$OPTARG ;; *) exit 2 ;; esac; done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k
export PEER_DIR=${PEER_DIR:-$HOME/.cache/outrider-peers/llama}
mkdir -p "$PEER_DIR"
[ -f "$PEER_DIR/package.json" ] || echo '{"private":true}' >"$PEER_DIR/package.json"
[ -d "$PEER_DIR/node_modules/node-llama-cpp" ] ||
  (cd "$PEER_DIR" && npm install --silent --no-fund --no-audit --ignore-scripts node-llama-cpp@3.22.1 >&2)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
ids=(2 131 207 163 388 291 155 402 177 246 319 120)
status=0
for type in "$@"; do
  "$build/bin/outrider" make-model llm "$dir/$type.gguf" --type "$type" --json >/dev/null
  node "$here/types.mjs" "$dir/$type.gguf" "$dir/peer.f32" "${ids[@]}"
  printf '%-5s' "$type"
  python3 "$here/types.py" "$build/lib" "$dir/$type.gguf" "$dir/peer.f32" "${ids[@]}" || status=1
done
exit "$status"
