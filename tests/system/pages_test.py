#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands on the pages are run, and flags and variables that pages name exist.

    pages_test.py PATH-OF-WEIR PAGE... Pages|Launchers
    pages_test.py --variables PATH-OF-WEIR               # prints the table of tools/weir/variables.md

A block marked `sh` is run, those of a page one after the other in one folder; it has at most one port, 127.0.0.1:7070, which is replaced.
One marked `sh LAUNCHER` is run by Launchers, if that launcher is installed. Of all other commands of weir, and of programs in tools/, the
flags are looked up in --help.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent / "launchers"))
import launch as launchers  # noqa: E402
import lr_testing as testing  # noqa: E402
from reserved_port import ReservedPort  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
WEIR, PAGES = "", []
BLOCK = re.compile(r"^```(\w*) ?(\w*)\n(.*?)^```$", re.M | re.S)  # its language, the launcher, the text
INLINE = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"(?<![\w/.-])(weir (?=[a-z])|tools/[a-z/]+ )([^|;&#)\n]*)")  # the program, and its words
NO_VARIABLES = {"WEIR_VERSION", "WEIR_VERSION_NUMBER", "WEIR_MAKE_VERSION", "WEIR_TRY", "WEIR_ASSIGN", "WEIR_CHECK", "WEIR_SEED", "WEIR_HISTORIES", "WEIR_HISTORIES_SHARE"}
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
    for kind, _, block in BLOCK.findall(text):
        if kind not in ("sh", "cpp", "cmake"):
            yield from COMMAND.findall(block.replace("\\\n", " "))
    for words in INLINE.findall(BLOCK.sub("", text)):
        yield from COMMAND.findall(words)


def run_blocks(case, page, launcher, folder, extra):
    """Runs the blocks of a page for this launcher (or none), one after the other in the folder; returns how many."""
    blocks = [block for kind, wanted, block in BLOCK.findall(page.read_text()) if (kind, wanted) == ("sh", launcher)]
    with ReservedPort() as port:
        for block in blocks:
            script = block.replace("127.0.0.1:7070", f"127.0.0.1:{port}")
            environment = testing.clean_environment({"PATH": f"{Path(WEIR).parent}:{os.environ['PATH']}", **testing.POOL, **extra})
            done = testing.run(["bash", "-eu", "-c", f"cd $0\n{script}", folder], environment, 3 * testing.LIMIT_S)
            case.assertEqual(done.code, 0, f"{script}\n{done}")
            errors = [line for line in done.err.splitlines() if line.startswith("weir: error") and not any(words in line for words in MAY_COME)]
            case.assertEqual(errors, [], f"{script}\n{done}")
    return len(blocks)


class Launchers(unittest.TestCase):
    def commands_run(self, launcher, find, extra):
        try:
            find()
        except launchers.Missing as missing:
            self.skipTest(str(missing))
        with tempfile.TemporaryDirectory(prefix="weir-pages-") as folder:
            for name in ("click", "part-1", "part-2"):
                testing.write(f"{folder}/{name}.svm", testing.text_like())
            self.assertGreater(sum(run_blocks(self, page, launcher, folder, extra) for page in PAGES), 0)

    def test_mpirun(self):
        self.commands_run("mpirun", launchers.find_openmpi, {"OMPI_MCA_rmaps_base_oversubscribe": "1"})

    def test_hydra(self):
        self.commands_run("hydra", lambda: launchers.find("mpich", "mpiexec.hydra"), {})

    def test_srun(self):
        with contextlib.ExitStack() as stack:
            extra = {}
            self.commands_run("srun", lambda: extra.update(stack.enter_context(launchers.slurm())), extra)


class Pages(unittest.TestCase):
    def test_commands_run(self):
        count = 0
        for page in PAGES:
            with tempfile.TemporaryDirectory(prefix="weir-pages-") as folder, self.subTest(page):
                count += run_blocks(self, page, "", folder, {})
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
