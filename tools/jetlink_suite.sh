#!/usr/bin/env bash
# The public Jetlink project's live test of its native server (tests/test_swift_server.py), as it is, with
# `outrider serve` as that server.
#   tools/jetlink_suite.sh CHECKOUT [PYTEST ARGUMENT...]
# CHECKOUT is a copy of that project; nothing is fetched and nothing is written into it. Needs Python with numpy and
# pytest (Debian: python3-numpy python3-pytest; another one: PYTHON=...) and a built program (OUTRIDER=...).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || { sed -n '2,6p' "$0" >&2; exit 2; }
checkout=$1
shift
suite=tests/test_swift_server.py
program=${OUTRIDER:-$root/build/release/bin/outrider}
python=${PYTHON:-/usr/bin/python3}
[ -f "$checkout/$suite" ] || { echo "jetlink_suite: $checkout has no $suite: give a checkout of the Jetlink project" >&2; exit 2; }
[ -x "$program" ] || { echo "jetlink_suite: no $program: build the target outrider, or set OUTRIDER" >&2; exit 2; }
"$python" -c 'import numpy, pytest' ||
  { echo "jetlink_suite: $python lacks numpy or pytest: install python3-numpy python3-pytest, or set PYTHON" >&2; exit 2; }
cd "$checkout"
export JETLINK_SERVER_BIN=$program PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=.${PYTHONPATH:+:$PYTHONPATH}
exec "$python" -m pytest -q -p no:cacheprovider "$suite" "$@"
