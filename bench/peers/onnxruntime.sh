#!/usr/bin/env bash
# Outrider against onnxruntime-node on the same models, machine, threads and run: rounds alternate.
#   bench/peers/onnxruntime.sh [-t THREADS] [-r ROUNDS] MODEL.onnx[:DIMS]...
# onnxruntime-node 1.30.0 is installed by npm into PEER_DIR (default: ~/.cache/outrider-peers), outside
# the repository. Prints the median of each side's p50 over the rounds, the spread, and the median of the
# rounds' ratios: Outrider's time over the peer's, below 1 when Outrider is faster.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
threads=1 rounds=5 ticks=500
while getopts t:r: flag; do
  case $flag in t) threads=$OPTARG ;; r) rounds=$OPTARG ;; *) exit 2 ;; esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,7p' "$0" >&2; exit 2; }
export PEER_DIR=${PEER_DIR:-$HOME/.cache/outrider-peers}
mkdir -p "$PEER_DIR"
[ -d "$PEER_DIR/node_modules/onnxruntime-node" ] ||
  (cd "$PEER_DIR" && npm install --silent --no-fund --no-audit --ignore-scripts onnxruntime-node@1.30.0 >&2)
median() { sort -g | awk '{v[NR] = $1} END {printf "%.1f us (%.1f to %.1f)", v[int((NR + 1) / 2)], v[1], v[NR]}'; }
ratio() { paste <(printf '%s\n' "${ours[@]}") <(printf '%s\n' "${theirs[@]}") | awk '{print $1 / $2}' | sort -g |
  awk '{v[NR] = $1} END {printf "%.2f", v[int((NR + 1) / 2)]}'; }
printf '%-38s %-30s %-30s %s\n' model outrider onnxruntime-node ratio
for entry in "$@"; do
  model=${entry%%:*} dims=${entry#"$model"} dims=${dims#:}
  ours=() theirs=()
  for ((i = 0; i < rounds; ++i)); do
    ours+=("$("$root/build/release/bin/outrider" bench "$model" --threads "$threads" --ticks "$ticks" \
      --warmup 50 --idle 0 --no-limits ${dims:+--set "dims=$dims"} --json 2>/dev/null |
      node -e 'const r = JSON.parse(require("fs").readFileSync(0)); console.log(r.total_ms.p50 * 1000)')")
    theirs+=("$(node "$here/onnxruntime.mjs" "$threads" "$ticks" "$model" "${dims:--}" |
      sed -n 's/.*"p50_us":\([0-9.]*\).*/\1/p')")
  done
  printf '%-38s %-30s %-30s %s\n' "$(basename "$model")" \
    "$(printf '%s\n' "${ours[@]}" | median)" "$(printf '%s\n' "${theirs[@]}" | median)" "$(ratio)"
done
