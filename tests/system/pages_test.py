#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands on the pages are run, and flags and variables that pages name exist. Usage: pages_test.py PATH-OF-WEIR PAGE...

A block marked `sh` is run, those of a page one after the other in one folder; it has at most one port, 127.0.0.1:7070, which is replaced.
Of all other commands of `weir`, and of programs in tools/, the flags are looked up in --help. With --variables it prints the table of tools/weir/variables.md.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import lr_testing as testing
from reserved_port import ReservedPort

ROOT = Path(__file__).resolve().parents[2]
WEIR, PAGES = "", []
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
INLINE = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"(?<![\w/.-])(weir (?=[a-z])|tools/[a-z/]+ )([^|;&#)\n]*)")  # the program, and its words
NO_VARIABLES = {"WEIR_TRY", "WEIR_ASSIGN", "WEIR_CHECK", "WEIR_SEED", "WEIR_HISTORIES", "WEIR_HISTORIES_SHARE"}
MAY_COME = ("Connection refused", "the job has not begun yet")  # to a command that is repeated until it has


def output(*words):
    done = subprocess.run(words, env=testing.clean_environment({}), capture_output=True, text=True, timeout=60, check=False)
    return done.stdout if done.returncode == 0 else ""


def variables():
    return json.loads(output(WEIR, "info", "-f", "--json"))["variables"]


def table_of_variables():
    rows = [f"| `{one['name']}` | {one['allowed']} | {one['default'] or '-'} | {one['meaning']} |" for one in variables()]
    return "\n".join(["| variable | takes | default | meaning |", "| --- | --- | --- | --- |", *rows])


def commands(text):
    """The program and the words behind it of each command that is not run here."""
    for kind, block in BLOCK.findall(text):
        if kind not in ("sh", "cpp", "cmake"):
            yield from COMMAND.findall(block.replace("\\\n", " "))
    for words in INLINE.findall(BLOCK.sub("", text)):
        yield from COMMAND.findall(words)


class Pages(unittest.TestCase):
    def test_commands_run(self):
        count = 0
        for page in PAGES:
            blocks = [block for kind, block in BLOCK.findall(page.read_text()) if kind == "sh"]
            with tempfile.TemporaryDirectory(prefix="weir-pages-") as folder, ReservedPort() as port, self.subTest(page):
                for block in blocks:
                    script = block.replace("127.0.0.1:7070", f"127.0.0.1:{port}")
                    paths = {"PATH": f"{Path(WEIR).parent}:{os.environ['PATH']}", **testing.POOL}
                    done = testing.run(["bash", "-eu", "-c", f"cd $0\n{script}", folder], testing.clean_environment(paths), 3 * testing.LIMIT_S)
                    self.assertEqual(done.code, 0, f"{script}\n{done}")
                    errors = [line for line in done.err.splitlines() if line.startswith("weir: error") and not any(words in line for words in MAY_COME)]
                    self.assertEqual(errors, [], f"{script}\n{done}")
                    count += 1
        self.assertGreater(count, 5)

    def test_flags_of_commands_exist(self):
        helps, count = {}, 0
        for page in PAGES:
            for program, words in commands(page.read_text()):
                names = (WEIR, *re.match(r"(?:checkpoint|bench) [a-z]+|[a-z]+", words)[0].split()) if program == "weir " else (ROOT / program.strip(),)
                if names not in helps:
                    helps[names] = output(*names, "--help")
                self.assertTrue(helps[names], f"{page}: there is no {program}{words}")
                for flag in re.findall(r"(?<!\S)--?[a-z][a-z0-9-]*", words):
                    self.assertIsNotNone(re.search(rf"(?<![\w-]){flag}(?![\w-])", helps[names]), f"{page}: {flag} of {program}{words}")
                    count += 1
        self.assertGreater(count, 30)

    def test_variables_exist_and_their_page_is_what_the_program_says(self):
        known = {one["name"] for one in variables()} | NO_VARIABLES
        for page in PAGES:
            self.assertEqual(set(re.findall(r"\bWEIR_[A-Z_]*[A-Z]\b", page.read_text())) - known, set(), page)
        page = next(page for page in PAGES if page.name == "variables.md").read_text()
        self.assertIn(table_of_variables(), page, f"make it with: {sys.argv[0]} --variables {WEIR}")


if __name__ == "__main__":
    if sys.argv[1] == "--variables":
        WEIR = os.path.abspath(sys.argv[2])
        print(table_of_variables())
        sys.exit()
    WEIR = os.path.abspath(sys.argv.pop(1))
    while len(sys.argv) > 1 and sys.argv[1].endswith(".md"):
        PAGES.append(Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)  # names every case, and why one is skipped
