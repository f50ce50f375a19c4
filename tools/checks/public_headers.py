#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public headers: lib/weir.h, lib/weir_c.h, and all that they include.

Usage: public_headers.py ROOT                   checks them and prints their paths
       public_headers.py ROOT --install FOLDER  copies them too, below the prefix (meson runs this)
"""

import os
import re
import shutil
import sys
from pathlib import Path

ENTRIES = ("lib/weir.h", "lib/weir_c.h")
# Of other people's headers, a user of the installed library needs these only; the pkg-config file names them.
FOREIGN = ("fmt/",)
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def public_headers(root):
    """(paths from the root, what is wrong with them)"""
    todo = [entry for entry in ENTRIES if (root / entry).exists()]
    found, problems = [], []
    if "lib/weir.h" not in todo:
        problems.append("lib/weir.h is missing")
    while todo:
        path = todo.pop()
        if path in found:
            continue
        found.append(path)
        for mark, target in INCLUDE.findall((root / path).read_text()):
            if mark == '"':
                if (root / target).exists():
                    todo.append(target)
                else:
                    problems.append(f'{path}: "{target}" is not a file of the project, so it cannot be installed')
            elif "/" in target and not target.startswith(("sys/", *FOREIGN)):
                problems.append(f"{path}: <{target}> would make every user of the library install that too")
    return sorted(found), problems


def main():
    root = Path(sys.argv[1])
    found, problems = public_headers(root)
    print("\n".join(problems or found))
    if problems:
        return 1
    if "--install" in sys.argv:
        target = Path(os.environ["MESON_INSTALL_DESTDIR_PREFIX"]) / sys.argv[sys.argv.index("--install") + 1]
        for path in found:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, target / path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
