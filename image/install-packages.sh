#!/bin/sh
# Install the Debian packages named in a file, unless the base has them already (then no network is needed).
set -eu
missing=""
while read -r name; do
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing="$missing $name"
done < "$1"
[ -n "$missing" ] || exit 0
apt-get update -q
# shellcheck disable=SC2086 - a list of words
DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $missing
rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
