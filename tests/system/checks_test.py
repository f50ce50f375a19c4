#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How tools/checks counts the cases of test programs, and those that were not run; which it runs again; and its planted faults. Usage: checks_test.py"""

import subprocess
import sys
import tempfile
import textwrap
import types
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "checks"))
import suites  # noqa: E402
import workshop  # noqa: E402

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


class Remembered(unittest.TestCase):
    def key(self, root, words=("some_test.py",), **variables):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict("os.environ", variables):
            shop = types.SimpleNamespace(root=root, dir=Path(folder))
            return suites.Known(shop, "release", {}).key({"cmd": list(words), "env": {}, "name": "some"})

    def test_a_test_is_run_again_when_what_it_looks_at_has_changed(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name in ("lib/a.h", "tools/some", "tests/a.cc"):
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text("1")
            first = self.key(root)
            self.assertEqual(self.key(root), first)
            self.assertNotEqual(self.key(root, WEIR_HISTORIES="1"), first)
            (root / "tests/a.cc").write_text("2")
            self.assertEqual(self.key(root), first)
            for name in ("lib/a.h", "tools/some"):
                (root / name).write_text("2")
                self.assertNotEqual(self.key(root), first, name)
                (root / name).write_text("1")

    def test_a_program_is_known_by_what_is_in_it(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "program"
            program.write_text("1")
            first = self.key(Path(folder), (str(program),))
            program.write_text("2")
            self.assertNotEqual(self.key(Path(folder), (str(program),)), first)

    def test_a_program_that_a_script_gets_is_known_too(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "tools").mkdir()
            (Path(folder) / "tools/weir").write_text("1")
            self.assertEqual(workshop.whole_path(Path(folder), "tools/weir"), f"{folder}/tools/weir")
            self.assertEqual(workshop.whole_path(Path(folder), "tools"), "tools")
            self.assertEqual(workshop.whole_path(Path(folder), "/bin/sh"), "/bin/sh")
            self.assertEqual(workshop.whole_path(Path(folder) / "tools", "../tools/weir"), f"{folder}/tools/weir")


class Planted(unittest.TestCase):
    ROOT = Path(__file__).resolve().parents[2]

    def planted(self, *flags):
        done = subprocess.run([self.ROOT / "tools/checks/planted", *flags], capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def test_the_sources_have_what_each_fault_replaces(self):
        code, out, err = self.planted("--look")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^(\d+) of \1 faults can be planted\n$")
        self.assertGreaterEqual(self.planted("--list")[1].count("\n"), 12)

    def test_a_fault_that_cannot_be_planted_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lib/node/lease_line.h"
            path.parent.mkdir(parents=True)
            text = (self.ROOT / "lib/node/lease_line.h").read_text(encoding="utf-8")
            for number, changed in ((0, text.replace("lease_ns / 4 * 5", "lease_ns * 2")), (2, text + text)):
                path.write_text(changed, encoding="utf-8")
                code, out, err = self.planted("--look", "--sources", folder, "no-margin")
                self.assertEqual((code, out), (1, "0 of 1 faults can be planted\n"))
                self.assertIn(f"no-margin: lib/node/lease_line.h has {number} times what is to be replaced: return lease_ns / 4 * 5;", err)

    def test_wrong_flags_are_refused(self):
        for flags, words in ((("no-such",), "unknown fault no-such; choose from: ack-early"), (("--histories", "0"), "must be at least 1")):
            code, _, err = self.planted(*flags)
            self.assertEqual(code, 2)
            self.assertIn(words, err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
