#!/usr/bin/env bash
# usage: build.sh DIR [TARGET...]
# Configures the release preset in DIR and builds these targets, by default all.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$1
shift

log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake -S "$root" --preset release -B "$build" >"$log" 2>&1 || {
  cat "$log"
  exit 1
}
cmake --build "$build" ${1:+--target "$@"}
