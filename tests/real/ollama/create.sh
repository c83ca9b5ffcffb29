#!/usr/bin/env bash
# Makes the models that the Modelfiles beside this script describe, each named by its file: NAME.Modelfile becomes NAME:0.5b.
# Called by parts.sh.
#
#   create.sh OLLAMA MODEL FOLDER   the binary, the GGUF file, and where the server keeps its models
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR
. "$here/../processes.sh"

ollama=$1
port=$(free_port)
start_ollama "$ollama" "$3" "$port"
# A Modelfile names the model by a path from its own folder on.
folder=$logs/ollama-home
ln -s "$(realpath "$2")" "$folder/model.gguf"
cp "$here"/*.Modelfile "$folder"
for file in "$folder"/*.Modelfile; do
  HOME=$folder OLLAMA_HOST=127.0.0.1:$port "$ollama" create "$(basename "$file" .Modelfile):0.5b" -f "$file" >"$logs/create.log" 2>&1 ||
    fail "ollama create says: $(tail -c 500 "$logs/create.log")"
done
