# SPDX-License-Identifier: Apache-2.0
"""The phases of tools/check, in the order in which they run."""

import shutil
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

# When a phase runs: in each tools/check, or only with --all.
ALWAYS, WITH_ALL = "always", "with --all"


@dataclass
class Phase:
    name: str
    about: str  # what it is for
    function: Callable
    watches: tuple = ()  # prefixes of the paths that the phase depends on; none: it runs every time
    build: str = ""  # the entry of BUILDS that the phase needs
    runs: str = ALWAYS
    found: str = ""  # faults of the product that nothing before it found


def install(shop):
    shop.run([shop.root / "tools/install-deps"])
    skipped = [line for line in shop.log_file().read_text().splitlines() if "optional package" in line]
    return Outcome(passed=1, note="; ".join(skipped))


def layers(shop):
    shop.run([sys.executable, "tools/checks/layers.py", "."])
    return Outcome(passed=1)


def public_headers(shop):
    shop.run([sys.executable, "tools/checks/public_headers.py", "."])
    return Outcome(passed=1)


def header_time(shop):
    code = shop.run([sys.executable, "tools/checks/header_time.py"], check=False)
    says = shop.log_file().read_text(errors="replace").splitlines()[-1].partition(" (")[0]
    return Outcome(passed=int(code == 0), failed=int(code != 0), note=says)


def built(name):
    def build(shop):
        shop.build(name)
        return Outcome(passed=1)

    return build


def suite(name, processes, env=None, names=()):
    return lambda shop: run_suite(shop, "release", [name], processes, env=env, names=names)


# Sanitized programs are slow: fewer cycles of connect and close, and a tenth of the histories.
SLOW = {"WEIR_CONFORMANCE_CYCLES": "200", "WEIR_HISTORIES_SHARE": "0.1"}
# tools/checks/planted says how many a fault needs.
HISTORIES = ("histories", "manager", "server", "consensus")
MANY = {"WEIR_HISTORIES_SHARE": "5"}


def asan(shop):
    return run_suite(shop, "asan", ["unit", "conformance"], 2, multiplier=15, env=SLOW)


def asan_system(shop):
    # Forked processes and killed ranks leave nothing to look for leaks in; each program by itself is looked at.
    return run_suite(shop, "asan-system", ["system", "system-long"], 2, multiplier=15, env={"WEIR_TEST_SANITIZED": "1"})


def tsan(shop):
    return run_suite(shop, "tsan", ["unit", "conformance"], 2, multiplier=20, env=SLOW, names=THREADED)


def planted(shop):
    code = shop.run([shop.root / "tools/checks/planted", "--folder", shop.dir / "planted"], check=False)
    lines = shop.log_file().read_text(errors="replace").splitlines()
    found = sum("): found" in line for line in lines)
    missed = [line for line in lines if "): NOT found" in line]
    return Outcome(passed=found, failed=max(1, len(missed)) if code else 0, note="; ".join(missed))


def benches(shop):
    return run_suite(shop, "release", ["bench"], 1)


def speed(shop):
    """Never fails because the machine is slow; rows that got worse, and what is slower than promised, stand in the note."""
    folder = shop.build("release")
    code = shop.run([shop.root / "tools/checks/speed", "--weir", folder / "tools/weir", "--built", folder], check=False)
    lines = shop.log_file().read_text(errors="replace").splitlines()
    found = [" ".join(line.split()) for line in lines if line.startswith(("worse ", "slow ", "new ", "note:"))]
    last = lines[-1] if code == 0 else f"information only, nothing was compared: {lines[-1]}"
    return Outcome(passed=1, note="; ".join([last, *found]))


def installed(shop):
    folder = shop.build("release")
    shutil.rmtree(shop.dir / "installed", ignore_errors=True)  # headers that are installed no more
    shop.run(["meson", "install", "-C", folder, "--no-rebuild", "--quiet"])
    shop.run([shop.root / "tests/system/install/run", shop.dir / "installed", shop.dir / "trainer"])
    return Outcome(passed=2, note="a trainer built with pkg-config and one with CMake")


def rxe(shop):
    folder = shop.build("release")
    code = shop.run([shop.root / "tests/rxe/run", "--build", folder, "--out", shop.dir / "rxe"], check=False)
    lines = shop.log_file().read_text(errors="replace").splitlines()
    passed = sum(line.startswith("ok ") for line in lines)
    failed = sum(line.startswith("not ok ") for line in lines)
    return Outcome(passed=passed, failed=max(failed, 1) if code != 0 else failed)


PHASES = {
    phase.name: phase
    for phase in (
        Phase("install", "installs the Debian packages that are missing", install),
        Phase("layers", "no file includes headers of a higher layer; no folder is crowded", layers),
        Phase("public", "installed headers include installed headers only", public_headers),
        Phase("readme", "layer table and links of the pages, length of README.md", markers.check),
        Phase("format", "clang-format", per_file.clang_format),
        Phase("release", "g++, optimised, warnings are errors", built("release"), build="release"),
        Phase("unit", "unit tests, and histories of whole clusters on simulated time", suite("unit", 2), build="release",
              found="most of what was found; where servers move and die, by its histories"),
        Phase("conformance", "one suite over every transport", suite("conformance", 1), build="release"),
        Phase("system", "whole programs", suite("system", 4), build="release"),
        Phase("installed", "trainers built against an installed copy", installed, (*TESTED, "README.md"), build="release"),
        Phase("asan", "clang, ASan and UBSan: unit tests, conformance", asan, TESTED, build="asan",
              found="keys of an ended call that were read, a snapshot that leaked when it was refused"),
        Phase("corpus", "each fuzz target with its corpus, and inputs made of it", fuzz.with_corpus, TESTED, build="asan"),
        Phase("tsan", "clang, TSan, no optional parts: threads, whole jobs, and what stands in for those parts", tsan, TESTED, build="tsan",
              found="tests that shared bytes without order; no fault of the product"),
        Phase("headers", "every header compiles alone", per_file.headers_alone, build="release", runs=WITH_ALL, found="missing includes; a build of many files at a time does not see them"),
        Phase("header-time", "how long weir.h compiles, beside the standard headers that it needs", header_time, runs=WITH_ALL, found="a span made of a vector in a header"),
        Phase("tidy", "clang-tidy on the library", per_file.clang_tidy, build="release", runs=WITH_ALL, found="what its checks are for; no fault of behaviour"),
        Phase("launchers", "mpirun, srun and mpiexec", suite("launchers", 2), build="release", runs=WITH_ALL, found="ranks bound to one core, starts that Hydra loses"),
        Phase("system-long", "whole programs that wait for limits, or are killed again and again", suite("system-long", 4), build="release", runs=WITH_ALL,
              found="half of the parameters lost beside other load (torture), a checkpoint that filled memory while its disk hung"),
        Phase("histories", "five times as many histories", suite("unit", 2, MANY, HISTORIES), TESTED, build="release", runs=WITH_ALL, found="what happens once in hundreds: a call that stayed open after a loss, a part that waited for ever at a new primary"),
        Phase("asan-system", "whole programs with ASan and UBSan", asan_system, TESTED, build="asan-system", runs=WITH_ALL, found="nothing yet; the only look of sanitizers at tools/weir"),
        Phase("fuzz", "30 s of each fuzz target, guided by coverage", fuzz.each_for(30), TESTED, build="fuzz", runs=WITH_ALL, found="nothing yet"),
        Phase("bench", "every benchmark briefly", benches, TESTED, build="release", runs=WITH_ALL),
        Phase("speed", "ratios to the limits beside recorded ones (information)", speed, TESTED, build="release", runs=WITH_ALL),
        Phase("rxe", "real verbs on soft-RoCE in guests", rxe, TESTED, build="release", runs=WITH_ALL, found="one peer that cost others their connections, misaligned messages, a crash when messages came fast"),
        Phase("planted", "one broken rule at a time, and whether the histories find it", planted, TESTED, runs=WITH_ALL, found="histories that had come to judge less"),
    )
}
QUICK = ["layers", "format", "release", "unit"]
