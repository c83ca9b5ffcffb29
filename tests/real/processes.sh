# Starts, watches and stops the processes that run.sh and test.sh stand on. Sourced, not run; the caller sets `-euo pipefail`.
#
# Promise: when the script that sourced this ends, by itself, by a signal or by a failure, nothing that it started runs on.
# shellcheck shell=bash

children=() # Names, in the order of their start; "name" has its process id in pids[name] and its log in $logs/name.log.
declare -A pids=()
logs=$(mktemp -d "${TMPDIR:-/tmp}/toolgate-XXXXXX")

# What a child gets between TERM and KILL: more than toolgate's wait for answers that are under way needs here.
stop_seconds=5

say() { printf '%s\n' "$@" >&2; }
fail() { say "$@"; exit 1; }

clean_up() {
  local code=$?
  trap '' INT TERM HUP
  stop_children
  # The logs explain a failure. An end that was asked for is none, be it by a signal.
  if [ "$code" = 0 ] || [ "$code" -gt 128 ] || [ -z "$(ls "$logs")" ]; then rm -rf "$logs"; else say "logs: $logs"; fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

start() { # start NAME COMMAND…
  local name=$1 guard=()
  shift
  # Ends the child even when this script is killed with a signal that cannot be caught.
  if command -v setpriv >/dev/null; then guard=(setpriv --pdeathsig TERM); fi
  # A process group of its own keeps a Ctrl-C at the terminal from the child: it is stopped once, by us, and in order.
  set -m
  ${guard[@]+"${guard[@]}"} "$@" >"$logs/$name.log" 2>&1 </dev/null &
  pids[$name]=$!
  set +m
  children+=("$name")
}

is_running() { kill -0 "${pids[$1]}" 2>/dev/null; }

# Last started, first stopped: toolgate before the backend that its last answers come from.
stop_children() {
  local i name deadline
  for ((i = ${#children[@]} - 1; i >= 0; i--)); do
    name=${children[i]}
    kill -TERM -- "-${pids[$name]}" 2>/dev/null || continue
    deadline=$((SECONDS + stop_seconds))
    while is_running "$name" && [ "$SECONDS" -lt "$deadline" ]; do sleep 0.1; done
    kill -KILL -- "-${pids[$name]}" 2>/dev/null || true
    wait "${pids[$name]}" 2>/dev/null || true
  done
  children=()
}

fail_if_dead() { # fail_if_dead NAME
  is_running "$1" && return
  local code=0
  wait "${pids[$1]}" || code=$?
  say "$1 ended by itself with exit code $code; the end of its log:"
  tail -n 20 "$logs/$1.log" | sed 's/^/    /' >&2
  exit 1
}

await() { # await NAME URL SECONDS: until the URL answers 200, with a sign of life every five seconds
  local name=$1 url=$2 began=$SECONDS shown=$SECONDS
  until curl --silent --fail --output /dev/null --max-time 5 "$url"; do
    fail_if_dead "$name"
    if [ $((SECONDS - began)) -ge "$3" ]; then
      tail -n 20 "$logs/$name.log" | sed 's/^/    /' >&2
      fail "$name is not ready after $3 seconds; $url says: $(curl --silent --max-time 5 "$url" | head -c 500)"
    fi
    if [ $((SECONDS - shown)) -ge 5 ]; then say "  waiting for $name, $((SECONDS - began)) s"; shown=$SECONDS; fi
    sleep 0.2
  done
  # Another program may hold the port and have answered.
  fail_if_dead "$name"
}

fail_if_any_dead() {
  local name
  for name in "${children[@]}"; do fail_if_dead "$name"; done
}

# Goes on until a child ends, which is a failure, or a signal comes.
watch_children() {
  while true; do
    fail_if_any_dead
    sleep 1
  done
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

start_llama_server() { # start_llama_server BINARY MODEL PORT OPTION…
  start llama-server "$1" -m "$2" --host 127.0.0.1 --port "$3" --jinja -c 8192 --no-warmup "${@:4}"
  await llama-server "http://127.0.0.1:$3/health" 180
}

# Of the user's it touches nothing: the key that it makes for itself goes into a home of its own, and models that nobody names stay.
# The one model in memory stays there, has one conversation at a time, and a context that is soon full unless a request asks for more.
# Nothing is asked of its maker's servers.
start_ollama() { # start_ollama BINARY MODELS PORT
  mkdir -p "$logs/ollama-home"
  start ollama env HOME="$logs/ollama-home" OLLAMA_HOST="127.0.0.1:$3" OLLAMA_MODELS="$2" OLLAMA_NOPRUNE=1 OLLAMA_NO_CLOUD=1 \
    OLLAMA_KEEP_ALIVE=-1 OLLAMA_NUM_PARALLEL=1 OLLAMA_MAX_LOADED_MODELS=1 OLLAMA_CONTEXT_LENGTH=512 "$1" serve
  await ollama "http://127.0.0.1:$3/api/version" 30
}
