#!/usr/bin/env bash
# Compares toolgate with a plain nginx reverse proxy, with one tuned to keep its connections to the
# model server open, and with the direct connection.
#
# A scripted model server answers at once, so that what is left is the proxies' own cost. All ways
# to it are measured in turn within minutes on the loopback interface: on a shared machine the
# ratios hold, absolute figures do not. Then the model server speaks at a model's pace, to one reader
# and to a thousand, with toolgate on one core and all the rest on another.
#
#   TOOLGATE_BIN    the toolgate to measure; target/release/toolgate unless set
#   BENCH_ROUND_MS  how long each round of each case takes; 700 unless set
#
# A figure that falls short is no failure; a request that fails, or a part that does not start, is.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=benches/nginx.sh
source "$root/benches/nginx.sh"

main() {
  local toolgate=${TOOLGATE_BIN:-$root/target/release/toolgate}
  [[ $toolgate == /* ]] || toolgate=$PWD/$toolgate
  # What the user's shell says about toolgate must not change what is measured.
  unset "${!TOOLGATE_@}"

  work=$(mktemp -d)
  # Nor must the servers of a file of the user's.
  export TOOLGATE_MCP_SERVERS=
  trap stop EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM

  echo "benches/run.sh: building the load generator" >&2
  cargo build --release --locked --quiet --manifest-path "$root/benches/load/Cargo.toml" \
    --target-dir "$root/benches/load/target"
  tools=$root/benches/load/target/release

  local ports
  mapfile -t ports < <("$tools/freeport" 6)
  local direct=127.0.0.1:${ports[0]} guarded=127.0.0.1:${ports[1]}
  local plain=127.0.0.1:${ports[2]} tuned=127.0.0.1:${ports[3]}
  local crowd_direct=127.0.0.1:${ports[4]} crowd_guarded=127.0.0.1:${ports[5]}
  local compare=("$tools/compare" --direct "http://$direct" --round-ms "${BENCH_ROUND_MS:-700}")
  local pace=("$tools/pace" "http://$direct" "http://$guarded")

  start mockllm "$tools/mockllm" "${ports[0]}"
  await mockllm "$direct" /health

  local nginx_bin
  if nginx_bin=$(nginx_find); then
    start_nginx plain "$plain" "$direct"
    start_nginx tuned "$tuned" "$direct"
    compare+=(--nginx "http://$plain" --nginx-tuned "http://$tuned")
    pace+=("http://$plain")
  else
    echo "benches/run.sh: no nginx: going on without it; install it to see ratios" >&2
  fi

  if [[ -x $toolgate ]]; then
    start toolgate env "TOOLGATE_BACKEND_URL=http://$direct" "TOOLGATE_LISTEN=$guarded" \
      "$toolgate" serve
    await toolgate "$guarded" /health/ready
    compare+=(--toolgate "http://$guarded" --pid "$started" --bin "$toolgate")
  else
    echo "benches/run.sh: no $toolgate: going on without it; build it with" \
      "'cargo build --release' or set TOOLGATE_BIN" >&2
  fi

  measure "${compare[@]}"
  [[ -x $toolgate ]] || return 0
  measure "${pace[@]}"
  backends "$toolgate" "$direct" "$guarded"
  loops "$toolgate" "$direct" "$guarded"
  crowd "$toolgate" "$crowd_direct" "$crowd_guarded"
}

# backends TOOLGATE DIRECT GUARDED: guarded calls before Ollama, and with a first backend at which nobody listens.
backends() {
  local toolgate=$1 direct=$2 guarded=$3 ports ollama failover
  mapfile -t ports < <("$tools/freeport" 3)
  ollama=127.0.0.1:${ports[0]} failover=127.0.0.1:${ports[1]}
  start toolgate-ollama env TOOLGATE_BACKEND_KIND=ollama "TOOLGATE_BACKEND_URL=http://$direct" "TOOLGATE_LISTEN=$ollama" \
    "$toolgate" serve
  await toolgate-ollama "$ollama" /health/live
  # Without breaker and probes, the first one is tried each time.
  cat >"$work/failover.toml" <<TOML
[[backend]]
name = "refuses"
url = "http://127.0.0.1:${ports[2]}"
breaker_failures = 0
probe_every = "0s"
[[backend]]
name = "answers"
url = "http://$direct"
[[model]]
name = "tool"
backends = ["refuses", "answers"]
TOML
  start toolgate-failover env "TOOLGATE_LISTEN=$failover" "$toolgate" serve --config "$work/failover.toml"
  await toolgate-failover "$failover" /health/live
  measure "$tools/backends" "http://$direct" "http://$guarded" "http://$ollama" "http://$failover"
}

# loops TOOLGATE DIRECT GUARDED: tools that toolgate runs, of an MCP server in the model server's process and of one of its own.
loops() {
  local toolgate=$1 direct=$2 guarded=$3 ports http stdio
  # Traced, as runs with tools are unless told otherwise, but not into the source tree.
  local trace=("TOOLGATE_TRACE_SINK=$work/traces.jsonl")
  mapfile -t ports < <("$tools/freeport" 2)
  http=127.0.0.1:${ports[0]} stdio=127.0.0.1:${ports[1]}
  echo "{\"mcpServers\": {\"weather\": {\"url\": \"http://$direct/mcp\"}}}" >"$work/http.json"
  echo "{\"mcpServers\": {\"weather\": {\"command\": \"$tools/mocktool\"}}}" >"$work/stdio.json"
  start toolgate-http env "TOOLGATE_MCP_SERVERS=$work/http.json" "${trace[@]}" "TOOLGATE_BACKEND_URL=http://$direct" "TOOLGATE_LISTEN=$http" \
    "$toolgate" serve
  await toolgate-http "$http" /health/live
  start toolgate-stdio env "TOOLGATE_MCP_SERVERS=$work/stdio.json" "${trace[@]}" "TOOLGATE_BACKEND_URL=http://$direct" "TOOLGATE_LISTEN=$stdio" \
    "$toolgate" serve
  await toolgate-stdio "$stdio" /health/live
  measure "$tools/loops" "http://$direct" "http://$guarded" "http://$http" "http://$stdio"
}

# crowd TOOLGATE DIRECT GUARDED: a thousand streams through a fresh toolgate, alone on the first core.
crowd() {
  local toolgate=$1 direct=$2 guarded=$3 first=() rest=()
  if command -v taskset >/dev/null && (($(nproc) > 1)); then
    first=(taskset -c 0) rest=(taskset -c "1-$(($(nproc) - 1))")
  else
    echo "benches/run.sh: no taskset, or one core only: toolgate shares its core" >&2
  fi
  # Each of the three holds a descriptor or two for every stream.
  ulimit -S -n "$(descriptors 4096)"

  start crowd-mockllm "${rest[@]}" "$tools/mockllm" "${direct#*:}"
  await crowd-mockllm "$direct" /health
  start crowd-toolgate "${first[@]}" env "TOOLGATE_BACKEND_URL=http://$direct" "TOOLGATE_LISTEN=$guarded" \
    "$toolgate" serve
  await crowd-toolgate "$guarded" /health/ready
  measure "${rest[@]}" "$tools/crowd" "http://$direct" "http://$guarded" "$started"
}

# descriptors WANTED: prints the limit to set: that, or less where no more is allowed.
descriptors() {
  local hard
  hard=$(ulimit -H -n)
  if [[ $hard != unlimited ]] && ((hard < $1)); then echo "$hard"; else echo "$1"; fi
}

# measure COMMAND...: runs it in the background, because bash runs a trap only once a foreground
# command has ended.
measure() {
  "$@" &
  processes+=("$!")
  wait "$!"
}

# start_nginx KIND LISTEN UPSTREAM: starts $nginx_bin, configured as KIND, and waits for it.
start_nginx() {
  local name=nginx-$1 listen=$2 upstream=$3
  local prefix=$work/$name
  mkdir "$prefix"
  nginx_config "$1" "$listen" "$upstream" >"$prefix/nginx.conf"
  start "$name" "$nginx_bin" -p "$prefix" -e "$work/$name-error.log" -c "$prefix/nginx.conf"
  await "$name" "$listen" /health
}

# start NAME COMMAND...: runs it in the background, with its output in $work/NAME.log. Its process
# is $started.
start() {
  local name=$1
  shift
  "$@" </dev/null >"$work/$name.log" 2>&1 &
  started=$!
  processes+=("$started")
}

# await NAME ADDRESS PATH: waits up to 10 s until the process $started answers with status 200.
await() {
  local name=$1 address=$2 path=$3 _
  for _ in {1..200}; do
    if answers "$address" "$path" 2>/dev/null; then return 0; fi
    if ! kill -0 "$started" 2>/dev/null; then break; fi
    sleep 0.05
  done
  echo "benches/run.sh: $name does not answer on $address$path:" >&2
  cat "$work/$name.log" "$work/$name-error.log" 2>/dev/null | tail -n 20 >&2
  exit 1
}

# A subshell, so that a refused connection does not end the script and the socket is closed.
answers() (
  local address=$1 path=$2 status
  exec 3<>"/dev/tcp/${address%:*}/${address#*:}"
  printf 'GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$path" "$address" >&3
  read -r -t 5 status <&3
  [[ $status == 'HTTP/1.1 200'* ]]
)

# Ends all that was started, the last first, and waits for it.
stop() {
  local status=$? i
  trap '' INT TERM
  for ((i = ${#processes[@]} - 1; i >= 0; i--)); do
    kill "${processes[i]}" 2>/dev/null || true
  done
  for ((i = ${#processes[@]} - 1; i >= 0; i--)); do
    end_within_5s "${processes[i]}"
  done
  rm -rf "$work"
  exit "$status"
}

end_within_5s() {
  local _
  for _ in {1..100}; do
    kill -0 "$1" 2>/dev/null || return 0
    sleep 0.05
  done
  kill -KILL "$1" 2>/dev/null || true
}

processes=()
started=
tools=
work=
main "$@"
