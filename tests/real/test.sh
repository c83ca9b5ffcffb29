#!/usr/bin/env bash
# Tests toolgate over the real parts: clients that others wrote, a real model behind a real llama-server and a real Ollama, a
# conformance suite.
# Called by `make test`, which has built target/release/toolgate (TOOLGATE_BIN names another).
#
# A group whose parts cannot be had is reported as skipped, and fails when CI=true.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tests=$(cd "$here/.." && pwd)
export TOOLGATE_BIN=${TOOLGATE_BIN:-$(cd "$tests/.." && pwd)/target/release/toolgate}
# The tests leave nothing in the source tree.
export PYTHONDONTWRITEBYTECODE=1
# No MCP servers of the user's.
export TOOLGATE_MCP_SERVERS=
# shellcheck source-path=SCRIPTDIR
. "$here/processes.sh"

# More than a group ever takes on two cores; what hangs ends here.
group_seconds=300
failed=()
skipped=()

group() { # group NAME COMMAND…
  local name=$1
  shift
  say "" "== $name"
  # In the foreground, so that a Ctrl-C reaches the tests.
  timeout --foreground "$group_seconds" "$@" || failed+=("$name (exit code $?)")
}

skip() { # skip REASON GROUP…
  local name
  for name in "${@:2}"; do
    say "" "== $name: skipped, $1"
    skipped+=("$name")
  done
}

# Prints a part's path, and nothing when it cannot be had.
part() { "$here/parts.sh" "$1" || true; }

# Answers that no model gives reliably, and failures, need a backend that is told what to say.
start_scripted_servers() {
  local backend_port
  backend_port=$(free_port)
  start scripted-backend python3 "$tests/clients/scripted_backend.py" "$backend_port"
  await scripted-backend "http://127.0.0.1:$backend_port/health" 10
  scripted_url=http://127.0.0.1:$backend_port
  start_toolgate scripted-toolgate "$scripted_url"
  export SCRIPTED_TOOLGATE_URL=$toolgate_url
  start_toolgate_with_keys
}

# The same backend, for those who show a key.
start_toolgate_with_keys() {
  export KEYS_FULL=tg_full KEYS_NARROW=tg_narrow KEYS_OLD=tg_old
  cat >"$logs/keys.toml" <<TOML
[[key]]
name = "full"
hash = "$("$TOOLGATE_BIN" key hash <<<"$KEYS_FULL")"
[[key]]
name = "narrow"
hash = "$("$TOOLGATE_BIN" key hash <<<"$KEYS_NARROW")"
models = ["weather"]
[[key]]
name = "old"
hash = "$("$TOOLGATE_BIN" key hash <<<"$KEYS_OLD")"
expires = 2020-01-01
TOML
  start_toolgate keys-toolgate "$scripted_url" "TOOLGATE_CONFIG=$logs/keys.toml"
  export KEYS_TOOLGATE_URL=$toolgate_url
}

# The same backend, for which nothing may be spent.
start_toolgate_without_budget() {
  cat >"$logs/budget.toml" <<TOML
[budget]
store = "memory"
[[limit]]
window = "day"
amount = "0 calls"
TOML
  start_toolgate budget-toolgate "$scripted_url" "TOOLGATE_CONFIG=$logs/budget.toml" TOOLGATE_TRACE_SINK=off
  export BUDGET_TOOLGATE_URL=$toolgate_url
}

# The same backend, with tools of a real MCP server that toolgate runs.
start_mcp_toolgate() { # start_mcp_toolgate FOLDER-OF-COMMANDS
  mkdir "$logs/files"
  printf '%s' "The lighthouse keeper counts 42 gulls." >"$logs/files/README.md"
  cat >"$logs/mcp_servers.json" <<JSON
{"mcpServers": {"filesystem": {"command": "mcp-server-filesystem", "args": ["$logs/files"]}}}
JSON
  start_toolgate mcp-toolgate "$scripted_url" "TOOLGATE_MCP_SERVERS=$logs/mcp_servers.json" "TOOLGATE_TRACE_SINK=$logs/traces.jsonl" \
    "PATH=$1:$PATH"
  export MCP_TOOLGATE_URL=$toolgate_url
}

start_real_servers() { # start_real_servers LLAMA-SERVER MODEL
  local llama_port
  llama_port=$(free_port)
  say "starting llama-server with $(basename "$2")"
  # Requests that set no temperature get the same answer on every run, and none goes on until the context is full. A core stays
  # free for toolgate and the tests: llama.cpp's threads spin while they wait for each other, and where one of them has to share
  # its core an answer takes ten times as long.
  local threads=$(($(getconf _NPROCESSORS_ONLN) - 1))
  start_llama_server "$1" "$2" "$llama_port" --temp 0 --seed 1 --predict 512 --threads "$((threads > 0 ? threads : 1))"
  export LLAMA_URL=http://127.0.0.1:$llama_port
  start_toolgate toolgate "$LLAMA_URL"
  export TOOLGATE_URL=$toolgate_url
  # The same server by its other API.
  start_toolgate anthropic-toolgate "$LLAMA_URL" TOOLGATE_BACKEND_KIND=anthropic
  export ANTHROPIC_TOOLGATE_URL=$toolgate_url
}

start_real_ollama() { # start_real_ollama BINARY MODELS
  local port
  port=$(free_port)
  say "starting Ollama $("$1" --version 2>&1 | grep -o '[0-9.]*$' | tail -n 1)"
  start_ollama "$1" "$2" "$port"
  export OLLAMA_URL=http://127.0.0.1:$port
  start_toolgate ollama-toolgate "$OLLAMA_URL" TOOLGATE_BACKEND_KIND=ollama
  export OLLAMA_TOOLGATE_URL=$toolgate_url
}

start_toolgate() { # start_toolgate NAME BACKEND-URL VARIABLE=VALUE…, which sets toolgate_url
  local port
  port=$(free_port)
  toolgate_url=http://127.0.0.1:$port
  TOOLGATE_LISTEN=127.0.0.1:$port TOOLGATE_BACKEND_URL=$2 start "$1" env "${@:3}" "$TOOLGATE_BIN" serve
  await "$1" "$toolgate_url/health/ready" 30
}

python_group() { # python_group NAME REPORT PATH…
  local paths=("${@:3}")
  group "$1" "$python" -m pytest -q -p no:cacheprovider -rxXs --durations=3 --junitxml="$logs/$2.xml" -o junit_family=xunit2 \
    "${paths[@]/#/$tests/}"
}

node_group() { # node_group NAME REPORT PATH…
  local paths=("${@:3}")
  group "$1" "$node" --test --test-reporter=spec --test-reporter-destination=stdout \
    --test-reporter=junit --test-reporter-destination="$logs/$2.xml" "${paths[@]/#/$tests/}"
}

# Its tests are not among those that are counted: cargo writes no report of them.
cargo_group() { # cargo_group NAME PATH
  local options=(--quiet --locked --manifest-path "$tests/$2/Cargo.toml")
  # On a busy machine the crates take minutes to compile, once: not in the group's time. What does not compile fails in the group.
  "$cargo" test --no-run "${options[@]}" || true
  group "$1" "$cargo" test "${options[@]}"
}

count_tests() {
  python3 - "$logs"/*.xml <<'PYTHON'
import sys
from xml.etree import ElementTree
counts = {"passed": 0, "failed": 0, "skipped": 0, "failed as expected": 0}
for path in sys.argv[1:]:
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        continue  # A group that was stopped leaves no whole report; it counts among the failed groups.
    for case in cases:
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            counts["failed"] += 1
        elif skipped is not None:
            counts["failed as expected" if skipped.get("type") == "pytest.xfail" else "skipped"] += 1
        else:
            counts["passed"] += 1
print(", ".join(f"{count} {name}" for name, count in counts.items()))
PYTHON
}

[ -x "$TOOLGATE_BIN" ] || fail "no toolgate binary at $TOOLGATE_BIN: build it with cargo build --release, or set TOOLGATE_BIN"
python=$(part python)
node=$(part node)
agents=$(part agents)
cargo=$(part cargo)
# The tests' own toolgates find the servers there.
MCP_SERVERS=$(part mcp-servers)
export MCP_SERVERS
start_scripted_servers
if [ -z "$python" ]; then
  skip "no Python with the clients (see above)" "Python clients, scripted answers"
else
  python_group "Python clients, scripted answers" scripted-python clients/test_streamed_answers.py clients/test_messages.py clients/test_responses.py clients/test_keys.py
fi
if [ -z "$node" ]; then
  skip "no Node.js with the clients (see above)" "Node.js clients, scripted answers"
else
  node_group "Node.js clients, scripted answers" scripted-node clients/streamed-answers.test.mjs clients/messages.test.mjs clients/responses.test.mjs
fi
if [ -z "$python" ]; then
  skip "no Python with the clients (see above)" "Python clients, a budget that is used up"
else
  start_toolgate_without_budget
  python_group "Python clients, a budget that is used up" budget-python clients/test_budget.py
fi
# The Python tests start a scripted model and toolgates of their own.
if [ -z "$MCP_SERVERS" ] || [ -z "$python" ]; then
  skip "no MCP servers or no Python with the clients (see above)" "MCP servers, scripted answers"
else
  python_group "MCP servers, scripted answers" mcp clients/test_mcp_tools.py
fi
if [ -z "$MCP_SERVERS" ] || [ -z "$node" ]; then
  skip "no MCP servers or no Node.js with the clients (see above)" "MCP server and Node.js client, scripted answers"
else
  start_mcp_toolgate "$MCP_SERVERS"
  node_group "MCP server and Node.js client, scripted answers" mcp-node clients/mcp.test.mjs
fi
if [ -z "$cargo" ]; then
  skip "no cargo with the client (see above)" "Rust client, scripted answers"
else
  cargo_group "Rust client, scripted answers" clients/async-openai
fi
redis=$(part redis-server)
if [ -z "$redis" ] || [ -z "$cargo" ]; then
  skip "no redis-server or no cargo (see above)" "real Redis"
else
  # Its tests are not among those that are counted: cargo writes no report of them.
  group "real Redis" env REDIS_SERVER="$redis" "$cargo" test --quiet --manifest-path "$tests/../Cargo.toml" --lib --test proxy real_redis -- --ignored
fi
# Each of these tests starts a scripted backend and a toolgate of its own.
if [ -z "$python" ] || [ -z "$agents" ]; then
  skip "no Python with the clients or no agents (see above)" "agents, scripted answers"
else
  AGENTS=$agents python_group "agents, scripted answers" agents clients/agents
fi

# Each scenario has a scripted model, a server of the suite and a toolgate between them.
mcp_conformance=$(part mcp-conformance)
if [ -z "$python" ] || [ -z "$mcp_conformance" ]; then
  skip "no Python with pytest or no conformance suite (see above)" "MCP conformance"
else
  MCP_CONFORMANCE=$mcp_conformance python_group "MCP conformance" mcp-conformance real/mcp/test_conformance.py
fi

server=$(part llama-server)
model=$(part model)
if [ -z "$server" ] || [ -z "$model" ]; then
  skip "no llama-server or no model (see above)" "Python client" "Node.js client" "real model" "Anthropic backend, real model" "llm-comply" \
    "MCP server, real model"
else
  start_real_servers "$server" "$model"
  if [ -z "$python" ]; then
    skip "no Python with the clients (see above)" "Python client" "real model" "Anthropic backend, real model" "llm-comply" \
      "MCP server, real model"
  else
    python_group "Python client" python clients/test_openai.py
    python_group "real model" model e2e/test_real_model.py
    python_group "Anthropic backend, real model" anthropic e2e/test_anthropic_backend.py
    python_group "llm-comply" comply e2e/test_llm_comply.py
    if [ -z "$MCP_SERVERS" ]; then
      skip "no MCP servers (see above)" "MCP server, real model"
    else
      python_group "MCP server, real model" mcp-model e2e/test_mcp_real_model.py
    fi
  fi
  if [ -z "$node" ]; then
    skip "no Node.js with the clients (see above)" "Node.js client"
  else
    node_group "Node.js client" node clients/openai.test.mjs
  fi
fi

ollama=$(part ollama)
ollama_models=
[ -z "$ollama" ] || ollama_models=$(part ollama-models)
if [ -z "$ollama_models" ] || [ -z "$python" ]; then
  skip "no Ollama, no models for it or no Python with the clients (see above)" "real Ollama"
else
  start_real_ollama "$ollama" "$ollama_models"
  python_group "real Ollama" ollama e2e/test_real_ollama.py
fi
fail_if_any_dead

say "" "real parts: $(count_tests), in $SECONDS seconds"
[ "${#skipped[@]}" = 0 ] || say "groups skipped: $(printf '%s; ' "${skipped[@]}")"
[ "${#failed[@]}" = 0 ] || fail "groups failed: $(printf '%s; ' "${failed[@]}")"
[ "${#skipped[@]}" = 0 ] || [ "${CI:-}" != true ] || fail "CI=true: no group may be skipped"
