# SPDX-License-Identifier: Apache-2.0
"""Runs meson test suites and counts their test cases."""

import json
import re
from collections import Counter

from workshop import Failure, Outcome

CASES = re.compile(r"\[doctest\] test cases:\s*(\d+)\s*\|\s*(\d+) passed\s*\|\s*(\d+) failed")
# A program without doctest may print one such line per case.
LINES = re.compile(r"^(ok|not ok) \S", re.M)
# A program prints this line for a case that this machine cannot run. The match ends before the advice.
NOT_RUN = re.compile(r"SKIPPED: ([^(;\n]+)")
# Python's unittest prints to stderr: the number of cases, how they ended, and (if verbose) why one was skipped.
UNITTEST = re.compile(r"^Ran (\d+) tests? in [^\n]*\n\s*^(?:OK|FAILED|NO TESTS RAN)(?: \(([^)\n]*)\))?$", re.M)
UNITTEST_SKIPPED = re.compile(r"\.\.\. skipped (['\"])(.*)\1$", re.M)


def count(program):
    """(passed, failed) of one program in meson's testlog: its cases if it prints their number, else the program counts as one."""
    passed = failed = 0
    text = program.get("stdout") or ""
    for _, good, bad in CASES.findall(text):
        passed, failed = passed + int(good), failed + int(bad)
    for ran, ends in UNITTEST.findall(program.get("stderr") or ""):
        counts = {name: int(number) for name, number in re.findall(r"([a-z][a-z ]*)=(\d+)", ends)}
        # unittest counts each part of a case (subTest) that fails.
        bad = min(int(ran), counts.get("failures", 0) + counts.get("errors", 0))
        passed, failed = passed + max(0, int(ran) - bad - counts.get("skipped", 0)), failed + bad
    if not passed + failed:
        words = LINES.findall(text)
        passed, failed = words.count("ok"), words.count("not ok")
    if program["result"] in ("OK", "EXPECTEDFAIL"):
        return max(passed, 1), failed
    return passed, max(failed, 1)


def not_run_in(program):
    """The reasons why cases of a program were skipped, one for each case."""
    reasons = [reason.strip() for reason in NOT_RUN.findall(program.get("stdout") or "")]
    return reasons + [reason for _, reason in UNITTEST_SKIPPED.findall(program.get("stderr") or "")]


def run_suite(shop, build, suites, processes, multiplier=1, seconds=900, env=None, names=()):
    """Runs the tests of `suites` in the build folder `build`, or those of them that `names` lists; it is a failure if there is
    none. The note names skipped tests."""
    folder = shop.build(build)
    base = f"{shop.phase}-log"
    log = folder / "meson-logs" / f"{base}.json"
    log.unlink(missing_ok=True)
    command = ["meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs", "--logbase", base, "--num-processes", processes, "--timeout-multiplier", multiplier]
    for suite in suites:
        command += ["--suite", suite]
    shop.run([*command, *names], seconds=seconds, env=env, check=False)
    programs = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    if not programs:
        raise Failure(f"these suites have no tests: {', '.join(suites)}")
    outcome, skipped, not_run = Outcome(), [], Counter()
    for program in programs:
        if program["result"] == "SKIP":
            skipped.append(program["name"])
            continue
        not_run.update(not_run_in(program))
        passed, failed = count(program)
        outcome.passed += passed
        outcome.failed += failed
    slowest = max(programs, key=lambda program: program["duration"])
    outcome.note = f"{len(programs)} programs, slowest {slowest['name']} {slowest['duration']:.0f} s"
    if skipped:
        outcome.note += f"; SKIPPED: {', '.join(skipped)}"
    for reason, times in not_run.items():
        outcome.note += f"; {times} x SKIPPED: {reason}"
    return outcome
