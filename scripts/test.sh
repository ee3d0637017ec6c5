#!/usr/bin/env bash
# usage: test.sh [--long] [--build-dir DIR]
# Installs what is missing, builds, and runs every test. The last line is
# `N passed, N failed, N skipped`; the status is 1 when one failed. With --long
# fuzzers and random searches run longer.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/release
export HEDDLE_TEST_LONG=0
while [ $# -gt 0 ]; do
  case $1 in
  --long) HEDDLE_TEST_LONG=1 ;;
  --build-dir) build=$(realpath -m "$2") && shift ;;
  -h | --help) sed -n '2,5s/^# //p' "$0" && exit 0 ;;
  *) echo "test.sh: unknown argument $1" >&2 && exit 2 ;;
  esac
  shift
done

"$root/scripts/install.sh" build test oracle
[ "$HEDDLE_TEST_LONG" = 0 ] || "$root/scripts/install.sh" browser
python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3)
export HEDDLE_BUILD=$build

echo "== build =="
"$root/scripts/build.sh" "$build"

# Each suite leaves a line `N passed, N failed, N skipped` in $counts.
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT
run_suite() {
  local name=$1 start=$SECONDS
  shift
  echo "== $name =="
  "$python" "$root/scripts/count_tests.py" "$name" "$counts" -- "$@" || true
  echo "$name took $((SECONDS - start)) s"
}

run_suite unit ctest --test-dir "$build" --output-on-failure -j "$(nproc)"
run_suite lit "$python" /usr/lib/llvm-19/build/utils/lit/lit.py -v \
  --param "build=$build" "$root/test"
run_suite end-to-end "$python" "$root/test/EndToEnd/run.py"
[ "$HEDDLE_TEST_LONG" = 0 ] ||
  run_suite fuzz "$build/bin/HeddleFuzzReaders" "$RANDOM" 100000

awk '{ passed += $1; failed += $3; skipped += $5 }
     END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
           exit failed > 0 }' "$counts"
