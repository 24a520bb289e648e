#!/usr/bin/env bash
# Makes a tiny text model and a tiny PI0 policy, lets the one plan and the other act.
#   examples/planner/run.sh [-o FOLDER] [-t TASK] [-r ROUNDS] [-b BUILD_FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=. task="put the red block into the drawer" rounds=2 build=$here/../../build/release
while getopts o:t:r:b: flag; do
  case $flag in
    o) out=$OPTARG ;; t) task=$OPTARG ;; r) rounds=$OPTARG ;; b) build=$OPTARG ;;
    *) sed -n '3p' "$0" >&2; exit 2 ;;
  esac
done
mkdir -p "$out"
outrider=$build/bin/outrider
[ -f "$out/planner.gguf" ] || "$outrider" make-model llm "$out/planner.gguf" --type q8_0 >&2
[ -f "$out/arm.gguf" ] || "$outrider" make-model pi0 "$out/arm.gguf" >&2
# The configurations that these files open with, as `outrider` derives them. Plan "infer": a tick is a whole answer.
config() { python3 -c 'import json, sys; json.dump(json.load(sys.stdin)["config"], sys.stdout)'; }
"$outrider" run "$out/planner.gguf" --schema "$here/plan.schema.json" --set plan=infer --set reuse=on \
  --max-tokens 300 --print-config --json | config >"$out/planner.json"
"$outrider" run "$out/arm.gguf" --print-config --json | config >"$out/arm.json"
exec python3 "$here/planner.py" "$build/lib" "$out/planner.json" "$out/arm.json" "$task" "$rounds"
