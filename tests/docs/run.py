"""The commands in documents do what they say: every block that opens with ```sh run, of the documents below, is run as it stands.

run.py [--build DIR] [--list]
Each document runs in a folder of its own that looks like the project after a build: links to its folders, `build` to the build, a small
model.onnx, x.npy, and model.tgb compiled from it. A command that fails fails its block. Then the table of operators must be that of `tgaot ops` (tools/docs.py --check).
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import harness
from harness import Outcome

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DOCUMENTS = ("README.md", "compiler/README.md", "runtime-lite/README.md", "formats/README.md", "tools/bench/README.md")
LINKS = ("compiler", "formats", "models", "runtime-lite", "tests", "tools", ".venv")


def blocks(path):
    """(line, text) of the blocks to run."""
    with open(path) as f:
        text = f.read()
    for m in re.finditer(r"^```sh run\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, m.start()) + 1, m[1]


def small_model(folder):
    rng = np.random.default_rng(0)
    w, b = rng.standard_normal((16, 3, 3, 3)).astype(np.float32), rng.standard_normal(16).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 224, 224])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), os.path.join(folder, "model.onnx"))
    np.save(os.path.join(folder, "x.npy"), rng.standard_normal((1, 3, 224, 224)).astype(np.float32))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(harness.ROOT, "build"))
    parser.add_argument("--list", action="store_true", help="print the blocks, run nothing")
    parser.add_argument("--timeout", type=int, default=120)
    args = parser.parse_args()
    build = os.path.abspath(args.build)
    tools = harness.programs(build)

    results = {}
    for document in DOCUMENTS:
        with tempfile.TemporaryDirectory(prefix="docs-") as top:
            for name in LINKS:
                os.symlink(os.path.join(harness.ROOT, name), os.path.join(top, name))
            os.symlink(build, os.path.join(top, "build"))
            small_model(top)
            env = {**os.environ, "CACHEDB": os.path.join(top, "cache.db")}
            if not args.list:
                harness.compile_model(tools, os.path.join(top, "model.onnx"), os.path.join(top, "model.tgb"), {}, args.timeout, {**env, "DEV": "CPU"})
            for line, text in blocks(os.path.join(harness.ROOT, document)):
                name = f"{document}:{line}"
                if args.list:
                    print(f"--- {name}\n{text}", end="")
                    continue
                try:
                    p = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=top, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, timeout=args.timeout)
                    said = p.stdout.decode(errors="replace").strip().splitlines()
                    results[name] = Outcome("passed") if p.returncode == 0 else Outcome("failed", f"exit code {p.returncode}: {' | '.join(said[-3:])}")
                except subprocess.TimeoutExpired:
                    results[name] = Outcome("hung", f"over {args.timeout} s")
    if args.list:
        return
    if not results:
        raise SystemExit("no document has a block to run: ```sh run")
    p = subprocess.run([sys.executable, os.path.join(harness.ROOT, "tools", "docs.py"), "--check", "--build", build], capture_output=True, text=True)
    results["operators"] = Outcome("passed") if p.returncode == 0 else Outcome("failed", p.stderr.strip())
    sys.exit(harness.summary("docs", results, 0, 0))


main()
