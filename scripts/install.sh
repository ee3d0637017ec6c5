#!/usr/bin/env bash
# usage: install.sh [GROUP...]
# Installs the Debian packages of these groups of packages.txt (default: build)
# that are missing. Needs root or sudo only when one is; works offline when none
# is. Packages of the groups `oracle` and `browser` that cannot be had are named and
# left out.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Prints the packages of a group that are not installed.
missing() {
  local name
  while read -r name; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null |
      grep -q '^install ok installed$' || echo "$name"
  done < <(awk -v group="$1" '$1 == group { print $2 }' "$here/packages.txt")
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo -n "$@" || sudo "$@"
  else
    echo "install.sh: run as root, or install sudo, to install packages" >&2
    return 1
  fi
}

updated=no
install_packages() {
  if [ "$updated" = no ]; then
    as_root apt-get update -q
    updated=yes
  fi
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "$@"
}

command -v dpkg-query >/dev/null || {
  echo "install.sh: this is no Debian; the packages needed are in packages.txt" >&2
  exit 0
}
[ $# -gt 0 ] || set -- build
for group in "$@"; do
  mapfile -t packages < <(missing "$group")
  [ ${#packages[@]} -gt 0 ] || continue
  echo "install.sh: installing ${packages[*]}"
  if ! install_packages "${packages[@]}"; then
    [ "$group" = oracle ] || [ "$group" = browser ] || exit 1
    echo "install.sh: tests that need ${packages[*]} will be skipped" >&2
  fi
done
