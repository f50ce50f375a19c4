# SPDX-License-Identifier: Apache-2.0
"""The phases of tools/check, in the order in which they run."""

import sys
from dataclasses import dataclass
from typing import Callable

import fuzz
import markers
import per_file
from suites import run_suite
from workshop import THREADED, Outcome

SOURCES = ("lib/", "transport/", "meson.build", "meson_options.txt", "subprojects/")
# Phases that build and run tests depend on these paths: the sources, and the checks themselves.
TESTED = (*SOURCES, "tests/", "bench/", "tools/")

# When a phase runs: in each tools/check, only with --all, or only when it is named.
ALWAYS, WITH_ALL, NAMED = "always", "with --all", "when named"


@dataclass
class Phase:
    name: str
    about: str
    function: Callable
    watches: tuple = ()  # prefixes of the paths that the phase depends on; none: it runs every time
    build: str = ""  # the entry of BUILDS that the phase needs
    runs: str = ALWAYS


def install(shop):
    shop.run([shop.root / "tools/install-deps"], seconds=1800)
    skipped = [line for line in shop.log_file().read_text().splitlines() if "optional package" in line]
    return Outcome(passed=1, note="; ".join(skipped))


def layers(shop):
    shop.run([sys.executable, "tools/checks/layers.py", "."])
    return Outcome(passed=1)


def public_headers(shop):
    shop.run([sys.executable, "tools/checks/public_headers.py", "."])
    return Outcome(passed=1)


def built(name):
    def build(shop):
        shop.build(name)
        return Outcome(passed=1)

    return build


def suite(name, processes, env=None):
    return lambda shop: run_suite(shop, "release", [name], processes, env=env)


# Sanitized programs are slow: fewer cycles of connect and close, and a quarter of the histories.
SLOW = {"WEIR_CONFORMANCE_CYCLES": "200", "WEIR_HISTORIES_SHARE": "0.25"}
# All histories that once were in each check. tools/checks/planted says how many a fault needs.
MANY = {"WEIR_HISTORIES_SHARE": "4"}


def asan(shop):
    return run_suite(shop, "asan", ["unit", "conformance"], 2, multiplier=6, seconds=1200, env=SLOW)


def asan_system(shop):
    # Forked processes and killed ranks leave nothing to look for leaks in; each program by itself is looked at.
    return run_suite(shop, "asan-system", ["system", "system-long"], 2, multiplier=5, seconds=1800, env={"WEIR_TEST_SANITIZED": "1"})


def tsan(shop):
    return run_suite(shop, "tsan", ["unit", "conformance"], 2, multiplier=10, seconds=1200, env=SLOW, names=THREADED)


def planted(shop):
    code = shop.run([shop.root / "tools/checks/planted", "--folder", shop.dir / "planted"], seconds=3600, check=False)
    lines = shop.log_file().read_text(errors="replace").splitlines()
    found = sum("): found" in line for line in lines)
    missed = [line for line in lines if "): NOT found" in line]
    return Outcome(passed=found, failed=max(1, len(missed)) if code else 0, note="; ".join(missed))


def benches(shop):
    return run_suite(shop, "release", ["bench"], 1)


def speed(shop):
    """Never fails because the machine is slow; rows that got worse, and what is slower than promised, stand in the note."""
    folder = shop.build("release")
    code = shop.run([shop.root / "tools/checks/speed", "--weir", folder / "tools/weir", "--built", folder], seconds=2400, check=False)
    lines = shop.log_file().read_text(errors="replace").splitlines()
    found = [" ".join(line.split()) for line in lines if line.startswith(("worse ", "slow ", "new ", "note:"))]
    last = lines[-1] if code == 0 else f"information only, nothing was compared: {lines[-1]}"
    return Outcome(passed=1, note="; ".join([last, *found]))


def installed(shop):
    folder = shop.build("release")
    shop.run(["meson", "install", "-C", folder, "--no-rebuild", "--quiet"])
    shop.run([shop.root / "tests/system/install/run", shop.dir / "installed", shop.dir / "trainer"])
    return Outcome(passed=2, note="a trainer built with pkg-config and one with CMake")


def rxe(shop):
    folder = shop.build("release")
    code = shop.run([shop.root / "tests/rxe/run", "--build", folder, "--out", shop.dir / "rxe"], seconds=1500, check=False)
    lines = shop.log_file().read_text(errors="replace").splitlines()
    passed = sum(line.startswith("ok ") for line in lines)
    failed = sum(line.startswith("not ok ") for line in lines)
    return Outcome(passed=passed, failed=max(failed, 1) if code != 0 else failed)


PHASES = {
    phase.name: phase
    for phase in (
        Phase("install", "Debian packages that are missing", install),
        Phase("layers", "no file includes headers of a higher layer", layers),
        Phase("public", "installed headers include installed headers only", public_headers),
        Phase("readme", "the README's layer table and links", markers.check),
        Phase("format", "clang-format", per_file.clang_format),
        Phase("release", "g++, optimised, warnings are errors", built("release"), build="release"),
        Phase("unit", "unit tests, and histories of whole clusters on simulated time", suite("unit", 2), build="release"),
        Phase("conformance", "one suite over every transport", suite("conformance", 1), build="release"),
        Phase("system", "whole programs", suite("system", 2), build="release"),
        Phase("installed", "meson install; trainers built against it", installed, build="release"),
        Phase("asan", "clang with ASan and UBSan: unit tests, conformance", asan, TESTED, build="asan"),
        Phase("corpus", "each fuzz target with its corpus, and some inputs more", fuzz.with_corpus, TESTED, build="asan"),
        Phase("tsan", "clang with TSan, without optional parts: tests of threads, of whole jobs, and of what stands in for these parts", tsan, TESTED, build="tsan"),
        Phase("headers", "every header compiles alone", per_file.headers_alone, build="release", runs=WITH_ALL),
        Phase("tidy", "clang-tidy on the library", per_file.clang_tidy, build="release", runs=WITH_ALL),
        Phase("launchers", "mpirun, srun and mpiexec", suite("launchers", 2), build="release", runs=WITH_ALL),
        Phase("system-long", "whole programs that wait for limits, or are killed many times", suite("system-long", 2), build="release", runs=WITH_ALL),
        Phase("histories", "four times as many histories", suite("unit", 2, MANY), TESTED, build="release", runs=WITH_ALL),
        Phase("asan-system", "whole programs, built with ASan and UBSan", asan_system, TESTED, build="asan-system", runs=WITH_ALL),
        Phase("fuzz", "30 s of each fuzz target, guided by coverage", fuzz.each_for(30), TESTED, build="fuzz", runs=WITH_ALL),
        Phase("bench", "every benchmark briefly", benches, TESTED, build="release", runs=WITH_ALL),
        Phase("speed", "ratios to the limits beside recorded ones (information)", speed, TESTED, build="release", runs=WITH_ALL),
        Phase("rxe", "real verbs on soft-RoCE in guests", rxe, TESTED, build="release", runs=WITH_ALL),
        Phase("planted", "one broken rule at a time, and whether the histories find it", planted, TESTED, runs=WITH_ALL),
        Phase("analyze", "clang's static analyzer on the library", per_file.analyze, build="release", runs=NAMED),
    )
}
QUICK = ["layers", "format", "release", "unit"]
