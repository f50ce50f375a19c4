#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Meson project that has Weir in subprojects/weir: dependency('weir') gives it the headers and the library, and its trainer runs.

Usage: subproject_test.py
"""

import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = """project('theirs', 'cpp', version: '7', default_options: ['cpp_std=c++20', 'buildtype=plain', 'unity=on', 'unity_size=24'])
executable('trainer', 'trainer.cc', dependencies: dependency('weir', version: '>=0.1', fallback: 'weir'))
"""


def run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}:\n{done.stdout[-8000:]}")
    return done.stdout


def main():
    with tempfile.TemporaryDirectory(prefix="weir-subproject-") as folder:
        project, build = Path(folder), Path(folder) / "build"
        (project / "meson.build").write_text(PROJECT)
        (project / "trainer.cc").write_text((ROOT / "tests/system/install/trainer.cc").read_text())
        (project / "subprojects").mkdir()
        (project / "subprojects/weir").symlink_to(ROOT)
        run("meson", "setup", str(build), str(project))
        run("ninja", "-C", str(build), "-j", str(min(2, os.cpu_count() or 1)))
        said = run(str(build / "trainer"))
        if said.count(" learned 3.0000 a -2.0000 b +1.0000") != 2:
            raise SystemExit(f"the trainer says: {said}")
        headers = sorted(path.name for path in build.rglob("weir.h"))
        if headers != ["weir.h"]:
            raise SystemExit(f"weir.h is there {len(headers)} times")
        others = [path.name for path in build.rglob("*") if path.name in ("weir", "job_test", "micro_bench") and path.is_file()]
        if others:
            raise SystemExit(f"the project builds {', '.join(others)} of Weir, too")
    print("ok")


if __name__ == "__main__":
    main()
