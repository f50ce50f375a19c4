#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How tools/checks counts the cases of test programs, and those that were not run. Usage: checks_test.py"""

import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "checks"))
import suites  # noqa: E402

PROGRAM = textwrap.dedent("""
    import unittest
    class Some(unittest.TestCase):
        def test_good(self): pass
        def test_better(self): pass
        @unittest.skip("no such device")
        def test_skipped(self): pass
        def test_skips_itself(self): self.skipTest("it's not installed")
        {more}
    unittest.main(verbosity=2)
""")


def logged(more=""):
    """What meson's log has of a program of unittest's."""
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(more=more)], capture_output=True, text=True, check=False)
    return {"stdout": done.stdout, "stderr": done.stderr, "result": "OK" if done.returncode == 0 else "FAIL"}


class Counting(unittest.TestCase):
    def test_cases_of_a_python_program_are_counted_and_skipped_ones_are_none(self):
        self.assertEqual(suites.count(logged()), (2, 0))
        self.assertEqual(suites.count(logged("def test_bad(self): self.fail()")), (2, 1))

    def test_a_skip_inside_of_a_python_program_is_seen_with_its_reason(self):
        self.assertEqual(sorted(suites.not_run_in(logged())), ["it's not installed", "no such device"])

    def test_other_programs_count_as_they_did(self):
        doctest = "[doctest] test cases:   5 |   4 passed | 1 failed | 0 skipped\n"
        self.assertEqual(suites.count({"stdout": doctest, "result": "FAIL"}), (4, 1))
        self.assertEqual(suites.count({"stdout": "ok one\nnot ok two\n", "result": "FAIL"}), (1, 1))
        self.assertEqual(suites.count({"stdout": "", "stderr": None, "result": "OK"}), (1, 0))
        self.assertEqual(suites.not_run_in({"stdout": "SKIPPED: no RDMA device (see weir info)\n"}), ["no RDMA device"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
