#!/usr/bin/env bash
# Outrider against node-llama-cpp's prebuilt llama.cpp on the same text models, machine, threads and run:
# rounds alternate.
#   bench/peers/llama.sh [-t THREADS] [-r ROUNDS] [-p PROMPT_TOKENS] [-n NEW_TOKENS] MODEL.gguf...
# node-llama-cpp 3.22.1 is installed by npm into PEER_DIR (default: ~/.cache/outrider-peers/llama), outside the
# repository. Prints the median over the rounds, and the spread, in tokens a second.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
threads=1 rounds=3 prompt=512 new=64
while getopts t:r:p:n: flag; do
  case $flag in t) threads=$OPTARG ;; r) rounds=$OPTARG ;; p) prompt=$OPTARG ;; n) new=$OPTARG ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,7p' "$0" >&2; exit 2; }
export PEER_DIR=${PEER_DIR:-$HOME/.cache/outrider-peers/llama}
mkdir -p "$PEER_DIR"
[ -f "$PEER_DIR/package.json" ] || echo '{"private":true}' >"$PEER_DIR/package.json"
[ -d "$PEER_DIR/node_modules/node-llama-cpp" ] ||
  (cd "$PEER_DIR" && npm install --silent --no-fund --no-audit --ignore-scripts node-llama-cpp@3.22.1 >&2)
ids=$(mktemp --suffix .npy)
trap 'rm -f "$ids"' EXIT
# The same ids as llama.mjs, as a one-dimensional .npy file.
node -e 'const n = +process.argv[1], h = `{"descr": "<i4", "fortran_order": False, "shape": (${n},), }`.replaceAll("\"", "\x27");
  const head = h.padEnd(117) + "\n", ids = Int32Array.from({ length: n }, (_, i) => (i * i * 31 + 7 * i) % 500 + 120);
  require("fs").writeFileSync(process.argv[2], Buffer.concat([Buffer.from([0x93, 78, 85, 77, 80, 89, 1, 0, head.length & 255, head.length >> 8]),
    Buffer.from(head), Buffer.from(ids.buffer)]));' "$prompt" "$ids"
median() { sort -g | awk '{v[NR] = $1} END {printf "%.1f (%.1f to %.1f)", v[int((NR + 1) / 2)], v[1], v[NR]}'; }
number() { sed -n 's/.*"'"$1"'": *\([0-9.e-]*\).*/\1/p' | head -n 1; }
printf '%-28s %-10s %-28s %-28s\n' "model, $threads threads" "tokens/s" outrider node-llama-cpp
for model in "$@"; do
  ours_prefill=() ours_decode=() theirs_prefill=() theirs_decode=()
  for ((i = 0; i < rounds; ++i)); do
    line=$("$root/build/release/bin/outrider" run "$model" --input "tokens=$ids" --threads "$threads" --max-tokens "$new" \
      --set "n_ctx=$((prompt + new + 8))" --json 2>/dev/null)
    n=$(printf '%s' "$line" | sed -n 's/.*"new_tokens": *\([0-9]*\).*/\1/p' | head -n 1)
    ours_prefill+=("$(printf '%s' "$line" | number prefill_ms | awk -v n="$prompt" '{print n / $1 * 1000}')")
    ours_decode+=("$(printf '%s' "$line" | number decode_ms | awk -v n="$n" '{print n / $1 * 1000}')")
    line=$(node "$here/llama.mjs" "$threads" "$prompt" "$new" "$model")
    theirs_prefill+=("$(printf '%s' "$line" | number prefill_tokens_per_s)")
    theirs_decode+=("$(printf '%s' "$line" | number decode_tokens_per_s)")
  done
  printf '%-28s %-10s %-28s %-28s\n' "$(basename "$model")" prefill "$(printf '%s\n' "${ours_prefill[@]}" | median)" \
    "$(printf '%s\n' "${theirs_prefill[@]}" | median)"
  printf '%-28s %-10s %-28s %-28s\n' "" decode "$(printf '%s\n' "${ours_decode[@]}" | median)" \
    "$(printf '%s\n' "${theirs_decode[@]}" | median)"
done
