# SPDX-License-Identifier: Apache-2.0
"""Runs every fuzz target for some seconds, starting from its seeds in tests/fuzz/corpus."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

from workshop import RUNTIME, Failure, Outcome


def each_for(seconds):
    """The phase that runs each target for that long."""
    return lambda shop: fuzz(shop, seconds)


def fuzz(shop, seconds):
    folder = shop.build("asan")
    names = sorted(path.stem for path in (shop.root / "tests/fuzz").glob("*_fuzz.cc"))
    if not names:
        raise Failure("tests/fuzz has no fuzz target (*_fuzz.cc)")
    with ThreadPoolExecutor(shop.jobs) as pool:
        failed = [name for name in pool.map(lambda name: run_target(shop, folder, name, seconds), names) if name]
    note = f"{seconds} s each: {', '.join(name.removesuffix('_fuzz') for name in names)}"
    return Outcome(passed=len(names) - len(failed), failed=len(failed), note=note)


def run_target(shop, folder, name, seconds):
    """The target's name if it failed, else None. Inputs that made it fail stay in the check folder."""
    work = shop.dir / "fuzz" / name
    shutil.rmtree(work, ignore_errors=True)
    (work / "corpus").mkdir(parents=True)
    command = [folder / "tests/fuzz" / name, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=3000", "-print_final_stats=1", f"-artifact_prefix={work}/", work / "corpus"]
    seeds = shop.root / "tests/fuzz/corpus" / name.removesuffix("_fuzz")
    if seeds.is_dir():
        command.append(seeds)
    with (work / "log").open("wb") as log:
        try:
            code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **RUNTIME}, timeout=seconds + 90, check=False).returncode
        except subprocess.TimeoutExpired:
            code = "no exit code in time"
        except OSError as error:
            code = error.strerror
    text = (work / "log").read_text(errors="replace") if (work / "log").exists() else ""
    shop.log(f"{name}: {'ok' if code == 0 else code}\n" + "\n".join(text.splitlines()[-12 if code == 0 else -60:]))
    return None if code == 0 else name
