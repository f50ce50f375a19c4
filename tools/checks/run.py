#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the phases of tools/check one after the other and counts what passed and what failed."""

import argparse
import os
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from phases import PHASES, QUICK  # noqa: E402
from remember import Memory, tree_files  # noqa: E402
from workshop import Failure, Outcome, Workshop  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(
        prog="tools/check",
        description="Installs what is missing, builds, checks and tests. Without names: every phase but `analyze`. The long phases are not repeated while nothing that they depend on has changed.",
    )
    parser.add_argument("phase", nargs="*", help="run these phases only (see --list); they run even if nothing changed")
    parser.add_argument("--list", action="store_true", help="name the phases and stop")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--fresh", action="store_true", help="repeat every phase, also those that passed on the same files")
    parser.add_argument("--dir", type=Path, default=ROOT / ".check", help="where builds, logs and results are kept (default: .check)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 2)
    chosen = parser.parse_args()
    unknown = [name for name in chosen.phase if name not in PHASES]
    if unknown:
        parser.error(f"no phase is called {', '.join(unknown)}; there are: {', '.join(PHASES)}")
    return chosen


def run_phase(phase, shop, memory, repeat):
    """The outcome of one phase, from memory where it passed before on the very same files."""
    key = memory.key(phase) if phase.watches else None
    if key and not repeat:
        passed = memory.recall(phase.name, key)
        if passed is not None:
            return Outcome(passed=passed, note="unchanged since it passed")
    try:
        outcome = phase.function(shop)
    except Failure as failure:
        return Outcome(failed=1, note=str(failure))
    except Exception as error:  # one phase's mistake must not hide what the others find
        shop.log(traceback.format_exc())
        return Outcome(failed=1, note=f"{type(error).__name__}: {error}")
    if key and outcome.failed == 0 and key == memory.key(phase):
        memory.store(phase.name, key, outcome.passed)
    return outcome


def report(name, outcome, seconds, shop):
    counts = f"{outcome.passed} passed" + (f", {outcome.failed} failed" if outcome.failed else "")
    note = f"; {outcome.note}" if outcome.note else ""
    print(f"{'FAILED' if outcome.failed else 'ok':7}{seconds:7.1f} s  {counts}{note}", flush=True)
    if outcome.failed:
        log = shop.log_file(name)
        print(f"    log: {log}")
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        for line in lines[-40:]:
            print(f"    | {line[:240]}")
        sys.stdout.flush()


def main():
    chosen = arguments()
    if chosen.list:
        for phase in PHASES.values():
            print(f"{phase.name:12} {phase.about}")
        return 0
    names = chosen.phase or (QUICK if chosen.quick else [phase.name for phase in PHASES.values() if phase.by_default])
    shop = Workshop(ROOT, chosen.dir.resolve(), chosen.jobs)
    memory = Memory(ROOT, shop.dir / "passed", lambda: tree_files(ROOT))
    passed = failed = 0
    start = time.monotonic()
    for name in names:
        print(f"{name:12}", end="", flush=True)
        before = time.monotonic()
        shop.begin(name)
        outcome = run_phase(PHASES[name], shop, memory, repeat=chosen.fresh or bool(chosen.phase))
        report(name, outcome, time.monotonic() - before, shop)
        passed += outcome.passed
        failed += outcome.failed
    print(f"{'in all':12}       {time.monotonic() - start:7.1f} s")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ninterrupted")
        sys.exit(130)
