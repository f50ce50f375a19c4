# SPDX-License-Identifier: Apache-2.0
"""Runs every fuzz target, starting from its seeds in tests/fuzz/corpus."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

from workshop import RUNTIME, Failure, Outcome


RUNS = 5000  # of each target beside its corpus


def with_corpus(shop):
    """Whether each target still takes its corpus, and inputs that are made of it. Only the target itself is looked at for coverage."""
    return fuzz(shop, "asan", [f"-runs={RUNS}", "-seed=1"], 60, f"corpus and {RUNS} runs of")


def each_for(seconds):
    """The phase that runs each target for that long."""
    return lambda shop: fuzz(shop, "fuzz", [f"-max_total_time={seconds}", "-print_final_stats=1"], seconds + 90, f"{seconds} s each:")


def fuzz(shop, build, flags, limit_s, note):
    folder = shop.build(build)
    names = sorted(path.stem for path in (shop.root / "tests/fuzz").glob("*_fuzz.cc"))
    if not names:
        raise Failure("tests/fuzz has no fuzz target (*_fuzz.cc)")
    with ThreadPoolExecutor(shop.jobs) as pool:
        failed = [name for name in pool.map(lambda name: run_target(shop, folder, name, flags, limit_s), names) if name]
    note = f"{note} {', '.join(name.removesuffix('_fuzz') for name in names)}"
    return Outcome(passed=len(names) - len(failed), failed=len(failed), note=note)


def run_target(shop, folder, name, flags, limit_s):
    """The target's name if it failed, else None. Inputs that made it fail stay in the check folder."""
    work = shop.dir / "fuzz" / name
    shutil.rmtree(work, ignore_errors=True)
    (work / "corpus").mkdir(parents=True)
    command = [folder / "tests/fuzz" / name, *flags, "-timeout=10", "-rss_limit_mb=3000", f"-artifact_prefix={work}/", work / "corpus"]
    seeds = shop.root / "tests/fuzz/corpus" / name.removesuffix("_fuzz")
    if seeds.is_dir():
        command.append(seeds)
    with (work / "log").open("wb") as log:
        try:
            code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **RUNTIME}, timeout=limit_s, check=False).returncode
        except subprocess.TimeoutExpired:
            code = "no exit code in time"
        except OSError as error:
            code = error.strerror
    text = (work / "log").read_text(errors="replace") if (work / "log").exists() else ""
    shop.log(f"{name}: {'ok' if code == 0 else code}\n" + "\n".join(text.splitlines()[-12 if code == 0 else -60:]))
    return None if code == 0 else name
