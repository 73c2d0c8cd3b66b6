"""The bench set on tgaot and its peers: compile, contest on each number of threads, first inference, memory, kernels."""
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import onnx

import contest
import harness
import manifest

BENCH_SET = ("resnet50", "resnet18", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "squeezenet1_1", "convnext_tiny", "bert_minilm_dyn",
             "gpt2_block4_t64_dynamo20", "llama4_prefill64", "ppocrv4_det", "ppocrv4_rec", "basic_pitch", "nudenet_yolov8n", "magika_v3_3",
             "mtcnn_pnet", "oww_embedding", "minilm_l6_int8")


def fetch(entries):
    missing = [e["name"] for e in entries if not os.path.exists(manifest.path(e))]
    if missing:
        script = os.path.join(harness.ROOT, "models", "fetch.py")
        if subprocess.run([sys.executable, script, *missing]).returncode:
            raise SystemExit(f"could not fetch {' '.join(missing)}")


def fix_shapes(model, feeds, path):
    """The model with the shapes of `feeds`: what every peer gets."""
    weights = {t.name for t in model.graph.initializer}
    for v in model.graph.input:
        if v.name in weights:
            continue
        del v.type.tensor_type.shape.dim[:]
        for d in feeds[v.name].shape:
            v.type.tensor_type.shape.dim.add().dim_value = d
    onnx.save(model, path)


def compile_bundle(tools, model, bundle, shapes, options):
    """Seconds that `tgaot compile` takes."""
    if os.path.exists(bundle):
        os.remove(bundle)
    start = time.monotonic()
    harness.compile_model(tools, model, bundle, shapes, options["compile_limit"], options["env"])
    return time.monotonic() - start


def run_once(tools, bundle, inputs, folder, threads):
    """`tgb run` as a process: (wall seconds from its start to its end, peak megabytes)."""
    command = [tools["spawn"], tools["tgb"], "run", bundle, "--output", folder, *inputs]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NUM_CPU_THREADS": str(threads)})
    seconds, code, kib = done.stdout.strip().splitlines()[-1].split()[1:]
    if int(code):
        raise harness.Failure("failed", f"tgb run: {done.stderr.strip()}")
    return float(seconds), int(kib) / 1024


def measure(tools, entry, names, work, kept, options):
    """One model: {compile_s, process_ms, process_mb, threads: {n: {peer: row}}}. Raises harness.Failure if tgaot does not compile it."""
    model = onnx.load(manifest.path(entry))
    infos = manifest.input_infos(model)
    feeds = manifest.make_inputs(entry, infos)
    arrays = [feeds[n] for n, _, _ in infos]
    out = os.path.join(work, entry["name"])
    os.makedirs(out)
    bundle, fixed, inputs = os.path.join(out, "m.tgb"), os.path.join(out, "m.onnx"), os.path.join(out, "inputs.npz")
    np.savez(inputs, *arrays)
    args = []
    for i, x in enumerate(arrays):
        np.save(os.path.join(out, f"{i}.npy"), x)
        args += ["--input", f"{i}={os.path.join(out, f'{i}.npy')}"]
    seconds = compile_bundle(tools, manifest.path(entry), bundle, manifest.shapes(entry, infos), options)
    plain = os.path.join(out, "plain.tgb")
    if "tgaot_plain" in names:
        compile_bundle(tools, manifest.path(entry), plain, manifest.shapes(entry, infos), dict(options, env={k: v for k, v in options["env"].items() if k != "BEAM"}))
    fix_shapes(model, feeds, fixed)
    result = {"compile_s": seconds, "bundle_mb": os.path.getsize(bundle) / 1e6, "threads": {}}
    os.makedirs(os.path.join(out, "y"))
    if tools["spawn"]:
        process = [run_once(tools, bundle, args, os.path.join(out, "y"), 1) for _ in range(max(5, options["starts"]))]
        result["process_ms"], result["process_mb"] = min(p[0] for p in process) * 1e3, max(p[1] for p in process)
    spec = {"model": fixed, "bundle": bundle, "plain": plain, "library": tools["library"], "inputs": inputs, "input_names": [n for n, _, _ in infos],
            "output_names": [o.name for o in model.graph.output], "kept": os.path.join(kept, entry["name"]), "huge": options["huge"]}
    want = alone = None
    for threads in options["threads"]:
        rows, want = contest.contest(names, spec, out, dict(options, threads=threads), options["tolerance"] or entry["tolerance"], want)
        result["threads"][str(threads)] = rows
        mine = os.path.join(out, "tgaot.npz")
        if "gap" not in rows["tgaot"]:
            got = contest.outputs(mine)
            if alone is None:
                alone = got
            elif not all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in zip(alone, got)):
                rows["tgaot"]["wrong"] = f"other bits than on {options['threads'][0]} thread(s)"
    shutil.rmtree(out)
    return result
