#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/quickstart from the manual pages on, with made-up pages and a built program. Usage: quickstart_test.py PATH-OF-WEIR"""

import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

WEIR = ""
SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "quickstart"
PAGES = 150  # per section
TITLES = {2: 'Linux "System Calls Manual"', 3: 'GNU "Library Functions Manual"'}  # of header lines, as real pages have them
GIVEN_AWAY = {"linux", "gnu", "system", "calls", "library", "functions", "manual"}
LINE = re.compile(r"[+-]1( \d+:\d\S*)*")


def quickstart(*arguments, cwd=None):
    return subprocess.run([SCRIPT, *arguments], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False)


def write_pages(man):
    """Pages whose words tell the section with some noise: 60 words of each side, 100 that say nothing. The header line tells it
    without any, and so does its title where it stands in the text."""
    dice = random.Random(int(os.environ.get("WEIR_SEED", "20141006")))
    sides = {2: [f"kernel_{i}" for i in range(60)], 3: [f"library_{i}" for i in range(60)]}
    for section in (2, 3):
        folder = man / f"man{section}"
        folder.mkdir(parents=True)
        for number in range(PAGES):
            words = dice.choices(sides[section], k=6) + dice.choices(sides[5 - section], k=2) + dice.choices([f"word_{i}" for i in range(100)], k=30)
            name, title = f"name{section}x{number}", TITLES[section]
            text = f'.TH {name} {section} 2026-01-02 {title}\n.SH NAME\n{name} \\- {" ".join(words)}\n.SH "SEE ALSO"\n{title.partition(" ")[2]}\n'
            with gzip.open(folder / f"page{number}.{section}.gz", "wt") as page:
                page.write(text)
        (folder / f"link.{section}").write_text(f".so man{section}/page1.{section}\n")


class Quickstart(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="weir-quickstart-")
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def test_pages_become_a_model_and_its_words(self):
        write_pages(self.folder / "man")
        done = quickstart("--weir", WEIR, "--pages", "man", "--out", "out", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        out = self.folder / "out"
        counts = []
        for name in ("train", "test"):
            lines = (out / f"{name}.svm").read_text().splitlines()
            self.assertEqual([line for line in lines if not LINE.fullmatch(line)], [])
            counts.append(len(lines))
        self.assertEqual(sum(counts), 2 * PAGES)
        self.assertGreater(counts[0], 2 * counts[1])
        features = dict(line.split() for line in (out / "words.txt").read_text().splitlines())
        self.assertEqual(GIVEN_AWAY & set(features.values()), set())
        used = re.findall(r" (\d+):", (out / "train.svm").read_text() + (out / "test.svm").read_text())
        self.assertEqual(set(used) - set(features), set())
        self.assertIn(f"{PAGES} system calls and {PAGES} library functions: {counts[0]} pages to train", done.stdout)
        result = json.loads((out / "result.json").read_text())
        self.assertEqual((result["workers"], result["examples"]), (2, counts[0]))
        self.assertIn(f"{result['nonzeros']} of {result['features']}", done.stdout)
        self.assertRegex(done.stdout, rf"objective +{result['objective']:.4f} after {result['passes']} passes")
        self.assertRegex(done.stdout, rf"held-out accuracy +{100 * result['test_accuracy']:.2f}%")
        self.assertGreater(result["test_accuracy"], 0.7)
        rows = re.findall(r"^ *(\S+) +\+\d+\.\d\d +(\S+) +-\d+\.\d\d$", done.stdout, re.M)
        self.assertEqual(len(rows), 20, done.stdout)
        self.assertTrue(rows[0][0].startswith("kernel_") and rows[0][1].startswith("library_"), rows[0])
        plot = re.search(r"^objective against time: (.*)$", done.stdout, re.M)
        self.assertEqual(Path(plot[1]), (out / "objective.svg").resolve())
        self.assertEqual(xml.parse(plot[1]).getroot().tag, "{http://www.w3.org/2000/svg}svg")

    def test_what_is_wrong_is_said_and_nothing_is_done(self):
        for arguments, code, words in ((["--frobnicate"], 2, "unknown flag '--frobnicate'"), (["pages"], 2, "unknown flag 'pages'"),
                                       (["--pages"], 2, "--pages needs a path"), (["--pages", "/nowhere"], 1, "/nowhere has no folders man2 and man3"),
                                       (["--weir", "/nowhere/weir"], 1, "/nowhere/weir is not a program that can be run"),
                                       (["--weir", WEIR, "--build", "b"], 2, "leave --build out")):
            with self.subTest(arguments):
                done = quickstart(*arguments, cwd=self.folder)
                self.assertEqual((done.returncode, done.stdout), (code, ""))
                self.assertIn(words, done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_folders_without_pages_and_a_training_that_fails_end_it(self):
        for section in (2, 3):
            (self.folder / "man" / f"man{section}").mkdir(parents=True)
        done = quickstart("--weir", WEIR, "--pages", "man", "--out", "out", cwd=self.folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no manual pages in", done.stderr)
        write_pages(self.folder / "full")
        done = quickstart("--weir", "/bin/false", "--pages", "full", "--out", "out", cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("training failed", done.stderr)

    def test_help_names_every_flag(self):
        done = quickstart("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for flag in ("--build DIR", "--weir PROGRAM", "--pages DIR", "--out DIR"):
            self.assertIn(flag, done.stdout)
        self.assertNotIn("#", done.stdout)


if __name__ == "__main__":
    WEIR = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)  # names every case, and why one is skipped
