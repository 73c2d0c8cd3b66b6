#!/usr/bin/env bash
# From a fresh machine to a real model that runs: installs, builds, fetches a model, compiles it, runs it, prints result and latency.
# tools/quickstart.sh [MODEL]   a name in models/manifest.json; default: mobilenet_v2
set -euo pipefail
cd "$(dirname "$0")/.."
model=${1:-mobilenet_v2}
say() { printf '\n== %s\n' "$*"; }

say "install"
tools/setup.sh core test
say "build"
cmake --preset release >/dev/null
cmake --build --preset release -j "$(nproc)" --target tgaot tgb
say "fetch $model"
.venv/bin/python models/fetch.py "$model"
# The usual shapes of inputs with free dimensions, as options, one a line.
mapfile -t shapes < <(.venv/bin/python models/manifest.py "$model")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
say "compile"
DEV=${DEV:-CPU} build/tools/tgaot compile "models/cache/$model.onnx" -o "$out/$model.tgb" ${shapes[@]+"${shapes[@]}"}
ls -l "$out/$model.tgb"
say "run (random input, fixed seed)"
mkdir "$out/outputs"
build/tools/tgb run "$out/$model.tgb" --output "$out/outputs"
.venv/bin/python - "$out/outputs" <<'P'
import glob, sys
import numpy as np
for path in sorted(glob.glob(sys.argv[1] + "/*.npy")):
    x = np.load(path)
    print(f"output {path.rsplit('/', 1)[1][:-4]}: {x.dtype}{list(x.shape)}  first {np.ravel(x)[:5]}")
P
say "latency"
build/tools/tgb bench "$out/$model.tgb" --runs 20
