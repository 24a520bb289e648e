#!/usr/bin/env bash
# Trains a policy, runs it in `outrider loop` against the simulated pendulum, writes a page with what moved.
#   examples/pendulum/run.sh [-o FOLDER] [-s SECONDS] [-r ROUNDS] [-b OUTRIDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=. seconds=10 rounds=2 outrider=$here/../../build/release/bin/outrider
while getopts o:s:r:b: flag; do
  case $flag in
    o) out=$OPTARG ;; s) seconds=$OPTARG ;; r) rounds=$OPTARG ;; b) outrider=$OPTARG ;;
    *) sed -n '3p' "$0" >&2; exit 2 ;;
  esac
done
python=${PYTHON:-/usr/bin/python3}  # Debian's, which has python3-numpy
name=pendulum-$$
mkdir -p "$out"
[ -f "$out/pendulum.onnx" ] || "$python" "$here/train.py" "$out/pendulum.onnx" --rounds "$rounds"
"$python" "$here/robot.py" "$name" --kick &
robot=$!
trap 'kill "$robot" 2>/dev/null || true' EXIT
status=0
"$outrider" loop "$out/pendulum.onnx" --hz 50 --seconds "$seconds" --input "shm:$name" --safe 0 --threads 1 \
  --report "$out/pendulum.html" || status=$?
wait "$robot"
trap - EXIT
exit "$status"
