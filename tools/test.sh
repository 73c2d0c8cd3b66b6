#!/usr/bin/env bash
# Installs, builds and tests, on a fresh machine too.  tools/test.sh [--all] [--preset release|dev|asan|tsan]
# Of the long suites a fixed tenth runs, chosen by a hash of the case's name, plus what ever failed (tests/regressions.txt); --all runs
# every case. Ends with one line of totals; the exit code is not 0 if anything failed.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release share=--tenth
while [ $# -gt 0 ]; do
  case $1 in
    --all) share=--all ;;
    --preset) preset=${2:?--preset needs a name}; shift ;;
    *) echo "usage: tools/test.sh [--all] [--preset release|dev|asan|tsan]" >&2; exit 2 ;;
  esac
  shift
done
build=build
[ "$preset" = release ] || build=build/$preset

start=$SECONDS
step() { printf '\n== %s  (%d s)\n' "$*" $((SECONDS - start)); }

step "setup"
tools/setup.sh core test
step "checks of the source"
tools/check.sh --source
step "build ($preset)"
cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" -j "$(nproc)"

failed=()
step "unit tests"
ctest --preset "$preset" -j "$(nproc)" || failed+=("ctest")
if [ "$preset" = release ]; then
  step "runtime and bundle under sanitizers"
  cmake --preset asan >/dev/null
  cmake --build --preset asan -j "$(nproc)" --target test_runtime test_corrupt test_pool test_tgb test_verify test_bundle
  ctest --preset asan -j "$(nproc)" -R '^test_(runtime|corrupt|pool|tgb|verify|bundle)$' || failed+=("sanitizers")
  step "command lines"
  .venv/bin/python tests/cli/run.py --build "$build" || failed+=("tests/cli")
  step "search"
  .venv/bin/python tests/search/run.py --build "$build" || failed+=("tests/search")
  step "state"
  .venv/bin/python tests/state/run.py --build "$build" || failed+=("tests/state")
  step "quantized graphs"
  .venv/bin/python tests/quant/run.py --build "$build" || failed+=("tests/quant")
  step "sizes"
  .venv/bin/python tests/sizes/run.py --build "$build" || failed+=("tests/sizes")
  step "loops"
  .venv/bin/python tests/loops/run.py --build "$build" || failed+=("tests/loops")
  step "bounds of sizes"
  .venv/bin/python tests/bounds/run.py --build "$build" || failed+=("tests/bounds")
  step "free sizes"
  .venv/bin/python tests/free/run.py --build "$build" || failed+=("tests/free")
  .venv/bin/python tests/onnx_eval/free_cases.py "$build/free_cases" || failed+=("tests/onnx_eval/free_cases.py")
  .venv/bin/python tests/onnx/run.py --data "$build/free_cases" --build "$build" || failed+=("tests/onnx with free cases")
  step "models fetched"
  .venv/bin/python models/fetch.py ${share/--tenth/--small} || failed+=("models/fetch.py")
  step "ONNX cases"
  .venv/bin/python tests/onnx/run.py $share --build "$build" || failed+=("tests/onnx")
  step "malformed models"
  .venv/bin/python tests/malformed/run.py $share --build "$build" || failed+=("tests/malformed")
  step "models"
  .venv/bin/python tests/models/run.py ${share/--tenth/--small} --build "$build" || failed+=("tests/models")
  for float in HALF BFLOAT16 FLOAT64; do
    .venv/bin/python tests/models/run.py --float $float ${share/--tenth/magika_v3_3 resnet18 silero_vad_v6_fw} --build "$build" || failed+=("tests/models in $float")
  done
  .venv/bin/python tests/models/run.py --optimized ${share/--tenth/--small} --build "$build" || failed+=("tests/models optimized by onnxruntime")
  .venv/bin/python tests/models/stream.py --build "$build" || failed+=("tests/models/stream.py")
  .venv/bin/python tests/models/run.py --var ${share/--tenth/--small} --build "$build" || failed+=("tests/models with free sizes")
  step "documents"
  .venv/bin/python tests/docs/run.py --build "$build" || failed+=("tests/docs")
fi
if [ ${#failed[@]} -gt 0 ]; then
  step "FAILED: ${failed[*]}"
  exit 1
fi
step "all passed"
