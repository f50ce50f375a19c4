#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tools/torture` in small: servers that are killed, stopped and cut off, over TCP and on several hosts, and checkpoints that are
interrupted. Usage: torture_test.py PATH-OF-WEIR"""

import argparse
import subprocess
import sys
import unittest
from pathlib import Path

import lr_testing as testing

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools/torture.d"))
from hosts import why_no_namespaces  # noqa: E402
from limits import exceeded, not_judged, summary  # noqa: E402

LIMIT_S = 400
NOTHING = ("--rounds", "0", "--stops", "0")


class Torture(testing.Folder, unittest.TestCase):
    def torture(self, *words, code=0):
        out = self.path("report.json")
        command = [str(ROOT / "tools/torture"), "--weir", self.WEIR, "--seed", str(testing.seed()), "--json", out]
        # A busy machine must not take a server for silent.
        done = subprocess.run([*command, "--lease-ms", "2000", "--brief", *words], env=testing.clean_environment({"WEIR_POOL_MIB": "128"}), text=True,
                              capture_output=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return testing.read_json(out) if code == 0 else done.stderr

    def check(self, report, name, rounds):
        found = report[name]
        self.assertEqual((found["rounds"], found["wrong_values"]), (rounds, 0), report)
        self.assertGreater(found["acknowledged"], 0)

    def test_kills_over_tcp(self):
        report = self.torture("--transport", "tcp", "--rounds", "2", "--stops", "0")
        self.check(report, "kill", 2)
        self.assertEqual(report["kill"]["transport"], "tcp")

    def test_two_servers_are_killed_at_once(self):
        report = self.torture("--replicas", "2", "--rounds", "1", "--stops", "0")
        self.check(report, "kill", 1)
        self.assertEqual(report["kill"]["at_once"], 2)

    def test_there_is_a_report_of_what_failed(self):
        bad = Path(self.path("bad"))
        bad.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        bad.chmod(0o755)
        says = self.torture("--rounds", "1", "--stops", "0", "--weir", str(bad), code=1)
        self.assertRegex(says, r"torture: FAILED; run it again with --seed \d+\n$")
        report = testing.read_json(self.path("report.json"))
        self.assertEqual((report["all_was_well"], report["kill"]), (False, None))

    def test_kills_have_limits_of_time_and_stops_have_not(self):
        # A server that is stopped is replaced after its lease, which is longer than the limits here.
        report = self.torture("--rounds", "1", "--stops", "1", "--lease-ms", "16000", "--median-ms", "15000", "--max-ms", "1.5e4")
        self.assertGreater(report["stop"]["max_ms"], 15000)
        self.assertEqual((report["limit_ms"], report["exceeded"]), ({"median": 15000, "max": 15000, "lead": None}, []))

    def test_kills_that_take_too_long_are_named(self):
        says = self.torture("--rounds", "1", "--stops", "0", "--max-ms", "0.001", "--median-ms", "1e6", code=1)
        report = testing.read_json(self.path("report.json"))  # nothing was lost, so it is there
        self.check(report, "kill", 1)
        line = f"the maximum from a kill to the first push that was acknowledged is {report['kill']['max_ms']:.3f} ms, over 1 kill; "
        self.assertEqual(report["exceeded"], [line + "the limit is 0.001 ms (--max-ms)"])
        self.assertIn(f"torture: TOO SLOW: {report['exceeded'][0]}\n", says)
        self.assertNotIn("torture: FAILED", says)

    @unittest.skipIf(why_no_namespaces(), why_no_namespaces())
    def test_kills_stops_and_cut_cables_on_three_hosts(self):
        report = self.torture("--namespaces", "--rounds", "1", "--stops", "1", "--cuts", "1")
        for name in ("kill", "stop", *(f"{short}cut {way}" for short in ("", "short ") for way in ("whole", "from", "to"))):
            self.check(report, name, 1)

    def test_interrupted_checkpoints(self):
        report = self.torture(*NOTHING, "--checkpoints", "3")
        self.assertEqual(report["checkpoints"]["interrupted"], 3)
        self.assertGreater(report["checkpoints"]["whole"], 0)

    def test_a_leading_manager_is_killed_and_one_that_leads_too_late_is_named(self):
        says = self.torture(*NOTHING, "--managers", "1", "--lead-ms", "0.001", code=1)
        report = testing.read_json(self.path("report.json"))  # nothing was lost, so it is there
        self.assertEqual(report["managers"]["rounds"], 1, report)
        if report["managers"]["gaps_seen"] == 1:
            self.assertEqual(len(report["exceeded"]), 1, report)
            self.assertIn(f"torture: TOO SLOW: {report['exceeded'][0]}\n", says)
        else:  # the training ended before
            self.assertEqual(len(report["not_judged"]), 1, report)
            self.assertIn(f"torture: NOT JUDGED: {report['not_judged'][0]}\n", says)
        self.assertNotIn("torture: FAILED", says)

    def test_the_limit_for_managers_says_of_how_many_rounds_the_times_are(self):
        def found(lead_ms, rounds, seen, longest):
            flags = argparse.Namespace(median_ms=None, max_ms=None, replicas=1, lead_ms=lead_ms)
            report = {"managers": {"rounds": rounds, "gaps_seen": seen, "gap_ms_max": longest}}
            return exceeded(flags, report), not_judged(flags, report), summary(report)

        end, limit = "nothing was lost, and nothing was done twice; ", "; the limit is 1000 ms (--lead-ms)"
        led = "another manager led, and answered, after {} ms at most, over "
        late = "the longest time from the kill of a leading manager until another one led, and answered, is 1200.000 ms, over "
        some, none = "18 of 20 rounds (in the others the training ended before)", "0 of 1 rounds (in the other the training ended before)"
        for limits, says in (((1000, 20, 20, 900), ([], [], end + led.format(900) + "20 rounds")),
                             ((None, 20, 20, 1200), ([], [], end + led.format(1200) + "20 rounds")),
                             ((1000, 1, 1, 1200), ([late + "1 round" + limit], [], end + led.format(1200) + "1 round")),
                             ((1000, 20, 18, 900), ([], [], end + led.format(900) + some)),
                             ((1000, 20, 18, 1200), ([late + some + limit], [], end + led.format(1200) + some)),
                             ((None, 1, 0, None), ([], [], end + "no time until another manager led was seen: " + none)),
                             ((1000, 1, 0, None), ([], ["no time from the kill of a leading manager until another one led was seen: " + none + limit],
                                                   end + "no time until another manager led was seen: " + none))):
            with self.subTest(limits):
                self.assertEqual(found(*limits), says)

    def test_wrong_numbers_are_named(self):
        for words, says in (((*NOTHING,), "not all 0"), (("--cuts", "1"), "give --namespaces, too"), (("--rounds", "-1"), "0 or more"),
                            ((*NOTHING, "--managers", "1", "--max-ms", "5"), "limits for kills; give --rounds 1 or more"),
                            (("--lead-ms", "5"), "limit for managers that are killed; give --managers 1 or more"),
                            *(((flag, text), f"argument {flag}: {text}: give milliseconds, more than 0")
                              for flag in ("--median-ms", "--max-ms", "--lead-ms") for text in ("0", "nan", "inf", "20ms")),
                            (("--namespaces", "--transport", "shm"), "leave out --namespaces, or choose tcp"),
                            (("--json", "/missing/report"), "--json: there is no folder /missing; make it first")):
            self.assertIn(says, self.torture(*words, code=2))
        for words, says in ((("--at-once", 2), "with --replicas 1 what so many servers hold is lost"), (("--cut", "true"), "--within"),
                            (("--heal-ms", 5), "only what --cut has cut can heal")):
            done = testing.run([self.WEIR, "bench", "failover", "--local", *map(str, words)], testing.clean_environment(testing.POOL), testing.LIMIT_S)
            self.assertNotEqual(done.code, 0)
            self.assertIn(says, done.err)


if __name__ == "__main__":
    testing.main(testing.Folder, "__main__")
