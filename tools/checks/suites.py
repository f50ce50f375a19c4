# SPDX-License-Identifier: Apache-2.0
"""Runs meson test suites and counts their test cases."""

import json
import os
import re
import time
from collections import Counter
from pathlib import Path

from remember import digest, surroundings, tools_version, tree_files
from workshop import Failure, Outcome, of_suites

# What a test that is a script may use, beside the programs that it is given.
SCRIPTS = ("tests/system/", "tests/rxe/", "tools/")
PLANTED_IN = ("lib/",)  # what tools/checks/planted changes, which the test of the checks looks at

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


class Known:
    """The tests that have passed, with what they said. A test is run again when its program has changed, or a script that it may call,
    or the variables that it gets, or what the machine has."""

    def __init__(self, shop, build, variables):
        self.folder = shop.dir / "passed" / "tests"
        self.folder.mkdir(parents=True, exist_ok=True)
        files = tree_files(shop.root)
        scripts = [name for name in files if name.startswith(SCRIPTS) and not name.endswith((".cc", ".h"))]
        self.scripts = digest(*(f"{name} {digest((shop.root / name).read_bytes())}" for name in scripts))
        self.planted_in = digest(*(f"{name} {digest((shop.root / name).read_bytes())}" for name in files if name.startswith(PLANTED_IN)))
        self.salt = digest(tools_version(), surroundings(), build, json.dumps(variables, sort_keys=True))
        self.contents = {}

    def key(self, test):
        words = [digest_of(Path(word), self.contents) if os.path.isfile(word) else word for word in test["cmd"]]
        scripts = self.scripts if any(word.endswith(".py") for word in test["cmd"]) else ""
        if scripts and len(test["cmd"]) == 1:  # no program of ours: it looks at the sources
            scripts += self.planted_in
        return digest(self.salt, json.dumps(test["env"], sort_keys=True), test["name"], scripts, *words)

    def recall(self, test):
        path = self.folder / self.key(test)
        if not path.exists():
            return None
        path.touch()
        return json.loads(path.read_text())

    def forget_old(self, days=30):
        """Results that no run has asked for since."""
        for path in self.folder.iterdir():
            if time.time() - path.stat().st_mtime > days * 86400:
                path.unlink()

    def store(self, test, result):
        (self.folder / self.key(test)).write_text(json.dumps(result))


def digest_of(path, contents):
    if path not in contents:
        contents[path] = digest(path.read_bytes())
    return contents[path]


def run_suite(shop, build, suites, processes, multiplier=3, env=None, names=()):
    """Runs the tests of `suites` in the build folder `build`, or those of them that `names` lists; it is a failure if there is none. A
    test that passed is not run again while it is the same. The note names skipped tests. `multiplier` is of the time limits of the tests,
    which hold on a machine that does nothing else."""
    folder = shop.build(build)
    tests = of_suites(folder, suites, names)
    if not tests:
        raise Failure(f"these suites have no tests: {', '.join(suites)}")
    known = Known(shop, build, env or {})
    known.forget_old()
    results = {} if shop.repeat else {test["name"]: found for test in tests if (found := known.recall(test))}
    todo = [test for test in tests if test["name"] not in results]
    programs = run_tests(shop, folder, suites, todo, processes, multiplier, env) if todo else []
    outcome, skipped, not_run = Outcome(), [], Counter()
    for program in programs:
        if program["result"] == "SKIP":
            skipped.append(name_of(program))
            continue
        passed, failed = count(program)
        results[name_of(program)] = found = {"passed": passed, "failed": failed, "not_run": not_run_in(program)}
        if not failed:
            known.store(next(test for test in todo if test["name"] == name_of(program)), found)
    for found in results.values():
        outcome.passed += found["passed"]
        outcome.failed += found["failed"]
        not_run.update(found["not_run"])
    outcome.note = f"{len(tests)} programs, {len(tests) - len(todo)} unchanged"
    if programs:
        slowest = max(programs, key=lambda program: program["duration"])
        outcome.note += f", slowest {name_of(slowest)} {slowest['duration']:.0f} s"
    if len(programs) < len(todo):
        outcome.failed += len(todo) - len(programs)
        outcome.note += f"; {len(todo) - len(programs)} did not end in time"
    if skipped:
        outcome.note += f"; SKIPPED: {', '.join(skipped)}"
    for reason, times in not_run.items():
        outcome.note += f"; {times} x SKIPPED: {reason}"
    return outcome


def name_of(program):
    """meson's log says "weir:unit / base"."""
    return program["name"].rpartition(" / ")[2]


def run_tests(shop, folder, suites, tests, processes, multiplier, env):
    """What meson's log has of each. Tests of other suites may have the same names."""
    base = f"{shop.phase}-log"
    log = folder / "meson-logs" / f"{base}.json"
    log.unlink(missing_ok=True)
    command = ["meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs", "--logbase", base, "--num-processes", processes, "--timeout-multiplier", multiplier]
    for suite in suites:
        command += ["--suite", suite]
    shop.run([*command, *(test["name"] for test in tests)], env=env, check=False)
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
