#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public headers, and all that they include.

lib/weir.h is installed as <weir/weir.h>, lib/job/job.h, which users read, as <weir/job/job.h>, and lib/base/check.h, which only the
others need, as <weir/detail/base/check.h>. They include each other by these names, so never a user's own lib/base/check.h.

Usage: public_headers.py [ROOT]                   checks them and prints their paths; ROOT: by default the tree of this script
       public_headers.py ROOT --install FOLDER    writes them into FOLDER, below the prefix (meson runs this)
       public_headers.py ROOT --write FOLDER STAMP DEPFILE
                                                  writes them into FOLDER, for a project that has this one as a subproject (the same)
       public_headers.py ROOT --compile INCLUDE   compiles each of them alone, as installed below INCLUDE (with $CXX, or g++)
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PLUGIN = "lib/store/plugins/weir_plugin.h"  # in C
EIGEN = "lib/eigen.h"  # for programs that have Eigen
ENTRIES = ("lib/weir.h", "lib/rules.h", "lib/filters.h", "lib/config.h", "lib/linalg.h", EIGEN, PLUGIN)  # what programs and plugins include
# What users read: the interface, as versions promise it to each other. All else that these include is in weir/detail/.
PUBLIC = (
    *ENTRIES, "lib/base/config.h", "lib/base/config_variables.h", "lib/base/log_sink.h", "lib/base/result.h", "lib/base/version.h", "lib/data/labelled_rows.h",
    "lib/filter/filters.h",
    "lib/filter/select/held_back.h", "lib/filter/select/round_form.h", "lib/filter/select/selector.h", "lib/job/job.h", "lib/key/call_keys.h",
    "lib/key/key_batch.h", "lib/key/key_range.h", "lib/key/key_span.h", "lib/key/narrow_float.h", "lib/key/value_type.h",
    "lib/linalg/sparse.h", "lib/linalg/threads.h", "lib/linalg/vector_expression.h", "lib/linalg/vectors.h", "lib/store/rules/combine_as.h",
    "lib/store/rules/rule.h", "lib/store/rules/rule_parameters.h", "lib/store/rules/rule_registry.h", "lib/store/rules/rules.h", "lib/store/table_schema.h",
    "lib/task/consistency.h", "lib/task/task_id.h", "lib/train/sweep.h", "lib/train/sweep_plan.h", "lib/wire/filter_traffic.h", "lib/wire/on_worker_loss.h", "lib/wire/work_share.h", "lib/worker/client.h",
    "lib/worker/iterations.h", "lib/worker/job_event.h", "lib/worker/scan.h", "lib/worker/table.h",
)
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def public_headers(root):
    """(paths from the root, what is wrong with them)"""
    todo = list(ENTRIES)
    found, problems = [], []
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
            elif "/" in target and not target.startswith("sys/") and not (path == EIGEN and target.startswith("Eigen/")):
                problems.append(f"{path}: <{target}> would make every user of the library install that too")
    problems += [f"{path} is said to be public, and no public header includes it" for path in PUBLIC if path not in found]
    return sorted(found), problems


def installed_path(path):
    """lib/job/job.h -> weir/job/job.h, lib/base/check.h -> weir/detail/base/check.h"""
    if path == PLUGIN:
        return "weir/weir_plugin.h"
    return ("weir/" if path in PUBLIC else "weir/detail/") + path.removeprefix("lib/")


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


def write(texts, folder):
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if not (folder / path).exists() or (folder / path).read_text() != text:  # else all that includes it is compiled again
            (folder / path).write_text(text)


def compile_alone(include, found):
    """The compiler's errors for each installed header alone; its include path has nothing of the tree but `include`."""
    compiler = os.environ.get("CXX", "g++").split()
    c_compiler = os.environ.get("CC", "cc").split()
    flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", include]
    eigen = subprocess.run(["pkg-config", "--cflags", "eigen3"], capture_output=True, text=True, check=False)
    flags += [flag.replace("-I", "-isystem", 1) for flag in eigen.stdout.split()]
    if eigen.returncode:
        found = [path for path in found if path != EIGEN]
    cpp = [[*compiler, "-std=c++20", *flags, "-x", "c++", "-"]]
    old = [[*c_compiler, "-std=c99", *flags, "-x", "c", "-"], [*compiler, "-std=c++11", *flags, "-x", "c++", "-"]]

    def compile_one(path):
        source = f'#include "{path}"\n#include "{path}"\n'
        for command in cpp + old if path == installed_path(PLUGIN) else cpp:
            done = subprocess.run(command, input=source, text=True, capture_output=True, cwd="/", check=False)
            if done.returncode:
                return f"{path} does not compile alone:\n{done.stderr}"
        return None

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
        write(texts, Path(os.environ["MESON_INSTALL_DESTDIR_PREFIX"]) / sys.argv[sys.argv.index("--install") + 1])
    if "--write" in sys.argv:
        folder, stamp, depfile = sys.argv[sys.argv.index("--write") + 1 :]
        write(texts, Path(folder))
        Path(stamp).write_text("// Weir's headers are written\n")
        Path(depfile).write_text(f"{stamp}: {' '.join(str(root / path) for path in found)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
