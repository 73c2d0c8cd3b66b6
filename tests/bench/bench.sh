#!/bin/sh
# bench.sh PYTHON. Exit code 77 (skipped) without the test's Python (tools/setup.sh test).
"$1" -c 'import numpy, onnx' 2>/dev/null || { echo "skipped: no numpy and onnx in $1; run tools/setup.sh test"; exit 77; }
exec "$1" "$(dirname "$0")/bench_test.py"
