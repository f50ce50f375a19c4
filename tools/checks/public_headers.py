#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public headers: lib/weir.h, lib/weir_c.h, and all that they include.

lib/weir.h is installed as <weir/weir.h> and lib/base/log.h as <weir/base/log.h>, and they include each other by these names. So
they never include a user's own lib/base/log.h.

Usage: public_headers.py [ROOT]                   checks them and prints their paths; ROOT: by default the tree of this script
       public_headers.py ROOT --install FOLDER    writes them into FOLDER, below the prefix (meson runs this)
       public_headers.py ROOT --compile INCLUDE   compiles each of them alone, as installed below INCLUDE (with $CXX, or g++)
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ENTRIES = ("lib/weir.h", "lib/weir_c.h")
# The only foreign headers that a user of the installed library needs. The pkg-config file names their packages.
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


def installed_path(path):
    """lib/base/log.h -> weir/base/log.h, transport/x.h -> weir/transport/x.h"""
    return "weir/" + path.removeprefix("lib/")


def installed_texts(root, found):
    """(path below the include folder -> text, what is wrong): every path of a header in them is the installed one."""
    texts, problems = {}, []
    paths = re.compile(r"(?<![\w/])(" + "|".join(map(re.escape, sorted(found, key=len, reverse=True))) + r")(?!\w)")
    for path in found:
        text = paths.sub(lambda match: installed_path(match[1]), (root / path).read_text())
        for line in text.splitlines():
            if re.search(r"(?<![\w/])(lib|transport)/", line):
                problems.append(f"{path}: what is installed cannot refer to the tree: {line.strip()}")
        if installed_path(path) in texts:
            problems.append(f"{path}: two headers would be installed as {installed_path(path)}")
        texts[installed_path(path)] = text
    return texts, problems


def compile_alone(include, found):
    """The compiler's errors for each installed header alone; its include path has nothing of the tree but `include`."""
    compiler = os.environ.get("CXX", "g++").split()
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", include, "-x", "c++", "-"]

    def compile_one(path):
        source = f'#include "{path}"\n#include "{path}"\n'
        done = subprocess.run(compiler + flags, input=source, text=True, capture_output=True, cwd="/", check=False)
        return f"{path} does not compile alone:\n{done.stderr}" if done.returncode else None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [problem for problem in pool.map(compile_one, map(installed_path, found)) if problem]


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    found, problems = public_headers(root)
    texts, more = installed_texts(root, found)
    problems += more
    if "--compile" in sys.argv and not problems:
        problems = compile_alone(os.path.abspath(sys.argv[sys.argv.index("--compile") + 1]), found)
    print("\n".join(problems or found))
    if problems:
        return 1
    if "--install" in sys.argv:
        target = Path(os.environ["MESON_INSTALL_DESTDIR_PREFIX"]) / sys.argv[sys.argv.index("--install") + 1]
        for path, text in texts.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
