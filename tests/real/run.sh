#!/usr/bin/env bash
# Runs toolgate in front of a real model, proves it with one tool call, and serves until Ctrl-C. Called by `make run`.
#
#   BACKEND_URL      a backend that runs already; without it a llama-server with a small model is fetched and started
#   TOOLGATE_LISTEN  where to listen, 127.0.0.1:8081 by default
#   TOOLGATE_API_KEY a key that clients need; without one toolgate listens on loopback only
#   TOOLGATE_BIN     the toolgate binary, target/release/toolgate by default
#   ONCE=1           stop after the answer
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
toolgate=${TOOLGATE_BIN:-$here/../../target/release/toolgate}
export TOOLGATE_LISTEN=${TOOLGATE_LISTEN:-127.0.0.1:8081}
# shellcheck source-path=SCRIPTDIR
. "$here/processes.sh"

key=()
[ -z "${TOOLGATE_API_KEY:-}" ] || key=(--header "authorization: Bearer $TOOLGATE_API_KEY")

# Prints the address that a client on this machine uses, and fails where toolgate could not listen.
client_address() {
  python3 - "$TOOLGATE_LISTEN" <<'PYTHON'
import socket, sys
host, _, port = sys.argv[1].rpartition(":")
try:
    family, kind, _, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
except (OSError, ValueError) as error:
    sys.exit(f"cannot listen on {sys.argv[1]}: {error}")
print({"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host) + ":" + port)
PYTHON
}

start_backend() {
  local server model port
  server=$("$here/parts.sh" llama-server)
  model=$("$here/parts.sh" model)
  port=$(free_port)
  say "starting llama-server with $(basename "$model") on 127.0.0.1:$port"
  start_llama_server "$server" "$model" "$port"
  BACKEND_URL=http://127.0.0.1:$port
}

ask() { # ask URL
  local model question
  model=$(curl --silent --max-time 5 "${key[@]}" "$1/v1/models" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["data"][0]["id"])' 2>/dev/null) || model=default
  question=$(python3 - "$model" <<'PYTHON'
import json, sys
city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
tool = {"name": "get_weather", "description": "Get the current weather of a city.", "parameters": city}
print(json.dumps({"model": sys.argv[1], "stream": True, "temperature": 0, "max_tokens": 256,
                  "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
                  "tools": [{"type": "function", "function": tool}]}))
PYTHON
  )
  say "" "asking: What is the weather in Paris?   (with a tool get_weather, streamed)"
  curl --silent --show-error --no-buffer --max-time 300 --header 'x-toolgate-explain: 1' \
    --header 'content-type: application/json' "${key[@]}" --data "$question" "$1/v1/chat/completions" |
    python3 "$here/show_answer.py" || fail "no get_weather call for Paris came back"
}

[ -x "$toolgate" ] || fail "no toolgate binary at $toolgate: build it with cargo build --release, or set TOOLGATE_BIN"
address=$(client_address) || fail "another program has the port: stop it, or choose another with TOOLGATE_LISTEN=127.0.0.1:8082"
[ -n "${BACKEND_URL:-}" ] || start_backend
say "starting toolgate on $TOOLGATE_LISTEN in front of $BACKEND_URL; logs: $logs"
TOOLGATE_BACKEND_URL=$BACKEND_URL start toolgate "$toolgate" serve
await toolgate "http://$address/health/ready" 30
ask "http://$address"
[ "${ONCE:-}" != 1 ] || exit 0

say "
toolgate serves on http://$address until Ctrl-C. Point a client at it:

  most clients    export OPENAI_BASE_URL=http://$address/v1 OPENAI_API_KEY=none
  OpenAI Python   OpenAI(base_url=\"http://$address/v1\", api_key=\"none\")
  curl            curl http://$address/v1/chat/completions -H 'content-type: application/json' \\
                    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'
"
# From here on Ctrl-C is how a run ends well.
trap 'say "stopping"; exit 0' INT
watch_children
