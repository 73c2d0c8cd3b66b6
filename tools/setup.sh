#!/usr/bin/env bash
# Installs what building, testing and measuring need on Debian 12, in parts:  tools/setup.sh [core|test|cl|webgpu|browser|qemu|cuda|peers]...
# Without arguments: core test. Does nothing, quickly, where all is there. Needs root or sudo only when a Debian package is missing.
#   core     compiler, libraries, LLVM 22           test   .venv with numpy, onnx, onnxruntime (tests and benchmarks)
#   cl       OpenCL runtimes and their headers       webgpu lavapipe, Vulkan tools, wgpu-native
#   browser  chromium with its driver                qemu   user-mode emulators and cross compilers
#   cuda     what checks CUDA code without a GPU     peers  .venv-peers: other runtimes to compare with (never in CI)
set -euo pipefail
cd "$(dirname "$0")/.."

packages() {
  case $1 in
    core) echo g++ cmake ninja-build ccache llvm-22-dev clang-22 lld-22 liblld-22-dev libzstd-dev zlib1g-dev libxml2-dev libffi-dev \
      libflatbuffers-dev flatbuffers-compiler libcli11-dev libgtest-dev libgmock-dev libprotobuf-dev protobuf-compiler libsqlite3-dev \
      libxxhash-dev ;;
    test) echo python3 python3-venv ;;
    cl) echo pocl-opencl-icd ocl-icd-opencl-dev opencl-headers clinfo oclgrind ;;
    webgpu) echo mesa-vulkan-drivers libvulkan-dev vulkan-tools spirv-tools glslang-tools ;;
    browser) echo chromium chromium-driver ;;
    qemu) echo qemu-user gcc-aarch64-linux-gnu g++-aarch64-linux-gnu gcc-riscv64-linux-gnu g++-riscv64-linux-gnu ;;
    cuda|peers) ;;
    *) echo "tools/setup.sh: no part named $1; parts: core test cl webgpu browser qemu cuda peers" >&2; exit 2 ;;
  esac
}
requirements() {
  case $1 in
    test) echo tools/requirements-test.txt ;;
    webgpu) echo tools/requirements-webgpu.txt ;;
    cuda) echo tools/requirements-cuda.txt ;;
    peers) echo tools/requirements-peers.txt ;;
  esac
}

installed() { dpkg-query -W -f='${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }

install_packages() {
  local missing=() p
  for p in "$@"; do
    # A g++ or cmake of one's own will do.
    case $p in g++|cmake|python3) command -v "$p" >/dev/null && continue ;; esac
    installed "$p" || missing+=("$p")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || { echo "tools/setup.sh: missing: ${missing[*]}; install them (names are Debian's), LLVM must be 22.1" >&2; exit 1; }
  local sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  echo "installing: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  local try
  for try in 1 2 3; do
    if [ $try -gt 1 ] || [ -z "$(find /var/lib/apt/lists -name '*_Packages*' -mtime -1 2>/dev/null | head -n 1)" ]; then
      "${sudo[@]}" apt-get update -qq || true
    fi
    "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null && return 0
    sleep 3
  done
  echo "tools/setup.sh: apt-get could not install ${missing[*]} (llvm-22 is in Debian 12's security updates and in later releases)" >&2
  exit 1
}

# Python packages of a list go to a virtual environment, then packages named one by one, without what they ask for. The stamp holds the list.
install_python() {
  local list=$1 venv=$2 alone=${3:-} stamp
  stamp=$venv/.installed-$(basename "$list")
  cmp -s "$list" "$stamp" && return 0
  installed python3-venv || install_packages python3 python3-venv
  [ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
  echo "installing into $venv: $(grep -v '^#' "$list" | tr '\n' ' ')$alone"
  local try pip=("$venv/bin/python" -m pip -q --disable-pip-version-check install)
  for try in 1 2 3; do
    "${pip[@]}" -r "$list" && { [ -z "$alone" ] || "${pip[@]}" --no-deps "$alone"; } && { cp "$list" "$stamp"; return 0; }
    sleep 3
  done
  echo "tools/setup.sh: pip could not install $list" >&2
  exit 1
}

[ $# -gt 0 ] || set -- core test
all=()
for part in "$@"; do
  names=$(packages "$part")
  # shellcheck disable=SC2206
  all+=($names)
done
[ ${#all[@]} -eq 0 ] || install_packages "${all[@]}"
for part in "$@"; do
  list=$(requirements "$part")
  case $part in
    peers) install_python "$list" .venv-peers pnnx==20261020 ;;
    *) [ -z "$list" ] || install_python "$list" .venv ;;
  esac
done
