"""Tables and means of what suite.py and micro.py measured."""
import math
import statistics

SHORT = {"onnxruntime": "onnxrt", "openvino_bf16": "ov bf16", "tgaot_plain": "BEAM=0"}


def geomean(values):
    values = list(values)
    return math.exp(statistics.fmean(math.log(v) for v in values)) if values else float("nan")


def good(row):
    return row is not None and "ms" in row and "wrong" not in row


def ratios(result, threads, peer):
    """tgaot's time over the peer's for each model that both ran right; peer 'best' is the fastest of all."""
    out = {}
    for name, model in result["models"].items():
        rows = model.get("threads", {}).get(str(threads), {})
        mine, others = rows.get("tgaot"), {k: r for k, r in rows.items() if not k.startswith("tgaot") and good(r)}
        if peer == "tgaot_plain" and good(rows.get(peer)):
            others = {peer: rows[peer]}
        if not good(mine) or not others or (peer != "best" and peer not in others):
            continue
        theirs = min(r["ms"] for r in others.values()) if peer == "best" else others[peer]["ms"]
        out[name] = mine["ms"] / theirs
    return out


def cell(row):
    if row is None:
        return "-"
    if "gap" in row:
        return "none"
    text = f"{row['ms']:.3g}" if row["ms"] < 100 else f"{row['ms']:.0f}"
    return text + ("!" if "wrong" in row else "")


def times_table(result, threads, names):
    what = "CPU time of a run" if threads == 1 else "wall time of a run"
    lines = [f"{threads} thread{'s' if threads > 1 else ''}, {what}, ms ('none': see the gaps; '!': wrong result); then tgaot's ratio to onnxruntime and to the "
             "best peer, below 1 is faster"]
    lines.append(f"{'model':26}" + "".join(f"{SHORT.get(n, n):>10}" for n in names) + f"{'/onnxrt':>9}{'/best':>7}  {'best':12}{'error':>8}")
    by_ort, by_best = ratios(result, threads, "onnxruntime"), ratios(result, threads, "best")
    for name, model in result["models"].items():
        if "failed" in model:
            lines.append(f"{name:26} {model['failed'][:140]}")
            continue
        rows = model["threads"].get(str(threads), {})
        others = {k: r["ms"] for k, r in rows.items() if not k.startswith("tgaot") and good(r)}
        best = min(others, key=others.get) if others else "-"
        e = (rows.get("tgaot") or {}).get("error")
        show = lambda d: f"{d[name]:.3f}" if name in d else "-"
        lines.append(f"{name:26}" + "".join(f"{cell(rows.get(n)):>10}" for n in names) + f"{show(by_ort):>9}{show(by_best):>7}  {SHORT.get(best, best):12}"
                     + (f"{e:8.0e}" if isinstance(e, float) else f" {e or '-'}"))
    for title, d in [("onnxruntime", by_ort), ("the best peer of each model", by_best)] + [
            (SHORT.get(n, n), ratios(result, threads, n)) for n in names if n not in ("tgaot", "onnxruntime")]:
        if d:
            worst = max(d, key=d.get)
            lines.append(f"geometric mean against {title}: {geomean(d.values()):.3f} of {len(d)} models; worst {worst} {d[worst]:.2f}")
    return "\n".join(lines)


def first_table(result, names):
    lines = ["load + first inference on one thread, ms, after the imports of a peer's process; 'process' is all of `tgb run`; then peak memory, MB: of "
             "`tgb run`, and of each peer's process with (without) what stood before the model was loaded"]
    lines.append(f"{'model':26}{'process':>9}" + "".join(f"{SHORT.get(n, n):>10}" for n in names) + f"{'tgb run':>10}" + "".join(
        f"{SHORT.get(n, n):>13}" for n in names if n != "tgaot") + f"{'compile s':>11}{'bundle MB':>10}")
    for name, model in result["models"].items():
        rows = model.get("threads", {}).get("1")
        if not rows:
            continue
        has = lambda n: rows.get(n) and "first_ms" in rows[n]
        line = f"{name:26}{model.get('process_ms', float('nan')):9.1f}" + "".join(f"{rows[n]['first_ms'] if has(n) else float('nan'):10.1f}" for n in names)
        line += f"{model.get('process_mb', float('nan')):10.1f}"
        for n in names:
            if n != "tgaot":
                line += f"{rows[n]['peak_mb']:7.0f}({rows[n]['peak_mb'] - rows[n]['base_mb']:4.0f})" if has(n) else f"{'-':>13}"
        lines.append(line + f"{model['compile_s']:11.2f}{model['bundle_mb']:10.1f}")
    return "\n".join(lines)


def kernel_table(result, machine, most, kind):
    """The costliest kernels of each model and what share of the machine's peaks they reach."""
    lines = [f"kernels, one thread: the {most} costliest of each model; with the shares of the machine's peaks: {kind} multiply-adds, memory"]
    for name, model in result["models"].items():
        kernels = (model.get("threads", {}).get("1", {}).get("tgaot") or {}).get("kernels")
        if not kernels or not machine.peaks:
            continue
        total = sum(k[1] for k in kernels)
        shares = [(*k, *machine.shares(k[1], k[2], k[3], kind)) for k in kernels]
        weighted = sum(k[1] * k[4] for k in shares) / max(1, total)
        lines.append(f"{name}: {len(kernels)} kernels, {total * 1e-6:.3f} ms, {sum(k[2] for k in kernels) / max(1, total):.1f} GFLOP/s, {weighted:.1f}% of the peak by time")
        for k in sorted(shares, key=lambda k: -k[1])[:most]:
            lines.append(f"  {k[1] * 1e-3:9.1f} us {100 * k[1] / total:5.1f}%  {k[2] / k[1]:7.1f} GFLOP/s {k[4]:5.1f}%  {k[3] / k[1]:6.1f} GB/s {k[5]:5.1f}%  {k[0]}")
    return "\n".join(lines)


def gaps(result):
    """One line a reason, with the models that it concerns."""
    seen = {}
    for name, model in result["models"].items():
        for threads, rows in model.get("threads", {}).items():
            for peer, row in rows.items():
                why = row.get("gap") or (f"wrong result: {row['wrong']}" if "wrong" in row else None)
                if why:
                    seen.setdefault((peer, why), []).append(f"{name}@{threads}")
    return "\n".join(f"gap: {peer}: {why}: {' '.join(where)}" for (peer, why), where in sorted(seen.items()))
