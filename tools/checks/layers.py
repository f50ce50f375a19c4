#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refuses includes of higher layers, foreign headers outside of the folders that may use them, and folders of too many files.

Usage: layers.py [ROOT [--markdown]]; ROOT: by default the tree of this script"""

import re
import sys
from collections import Counter
from pathlib import Path

# A layer may include itself and the layers named here; no other layer. tests, bench and tools may include every layer.
LAYERS = {
    "lib/base": (),
    "lib/key": ("lib/base",),
    "lib/filter": ("lib/base", "lib/key"),
    "transport": ("lib/base",),
    "lib/ring": ("lib/base", "lib/key"),
    "lib/vclock": ("lib/base", "lib/key"),
    "lib/store": ("lib/base", "lib/key", "lib/filter", "lib/vclock"),
    "lib/checkpoint": ("lib/base", "lib/key", "lib/vclock", "lib/store"),
    "lib/wire": ("lib/base", "lib/key", "lib/filter", "lib/vclock", "lib/checkpoint"),
    "lib/consensus": ("lib/base", "transport"),
    "lib/task": ("lib/base",),
    "lib/bootstrap": ("lib/base", "transport"),
    "lib/node": ("lib/base", "lib/key", "transport", "lib/store", "lib/wire"),
    "lib/manager": ("lib/base", "lib/key", "transport", "lib/ring", "lib/vclock", "lib/store", "lib/checkpoint", "lib/wire", "lib/consensus", "lib/node"),
    "lib/replication": ("lib/base", "lib/key", "lib/filter", "transport", "lib/ring", "lib/vclock", "lib/store", "lib/wire", "lib/node"),
    "lib/server": (
        "lib/base", "lib/key", "lib/filter", "transport", "lib/ring", "lib/vclock", "lib/store", "lib/checkpoint", "lib/wire", "lib/task", "lib/node",
        "lib/replication",
    ),
    "lib/worker": ("lib/base", "lib/key", "lib/filter", "transport", "lib/ring", "lib/vclock", "lib/store", "lib/wire", "lib/task", "lib/node"),
    "lib/job": (
        "lib/base", "lib/key", "lib/filter", "transport", "lib/ring", "lib/vclock", "lib/store", "lib/checkpoint", "lib/wire", "lib/consensus", "lib/task", "lib/bootstrap", "lib/node", "lib/manager",
        "lib/replication", "lib/server", "lib/worker",
    ),
    "lib/train": ("lib/base", "lib/key", "transport", "lib/ring", "lib/vclock", "lib/store", "lib/wire", "lib/task", "lib/node", "lib/worker"),
    "lib/linalg": ("lib/base", "lib/key"),
    "lib/data": ("lib/base", "lib/key", "lib/linalg"),
    "lib": (
        "lib/base", "lib/key", "lib/filter", "transport", "lib/ring", "lib/vclock", "lib/store", "lib/checkpoint", "lib/wire", "lib/consensus", "lib/task", "lib/bootstrap", "lib/node", "lib/manager",
        "lib/replication", "lib/server", "lib/worker", "lib/job", "lib/train", "lib/linalg", "lib/data",
    ),  # the public headers; files in lib itself, not in a folder that is not listed
    "lib/apps": (
        "lib/base", "lib/key", "lib/filter", "transport", "lib/ring", "lib/vclock", "lib/store", "lib/checkpoint", "lib/wire", "lib/consensus", "lib/task", "lib/bootstrap", "lib/node", "lib/manager",
        "lib/replication", "lib/server", "lib/worker", "lib/job", "lib/train", "lib/linalg", "lib/data", "lib",
    ),
}
FILES_MAX = 32  # of a folder; above it, what belongs together gets a folder of its own
MADE = ("weir_features.h",)  # the build makes it; every layer may include it
# {prefix of a foreign header: prefixes of the paths of files that may include it}
VERBS = ("transport/verbs/", "tests/transport/verbs/")
OUTSIDE = {"Eigen/": ("lib/eigen.h", "bench/micro/linalg_bench.cc", "tests/linalg/eigen_test.cc"), "infiniband/": VERBS, "rdma/": VERBS, "pmix": ("lib/bootstrap/pmix.cc",), "benchmark/": ("bench/",), "raft.h": ("lib/consensus/libraft.h",),
    "snappy": ("lib/filter/compress.cc", "bench/micro/filter_bench.cc")}
FOREIGN = re.compile(r'^\s*#\s*include\s+[<"]((?:' + "|".join(OUTSIDE) + r')[^>"]*)[>"]', re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def layer_of(path):
    parent = path.rpartition("/")[0]
    if parent == "lib":
        return "lib"
    found = [name for name in LAYERS if name != "lib" and (parent + "/").startswith(name + "/")]
    return found[0] if found else None


def acyclic():
    done = set()
    for name, below in LAYERS.items():  # dict order is bottom to top
        assert set(below) <= done, f"{name}: list a layer after all it uses"
        done.add(name)


def in_words(below, above):
    missing = [name for name in above if name not in below]
    if len(above) > 4 and len(missing) < 3:
        return "all above" + (f" but {', '.join(missing)}" if missing else "")
    return ", ".join(below) or "-"


def sources(root, *folders):
    for path in sorted(p for top in folders for p in (root / top).rglob("*")):
        if path.suffix in (".h", ".cc"):
            yield path, path.relative_to(root).as_posix()


def crowded(root):
    counts = Counter(path.parent.relative_to(root).as_posix() for path, _ in sources(root, "lib", "transport", "tools", "bench", "tests"))
    for folder, count in sorted(counts.items()):
        if count > FILES_MAX:
            yield f"{folder}: {count} files, more than {FILES_MAX}: give what belongs together a folder"


def errors(root):
    for path, rel in sources(root, "lib", "transport", "tools", "bench", "tests"):
        for target in FOREIGN.findall(path.read_text()):
            places = next(places for start, places in OUTSIDE.items() if target.startswith(start))
            if not rel.startswith(places):
                yield f"{rel}: <{target}> is only for {' and '.join(places)}"
    for path, rel in sources(root, "lib", "transport"):
        here = layer_of(rel)
        if here is None:
            yield f"{rel}: in no layer"
            continue
        for target in INCLUDE.findall(path.read_text()):
            if target in MADE:
                continue
            there = layer_of(target)
            if there is None:
                yield f'{rel}: "{target}" is not a path from the root'
            elif there != here and there not in LAYERS[here]:
                yield f"{rel}: {here} may not include {there}"


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    acyclic()
    if "--markdown" in sys.argv:
        print("| layer | may use |\n| --- | --- |")
        above = []
        for name, below in LAYERS.items():
            print(f"| `{name}` | {in_words(below, above)} |")
            above.append(name)
        return 0
    found = [*errors(root), *crowded(root)]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
