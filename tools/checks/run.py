#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the phases of tools/check one after the other and counts what passed and what failed."""

import argparse
import os
import signal
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from phases import ALWAYS, PHASES, QUICK, WITH_ALL  # noqa: E402
from remember import Memory, tools_version, tree_files  # noqa: E402
from workshop import Failure, Outcome, Workshop  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(
        prog="tools/check",
        description="Installs missing packages, builds, checks and tests: without names, all phases that say `always` in --list. The long phases are not repeated while nothing that they depend on has changed.",
    )
    parser.add_argument("phase", nargs="*", help="run these phases only (see --list); they run even if nothing changed")
    parser.add_argument("--list", action="store_true", help="print the phases and stop")
    parser.add_argument("--all", action="store_true", help="also the long phases; do so before a larger change is called finished")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--fresh", action="store_true", help="repeat every phase, also those that passed on the same files")
    parser.add_argument("--dir", type=Path, default=ROOT / ".check", help="folder for builds, logs and results (default: .check)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 2)
    chosen = parser.parse_args()
    unknown = [name for name in chosen.phase if name not in PHASES]
    if unknown:
        parser.error(f"unknown phase {', '.join(unknown)}; choose from: {', '.join(PHASES)}")
    return chosen


class Plan:
    """Decides which phases need not run, because they passed on the same files, and which builds the other phases need."""

    def __init__(self, phases, memory, repeat):
        self.memory = memory
        self.keys = {phase.name: memory.key(phase) for phase in phases if phase.watches}
        self.passed = {} if repeat else {name: memory.recall(name, key) for name, key in self.keys.items()}
        self.builds = [phase.build for phase in phases if phase.build and self.passed.get(phase.name) is None]

    def run(self, phase, shop):
        """The outcome of one phase, which is run only if it has not passed before."""
        passed = self.passed.get(phase.name)
        if passed is not None:
            return Outcome(passed=passed, note="unchanged since it passed")
        try:
            outcome = phase.function(shop)
        except Failure as failure:
            return Outcome(failed=1, note=str(failure))
        except Exception as error:  # an error in one phase must not hide the results of the others
            shop.log(traceback.format_exc())
            return Outcome(failed=1, note=f"{type(error).__name__}: {error}")
        key = self.keys.get(phase.name)
        if key and outcome.failed == 0 and key == self.memory.key(phase):
            self.memory.store(phase.name, key, outcome.passed)
        return outcome


def report(name, outcome, seconds, shop):
    counts = f"{outcome.passed} passed" + (f", {outcome.failed} failed" if outcome.failed else "")
    note = f"; {outcome.note}" if outcome.note else ""
    cpu = f"{shop.cpu_s[name]:7.0f} s of CPU" if shop.cpu_s[name] >= 1 else " " * 16
    print(f"{'FAILED' if outcome.failed else 'ok':7}{seconds:7.1f} s {cpu}  {counts}{note}", flush=True)
    if outcome.failed:
        log = shop.log_file(name)
        print(f"    log: {log}")
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        for line in lines[-40:]:
            print(f"    | {line[:240]}")
        sys.stdout.flush()


def phases_of(runs):
    return [phase.name for phase in PHASES.values() if phase.runs in runs]


def main():
    chosen = arguments()
    if chosen.list:
        for runs in (ALWAYS, WITH_ALL):
            print(f"{runs}:")
            for phase in (phase for phase in PHASES.values() if phase.runs == runs):
                print(f"  {phase.name:12} {phase.about}" + (f"\n{'':15}found so far: {phase.found}" if phase.found else ""))
        return 0
    names = chosen.phase or (QUICK if chosen.quick else phases_of({ALWAYS, WITH_ALL} if chosen.all else {ALWAYS}))
    memory = Memory(ROOT, chosen.dir.resolve() / "passed", lambda: tree_files(ROOT))
    repeat = chosen.fresh or bool(chosen.phase)
    shop = Workshop(ROOT, chosen.dir.resolve(), chosen.jobs, repeat)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that close() ends running commands
    try:
        return run_phases([PHASES[name] for name in names], shop, memory, repeat)
    finally:
        shop.close()


def run_phases(phases, shop, memory, repeat):
    passed = failed = 0
    start = time.monotonic()
    plan = None
    for position, phase in enumerate(phases):
        print(f"{phase.name:12}", end="", flush=True)
        before = time.monotonic()
        shop.begin(phase.name)
        if plan is None or phases[position - 1].name == "install":  # it may install other compilers, on which remembered results depend
            tools_version.cache_clear()
            plan = Plan(phases[position:], memory, repeat)
            shop.build_behind([] if phase.name == "install" else plan.builds)
        outcome = plan.run(phase, shop)
        report(phase.name, outcome, time.monotonic() - before, shop)
        passed += outcome.passed
        failed += outcome.failed
    for name, seconds in shop.build_s.items():
        print(f"{'built ' + name:19}{seconds:7.1f} s {shop.cpu_s['build-' + name]:7.0f} s of CPU")
    print(f"{'in all':19}{time.monotonic() - start:7.1f} s {sum(shop.cpu_s.values()):7.0f} s of CPU")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ninterrupted")
        sys.exit(130)
