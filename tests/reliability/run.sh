#!/usr/bin/env bash
# Counts how many of forty requests a small real model answers rightly, without toolgate and with each setting of
# guardrails.constrain. Called by `make reliability`. It takes up to 25 minutes on two cores; the figures go into the README.
#
#   CONFIGS       which configurations, "direct,never,on_retry,always" by default; direct is the model server alone
#   CASES         how many cases, spread over all kinds, or their names: CASES=8, CASES=weather-now,home-none; all by default
#   OUTPUT        where reliability.md and reliability.json are put, target/reliability by default
#   TOOLGATE_BIN  the toolgate to measure, target/release/toolgate by default
#
# An answer through toolgate that is neither a valid call nor a text nor a typed error fails the run; a wrong answer is counted.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
parts=$root/tests/real/parts.sh
toolgate=${TOOLGATE_BIN:-$root/target/release/toolgate}
output=${OUTPUT:-$root/target/reliability}
IFS=, read -ra configurations <<<"${CONFIGS:-direct,never,on_retry,always}"
# The tests leave nothing in the source tree.
export PYTHONDONTWRITEBYTECODE=1
# What the user's shell says about toolgate must not change what is measured; the parts are found by theirs.
for name in "${!TOOLGATE_@}"; do [ "$name" = TOOLGATE_TEST_MODEL ] || unset "$name"; done
# Nor may the tools of MCP servers of the user's be among those that the model has.
export TOOLGATE_MCP_SERVERS=
# shellcheck source-path=SCRIPTDIR/../real
. "$root/tests/real/processes.sh"

check_configuration() { # check_configuration NAME
  local problems
  case $1 in
    direct | never) return ;;
    on_retry | always) ;;
    *) fail "CONFIGS: $1 is none of direct, never, on_retry, always" ;;
  esac
  # A toolgate that does not know the setting ignores it, and all its rows would tell of the default, which is "never" then.
  problems=$(TOOLGATE_GUARDRAILS_CONSTRAIN=unheard-of "$toolgate" check 2>&1) || true
  [[ $problems == *guardrails.constrain* ]] ||
    fail "this toolgate has no setting guardrails.constrain: build it anew, or choose CONFIGS=direct,never"
}

start_backend() {
  local port threads=$(($(getconf _NPROCESSORS_ONLN) - 1))
  port=$(free_port)
  backend=http://127.0.0.1:$port
  say "starting llama-server with $(basename "$model")"
  # One slot, and no cache beside it: each configuration finds what the one before it left, the last prompt, and nothing more. A
  # core stays free for toolgate, see tests/real/test.sh.
  start_llama_server "$server" "$model" "$port" -c 4096 --parallel 1 --cache-ram 0 --threads "$((threads > 0 ? threads : 1))"
}

start_configuration() { # start_configuration NAME
  local port
  if [ "$1" = direct ]; then targets+=("direct=$backend"); return; fi
  port=$(free_port)
  TOOLGATE_GUARDRAILS_CONSTRAIN=$1 TOOLGATE_LISTEN=127.0.0.1:$port TOOLGATE_BACKEND_URL=$backend start "toolgate-$1" "$toolgate" serve
  await "toolgate-$1" "http://127.0.0.1:$port/health/ready" 30
  targets+=("$1=http://127.0.0.1:$port")
}

[ -x "$toolgate" ] || fail "no toolgate binary at $toolgate: build it with cargo build --release, or set TOOLGATE_BIN"
for configuration in "${configurations[@]}"; do check_configuration "$configuration"; done
python=$("$parts" python)
"$python" -m unittest discover --quiet --start-directory "$here" || fail "the judging is broken: nothing is measured"
server=$("$parts" llama-server)
model=$("$parts" model)
start_backend
targets=()
for configuration in "${configurations[@]}"; do start_configuration "$configuration"; done
code=0
"$python" "$here/score.py" ${CASES:+--cases "$CASES"} --note "model=$(basename "$model")" --note "toolgate=$("$toolgate" --version)" \
  --output "$output" "${targets[@]}" || code=$?
fail_if_any_dead
say "${#targets[@]} configurations in $SECONDS seconds; every answer: $output/reliability.json"
exit "$code"
