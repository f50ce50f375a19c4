#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a file with only <weir/weir.h> compiles, beside one with the standard headers that its headers include.

Usage: header_time.py INCLUDE [ROUNDS]    INCLUDE: where Weir's headers are installed (prefix/include); ROUNDS: 15

Compiles both in turns (with $CXX, or g++) and prints the medians of the processor time and their ratio.
"""

import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

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


def processor_seconds(source):
    compiler = [*os.environ.get("CXX", "g++").split(), "-std=c++20", "-O2", "-c", "-x", "c++", "-", "-o", "/dev/null", "-I", sys.argv[1]]
    with subprocess.Popen(compiler, stdin=subprocess.PIPE, text=True) as process:
        process.stdin.write(source)
        process.stdin.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit("it does not compile")
    return used.ru_utime + used.ru_stime


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    headers = standard_headers(Path(sys.argv[1]))
    sources = ["#include <weir/weir.h>\n", "".join(f"#include <{header}>\n" for header in headers)]
    times = [[], []]
    for _ in range(rounds):
        for source, its in zip(sources, times):
            its.append(processor_seconds(source))
    weir, standard = (statistics.median(its) for its in times)
    print(f"weir.h {weir:.3f} s, its {len(headers)} standard headers {standard:.3f} s: {weir / standard:.2f} times ({', '.join(headers)})")


if __name__ == "__main__":
    main()
