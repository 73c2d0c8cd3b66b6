#!/bin/sh
# Prints text + data of a library as it ships (stripped), and fails above the limit: size.sh libtgb.so STRIP LIMIT
set -eu
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$2" -o "$out" "$1"
size "$out" | awk -v limit="$3" 'NR == 2 { n = $1 + $2; printf "libtgb.so: %d bytes of text and data (limit %d)\n", n, limit; exit n > limit }'
