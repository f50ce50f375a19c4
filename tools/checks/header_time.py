#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a file with only <weir/weir.h> compiles, beside one with the standard headers that its headers include.

Usage: header_time.py [ROUNDS]    ROUNDS: 15

Compiles both in turns (with $CXX, or g++) and prints the least processor time of each (other load only adds to it) and their ratio, at most 1.3.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from public_headers import installed_texts, public_headers, write

RATIO_MAX = 1.3
INCLUDE = re.compile(r"^#include <([^>]+)>", re.M)


def standard_headers(include):
    """All that weir.h includes, directly or through others of Weir's headers, and that are not Weir's."""
    todo, seen, standard = ["weir/weir.h"], set(), set()
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        text = (include / path).read_text()
        todo += re.findall(r'^#include "([^"]+)"', text, re.M)
        standard.update(INCLUDE.findall(text))
    return sorted(standard)


def processor_seconds(source, include):
    compiler = [*os.environ.get("CXX", "g++").split(), "-std=c++20", "-O2", "-c", "-x", "c++", "-", "-o", "/dev/null", "-I", include]
    with subprocess.Popen(compiler, stdin=subprocess.PIPE, text=True) as process:
        process.stdin.write(source)
        process.stdin.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit("it does not compile")
    return used.ru_utime + used.ru_stime


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    root = Path(__file__).resolve().parents[2]
    times = [[], []]
    with tempfile.TemporaryDirectory(prefix="weir-headers-") as include:
        write(installed_texts(root, public_headers(root)[0])[0], Path(include))
        headers = standard_headers(Path(include))
        sources = ["#include <weir/weir.h>\n", "".join(f"#include <{header}>\n" for header in headers)]
        for _ in range(rounds):
            for source, its in zip(sources, times):
                its.append(processor_seconds(source, include))
    weir, standard = (min(its) for its in times)
    ratio = weir / standard
    print(f"weir.h {weir:.3f} s, its {len(headers)} standard headers {standard:.3f} s: {ratio:.2f} times, at most {RATIO_MAX} ({', '.join(headers)})")
    return 1 if ratio > RATIO_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
