"""Reads manifest.json and makes the inputs that tests and benchmarks feed. Same model and seed: same values on every machine."""
import json
import os
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(HERE, "cache")


def load():
    with open(os.path.join(HERE, "manifest.json")) as f:
        return json.load(f)


def models(names=(), small=False):
    """Entries by name (all without names; only those marked ci if small). An unknown name is an error that lists the known ones."""
    entries = load()["models"]
    known = {m["name"]: m for m in entries}
    for n in names:
        if n not in known:
            raise SystemExit(f"no model named {n} in models/manifest.json; known: {' '.join(sorted(known))}")
    if names:
        return [known[n] for n in names]
    return [m for m in entries if m["ci"] or not small]


def path(entry):
    return os.path.join(CACHE, entry["name"] + ".onnx")


def input_infos(model):
    """[(name, numpy dtype, dims with None for free ones)] of an onnx.ModelProto, without initializers that are listed as inputs."""
    import onnx

    weights = {t.name for t in model.graph.initializer}
    infos = []
    for v in model.graph.input:
        if v.name in weights:
            continue
        t = v.type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in t.shape.dim]
        infos.append((v.name, onnx.helper.tensor_dtype_to_np_dtype(t.elem_type), dims))
    return infos


def shapes(entry, infos):
    """{input: dims} for the inputs with free dimensions, as the manifest gives them; a free dimension it does not give becomes 1."""
    given, out = entry["shapes"], {}
    for name, _, dims in infos:
        if None in dims:
            out[name] = given.get(name) or given.get("*") or [1 if d is None else d for d in dims]
    return out


def free_sizes(entry, count=5):
    """`count` values of the variables of a model with free sizes: all at their smallest, all at their largest, and between, out of step."""
    ranges = []
    for text in entry["free"]["vars"]:
        name, rest = text.rsplit("=", 1)
        span, _, multiple = rest.partition(":")
        low, high = map(int, span.split(".."))
        ranges.append((name, low, high, int(multiple or 1)))
    def between(i, k):
        name, low, high, multiple = ranges[i]
        part = (k + i * (1 if 0 < k < count - 1 else 0)) % count / (count - 1)
        return name, min(high, low + round((high - low) * part / multiple) * multiple)
    return [dict(between(i, k) for i in range(len(ranges))) for k in range(count)]


def free_dims(entry, model, sizes):
    """{input: dims} at these sizes, for the inputs with free dimensions."""
    named = {s.rsplit("=", 1)[0]: s.rsplit("=", 1)[1].split(",") for s in entry["free"].get("shapes", [])}
    out = {}
    for v in model.graph.input:
        dims = named.get(v.name) or [d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param for d in v.type.tensor_type.shape.dim]
        if any(isinstance(d, str) for d in dims):
            out[v.name] = [int(sizes.get(d, d)) if isinstance(d, str) else d for d in dims]
    return out


def make_inputs(entry, infos, seed=0):
    import numpy as np

    rules, fixed_shapes = load()["inputs"], shapes(entry, infos)
    feeds = {}
    for name, dtype, dims in infos:
        dims = fixed_shapes.get(name, dims)
        rng = np.random.default_rng(zlib.crc32(f"{entry['name']}:{name}:{seed}".encode()))
        how = rules["fixed"].get(f"{name}:{np.dtype(dtype).name}", rules["fixed"].get(name))
        if how == "ones":
            x = np.ones(dims)
        elif how == "causal":
            x = np.triu(np.full(dims, -1e9), 1)
        elif how == "positions":
            x = np.broadcast_to(np.arange(dims[-1]), dims)
        elif how is not None:
            x = np.full(dims, how)
        elif np.issubdtype(dtype, np.floating):
            x = rng.standard_normal(dims) * rules["scale"].get(f"{entry['name']}:{name}", 1.0)
        elif dtype == np.bool_:
            x = rng.integers(0, 2, dims)
        else:
            bounds = rules["integer_upper_bound"]
            x = rng.integers(0, bounds.get(f"{entry['name']}:{name}", bounds.get(name, bounds["*"])), dims)
        feeds[name] = np.array(x, dtype=dtype, order="C")
    return feeds


if __name__ == "__main__":
    # manifest.py MODEL: the --shape options that `tgaot compile` needs for it, one word a line.
    import sys

    import onnx

    e = models(sys.argv[1:2])[0]
    for n, dims in shapes(e, input_infos(onnx.load(path(e)))).items():
        print(f"--shape\n{n}={'x'.join(map(str, dims))}")
