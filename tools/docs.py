"""Writes the table of operators in compiler/frontend/README.md from `tgaot ops`: docs.py [--check] [--build DIR]

--check: writes nothing; exit code 1 if the table in the document is not what the program says.
"""
import argparse
import collections
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENT = os.path.join(ROOT, "compiler", "frontend", "README.md")
BEGIN, END = "<!-- operators: written by tools/docs.py -->", "<!-- end of operators -->"


def rows(build):
    """(domain, name, since, family, reason or None) of each row."""
    out = subprocess.run([os.path.join(build, "tools", "tgaot"), "ops"], check=True, capture_output=True, text=True).stdout.splitlines()
    for line in out[1:-1]:
        m = re.fullmatch(r"(?:(\S+)::)?(\S+) +(\d+)  (\S+) *(?:refused: (.*))?", line)
        if not m:
            raise SystemExit(f"tools/docs.py: a line of `tgaot ops` is not understood: {line}")
        yield m[1] or "ai.onnx", m[2], int(m[3]), m[4], m[5]


def table(build):
    built, refused = {}, {}
    for domain, name, since, family, reason in rows(build):
        if reason is None:
            built.setdefault((domain, family), collections.defaultdict(list))[name].append(since)
        else:
            full = name if domain == "ai.onnx" else f"{domain}::{name}"
            refused.setdefault(reason, []).append(f"{full} {since}")
    lines = ["| domain | family | operators, with the opset of each row |", "|---|---|---|"]
    for (domain, family), ops in built.items():
        lines.append(f"| {domain} | {family} | " + ", ".join(f"{n} {' '.join(map(str, s))}" for n, s in ops.items()) + " |")
    lines += ["", "| refused, because | operators |", "|---|---|"]
    lines += [f"| {reason} | {', '.join(names)} |" for reason, names in refused.items()]
    return "\n".join(lines)


def by_opset(build):
    """A line for each opset: how many of ONNX's operators are built, and the others by name."""
    import onnx.defs

    known = {}
    for domain, name, since, _, reason in rows(build):
        known.setdefault((domain, name), []).append((since, reason))
    lines = ["| opset | operators of ai.onnx | built | not built |", "|---|---|---|---|"]
    last = None
    for opset in range(1, onnx.defs.onnx_opset_version() + 1):
        newest = {}
        for s in onnx.defs.get_all_schemas_with_history():
            if s.domain == "" and s.since_version <= opset and s.since_version > newest.get(s.name, (0,))[0]:
                newest[s.name] = s.since_version, s.deprecated
        names = sorted(n for n, (_, deprecated) in newest.items() if not deprecated)
        rows_of = {n: [r for r in known.get(("ai.onnx", n), []) if r[0] <= opset] for n in names}
        missing = [n for n in names if not rows_of[n] or max(rows_of[n])[1] is not None]
        line = f"{len(names)} | {len(names) - len(missing)} | {', '.join(missing)} |"
        if line == last:
            lines[-1] = f"| {lines[-1].split(' |')[0][2:].split(' to ')[0]} to {opset} | {line}"
        else:
            lines.append(f"| {opset} | {line}")
        last = line
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    args = parser.parse_args()
    with open(DOCUMENT) as f:
        old = f.read()
    if old.count(BEGIN) != 1 or old.count(END) != 1:
        raise SystemExit(f"{DOCUMENT}: the lines {BEGIN} and {END} are missing")
    before, rest = old.split(BEGIN)
    new = before + BEGIN + "\n" + table(args.build) + "\n\n" + by_opset(args.build) + "\n" + END + rest.split(END)[1]
    if new == old:
        return
    if args.check:
        sys.exit("compiler/frontend/README.md: the table of operators is not that of `tgaot ops`; run: tools/docs.py")
    with open(DOCUMENT, "w") as f:
        f.write(new)


main()
