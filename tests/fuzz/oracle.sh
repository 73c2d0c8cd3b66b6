#!/bin/sh
# The interpreter against numpy on random graphs: oracle.sh GRAPH_FUZZ PYTHON COUNT. Exit code 77 (skipped) without the test's Python
# (tools/setup.sh test).
"$2" -c 'import numpy, ml_dtypes' 2>/dev/null || { echo "skipped: no numpy and ml_dtypes in $2; run tools/setup.sh test"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
"$1" --stage none --seed 1 --count "$3" --dump "$dir" && "$2" "$(dirname "$0")/oracle.py" "$dir"
