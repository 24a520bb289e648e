#!/usr/bin/env bash
# Installs what is missing from Debian's archive: tools/setup.sh KIND...   (kinds: build test cross full)
set -euo pipefail
cd "$(dirname "$0")/.."
missing=()
for kind in "$@"; do
  while read -r need package why; do
    [ "$need" = "$kind" ] || continue
    if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
      missing+=("$package")
      printf 'needed: %-24s %s\n' "$package" "$why" >&2
    fi
  done < tools/packages.txt
done
[ ${#missing[@]} -gt 0 ] || exit 0
if ! command -v apt-get >/dev/null; then
  echo "error: this is no Debian system; install by hand: ${missing[*]}" >&2
  exit 2
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "error: not root and no sudo; run: apt-get install ${missing[*]}" >&2; exit 2; }
  sudo=(sudo)
fi
echo "installing ${#missing[@]} package(s) from Debian's archive ..." >&2
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
