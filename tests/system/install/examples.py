#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every C++ example of README.md and lib/weir.h against an installed Weir, without a warning, and runs the programs.

Usage: examples.py ROOT WORK FLAG...    ROOT: the tree; WORK: an existing folder for what is built; FLAG: of the compiler

A block with a main() is a program. Any other is the inside of a function that has a `client` and returns a weir::Status.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

PREAMBLE = """#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>
#include <weir/weir.h>
weir::Status example(weir::Client& client);
weir::Status example(weir::Client& client) {
"""


def blocks(text):
    """(line, code) of each block"""
    for match in re.finditer(r"^```cpp\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, match.start()) + 1, match[1]


def main():
    root, work = map(Path, sys.argv[1:3])
    compiler = [*os.environ.get("CXX", "g++").split(), "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    count = 0
    for path in ("README.md", "lib/weir.h"):
        text = (root / path).read_text()
        if path.endswith(".h"):
            text = re.sub(r"^/// ?", "", text, flags=re.M)
        for line, code in blocks(text):
            count += 1
            is_program = "int main(" in code
            source = work / f"example_{count}.cc"
            source.write_text(f'#line {line + 1} "{path}"\n{code}' if is_program else f"{PREAMBLE}#line {line + 1} \"{path}\"\n{code}\nreturn {{}};\n}}\n")
            program = source.with_suffix("")
            out = ["-o", str(program)] if is_program else ["-c", "-o", os.devnull]
            subprocess.run([*compiler, str(source), *out, *(sys.argv[3:] if is_program else [f for f in sys.argv[3:] if not f.startswith("-l")])], check=True)
            if is_program:
                subprocess.run([str(program)], check=True, timeout=60)
            print(f"ok {path}:{line}: {'runs' if is_program else 'compiles'}")
    return 0 if count >= 2 else f"only {count} examples found"


if __name__ == "__main__":
    sys.exit(main())
