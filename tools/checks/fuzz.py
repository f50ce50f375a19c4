# SPDX-License-Identifier: Apache-2.0
"""Runs every fuzz target, starting from its seeds in tests/fuzz/corpus."""

import shutil
from concurrent.futures import ThreadPoolExecutor

from workshop import Failure, Outcome


RUNS = 5000  # of each target beside its corpus


def with_corpus(shop):
    """Whether each target still takes its corpus, and inputs that are made of it. Only the target itself is looked at for coverage."""
    return fuzz(shop, "asan", [f"-runs={RUNS}", "-seed=1"], f"corpus and {RUNS} runs of")


def each_for(seconds):
    """The phase that runs each target for that long."""
    return lambda shop: fuzz(shop, "fuzz", [f"-max_total_time={seconds}", "-print_final_stats=1"], f"{seconds} s each:")


def fuzz(shop, build, flags, note):
    folder = shop.build(build)
    names = sorted(path.stem for path in (shop.root / "tests/fuzz").glob("*_fuzz.cc"))
    if not names:
        raise Failure("tests/fuzz has no fuzz target (*_fuzz.cc)")
    with ThreadPoolExecutor(shop.jobs) as pool:
        failed = [name for name in pool.map(lambda name: run_target(shop, folder, name, flags), names) if name]
    note = f"{note} {', '.join(name.removesuffix('_fuzz') for name in names)}"
    return Outcome(passed=len(names) - len(failed), failed=len(failed), note=note)


def run_target(shop, folder, name, flags):
    """The target's name if it failed, else None. Inputs that made it fail stay in the check folder."""
    work = shop.dir / "fuzz" / name
    shutil.rmtree(work, ignore_errors=True)
    (work / "corpus").mkdir(parents=True)
    command = [folder / "tests/fuzz" / name, *flags, "-timeout=120", "-rss_limit_mb=3000", f"-artifact_prefix={work}/", work / "corpus"]
    seeds = shop.root / "tests/fuzz/corpus" / name.removesuffix("_fuzz")
    if seeds.is_dir():
        command.append(seeds)
    code, output = shop.output_of(command)
    shop.log(f"{name}: {'ok' if code == 0 else code}\n" + "\n".join(output.splitlines()[-12 if code == 0 else -60:]))
    return None if code == 0 else name
