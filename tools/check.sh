#!/usr/bin/env bash
# Checks before a commit: the layers' include lines, what the runtime may not use, and (where clang-format is there) the format of changed
# files; then a build with warnings as errors and the unit tests.  tools/check.sh [--source]   --source: only what needs no build
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0
complain() { echo "$*" >&2; bad=1; }

# A layer includes itself and what stands before it. formats/ stands before all and includes nothing of the compiler; driver sees all.
layers=(base ir target rules frontend schedule opt codegen render backend search bundle driver)
for i in "${!layers[@]}"; do
  dir=compiler/${layers[$i]}
  [ -d "$dir" ] || continue
  later=$(IFS='|'; echo "${layers[*]:$((i + 1))}")
  if [ -n "$later" ] && lines=$(grep -rnE "^ *#include \"($later)/" "$dir"); then
    complain "$dir includes a later layer:"; complain "$lines"
  fi
  # The one crossing into the runtime: measurements and the driver use its device interface.
  case ${layers[$i]} in search|driver) continue ;; esac
  if lines=$(grep -rnE '^ *#include "(runtime-lite/|tgb\.h)' "$dir"); then
    complain "$dir includes the runtime:"; complain "$lines"
  fi
done
for dir in formats runtime-lite; do
  all=$(IFS='|'; echo "${layers[*]}")
  if lines=$(grep -rnE "^ *#include \"(compiler/|($all)/)" "$dir" | grep -vE '#include "backend/' ); then
    complain "$dir includes the compiler:"; complain "$lines"
  fi
  # Test helpers may use the standard library; what ships may not.
  if lines=$(grep -rnE '^ *#include <(string|vector|map|unordered_map|iostream|sstream|memory|functional|thread|mutex|exception|stdexcept)>' "$dir" --include=*.cc --include=*.h); then
    complain "$dir uses the standard library's containers or exceptions:"; complain "$lines"
  fi
done
for f in $(git ls-files 'compiler/*.h' 'runtime-lite/*.h' 'formats/*.h' 'tools/*.h'); do
  # tgb.h is C and keeps its include guard.
  [ "${f##*/}" = tgb.h ] || [ ! -e "$f" ] || grep -q '^#pragma once' "$f" || complain "$f: no #pragma once"
done
if [ "$bad" != 0 ]; then echo "tools/check.sh: failed" >&2; exit 1; fi
echo "source: layers and includes are right"
[ "${1:-}" != --source ] || exit 0

if command -v clang-format >/dev/null; then
  git diff --name-only --diff-filter=AM HEAD -- '*.cc' '*.h' | while read -r f; do
    clang-format --dry-run "$f" 2>&1 | head -n 2 || true
  done
fi
tools/setup.sh core test
cmake --preset dev >/dev/null
cmake --build --preset dev -j "$(nproc)"
ctest --preset dev -j "$(nproc)"
