#!/usr/bin/env bash
# Builds the fuzz targets with the stable toolchain and runs them; needs a C++ compiler for libFuzzer, and not cargo-fuzz.
#
#   fuzz/run.sh           a few seconds a target, with inputs that grow from seeds/ alone
#   fuzz/run.sh SECONDS   new inputs for so long a target; what they teach is kept in corpus/
#
# TARGETS="sse rescue" picks targets. With cargo-fuzz, `cargo fuzz run sse fuzz/corpus/sse fuzz/seeds/sse` does the same. Without a
# C++ compiler nothing is run, which fails when CI=true.
set -euo pipefail

# What comes first ends a run; the time is for small machines.
runs=100000
run_seconds_max=10
# Far more than any target takes: it reads an input of this length in less than a millisecond.
input_bytes_max=1024
input_seconds_max=5
memory_mb_max=512

main() {
  cd "$(dirname "${BASH_SOURCE[0]}")"
  if ! command -v "${CXX:-c++}" >/dev/null; then
    echo "fuzz/run.sh: skipped, there is no C++ compiler (${CXX:-c++})"
    [[ ${CI:-} != true ]]
    return
  fi
  # Named, so that build scripts and macros are built without the flags below.
  local triple target
  triple=$(rustc -vV | sed -n 's/^host: //p')
  build "$triple"
  for target in ${TARGETS:-$(all_targets)}; do
    run "target/$triple/release/$target" "$target" "${1:-}"
  done
  [[ ${#failed[@]} == 0 ]]
}

all_targets() { basename --suffix=.rs --multiple fuzz_targets/*.rs; }

# The flags with which cargo-fuzz instruments for libFuzzer, less what the stable toolchain has not, its sanitizers, and less the tracing
# of comparisons: without it a third more inputs a second reach more.
build() { # build TRIPLE
  local flags=(
    --cfg fuzzing
    -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Ccodegen-units=1
  )
  RUSTFLAGS=${flags[*]} cargo build --quiet --release --target "$1" --target-dir target
}

run() { # run BINARY TARGET SECONDS
  local binary=$1 target=$2 seconds=$3
  local log=target/$target.log corpus=corpus/$target
  local limits=(-max_len="$input_bytes_max" -timeout="$input_seconds_max" -rss_limit_mb="$memory_mb_max")
  if [[ -n $seconds ]]; then
    limits+=(-max_total_time="$seconds")
  else
    # The same inputs each time, as far as the code under test takes the same way each time, which its hash maps do not. Reading its
    # own files again would depend on the clock.
    limits+=(-runs="$runs" -max_total_time="$run_seconds_max" -seed=1 -reload=0)
    corpus=target/$target.corpus
    rm -rf "$corpus"
  fi
  if [[ -e seeds/$target.dict ]]; then
    limits+=(-dict="seeds/$target.dict")
  fi
  mkdir -p "$corpus" "artifacts/$target"
  if "$binary" "${limits[@]}" -artifact_prefix="artifacts/$target/" "$corpus" "seeds/$target" 2>"$log"; then
    echo "fuzz $target: $(grep -a DONE "$log" | tr -s '\t ' ' '), $(grep -a '^Done' "$log")"
    return
  fi
  failed+=("$target")
  grep -av '^#\|NEW_FUNC\|NEW_PC' "$log" | tail -n 40 || true
  echo "fuzz $target: failed; all of the log is in fuzz/$log, and this shows it again:"
  sed -n 's|.*Test unit written to |  fuzz/'"$binary"' fuzz/|p' "$log"
}

failed=()
main "$@"
