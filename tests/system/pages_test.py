#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands on the pages are run, and flags and variables that pages name exist.

    pages_test.py PATH-OF-WEIR PAGE... Pages|Launchers|Brief
    pages_test.py --variables PATH-OF-WEIR               # prints the table of tools/weir/variables.md

How a block is run is said behind its ```: those of a page for one way are run one after the other, in one folder. They have at most one port,
127.0.0.1:7070, which is replaced.

    sh              as it stands; errors that `weir` prints count
    sh mpirun       (or another launcher) by Launchers, if that is installed
    bash            as a job script of Slurm, on one node
    sh brief        by Brief
    sh tree         in the tree
    sh installed    by install/examples.py, against an installed copy
    console         lines behind "$ " as they stand; then each line shown begins a line that is printed, up to its first number or gap
    output          each line begins one that the block before it has printed, likewise

What does not run as it stands is shortened as SHORT says, where it would take minutes. Of all other commands of weir, and of programs in
tools/, the flags are looked up in --help.
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
NO_VARIABLES = {"WEIR_VERSION", "WEIR_VERSION_NUMBER", "WEIR_MAKE_VERSION", "WEIR_TRY", "WEIR_ASSIGN", "WEIR_CHECK", "WEIR_SEED", "WEIR_HISTORIES", "WEIR_HISTORIES_SHARE", "WEIR_TRAIN_FILE"}
COMMAND_LINE = re.compile(r"(\$|weir|mpirun|srun|mpiexec\S*|g\+\+|meson|ninja|export|(\./)?(tools|tests)/\S+) ", re.M)  # at the start of a line
SHORT = (  # (what, in place of it)
    (r"^((?:WEIR_\w+=\S+ )?weir bench [^#\n]*?)(?= *#|$)", r"\1 --brief"),
    (r"^tests/rxe/run --build \S+ --only (\w+)", r"test -x $TREE/tests/rxe/run -a -e $TREE/tests/rxe/pieces/\1"),  # the phase rxe runs it
    (r"^(weir synth --out \S+)(?= *#)", r"\1 --examples 20000 --features 20000"),
    (r"^(tools/install-deps) ", r"\1 --list "),
    (r"\bbuild-release\b", r"$FOLDER/build"),
    (r"\bninja -C", r"ninja -n -C"),
    (r"^(./tools/quickstart)", r"\1 --help"),  # quickstart_test.py runs it
    (r"^(./tools/check)", r"\1 --list"),
)
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
        if kind not in ("sh", "console", "cpp", "cmake"):
            yield from COMMAND.findall(block.replace("\\\n", " "))
    for words in INLINE.findall(BLOCK.sub("", text)):
        yield from COMMAND.findall(words)


def shortened(script):
    for long, short in SHORT:
        script = re.sub(long, short, script, flags=re.M)
    return script


def label(line):
    return re.match(r"(?:(?!  |\d|-\d).)*", line.strip())[0].strip()


def check_session(case, session, run):
    """Each command's output has a line like each that is shown below it, in their order. A line of dots stands for any."""
    for part in re.split(r"^\$ ", session, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        done = run(f"exec 2>&1\n{command}")
        case.assertEqual(done.code, 0, f"{command}\n{done}")
        printed = iter(done.out.splitlines())
        for line in shown.splitlines():
            if line != "...":
                case.assertTrue(any(label(line) == label(other) for other in printed), f"{command}\n{line}\n{done}")


def run_blocks(case, page, way, folder, extra):
    """Runs the blocks of a page for this way of running them, one after the other in the folder; returns how many."""
    blocks, is_wanted = [], False
    for kind, wanted, block in BLOCK.findall(page.read_text()):
        is_wanted = is_wanted if kind == "output" else kind in ("sh", "console") and wanted == way
        if is_wanted:
            blocks.append((kind, block))
    environment = testing.clean_environment({"PATH": f"{Path(WEIR).parent}:{os.environ['PATH']}", **testing.POOL, "TREE": str(ROOT), "FOLDER": folder, **extra})
    place = str(ROOT) if way == "tree" else folder

    def run(script):
        return testing.run(["bash", "-eu", "-c", f"cd $0\n{script}", place], environment, (10 if way == "brief" else 3) * testing.LIMIT_S)

    with ReservedPort() as port:
        for kind, block in blocks:
            if kind == "console":
                check_session(case, block, run)
                continue
            if kind == "output":
                printed = {label(line) for line in done.out.splitlines()}
                case.assertEqual([line for line in block.splitlines() if label(line) not in printed], [], f"{page}\n{done}")
                continue
            script = block.replace("127.0.0.1:7070", f"127.0.0.1:{port}")
            script = shortened(script) if way else script
            done = run(f"exec 2>&1\n{script}")
            case.assertEqual(done.code, 0, f"{script}\n{done}")
            errors = [line for line in done.out.splitlines() if line.startswith("weir: error") and not any(words in line for words in MAY_COME)]
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

    def test_sbatch(self):
        """On the one node that there is."""
        extra = {}
        with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory(prefix="weir-pages-") as folder:
            try:
                extra.update(stack.enter_context(launchers.slurm()))
            except launchers.Missing as missing:
                self.skipTest(str(missing))
            os.mkdir(f"{folder}/checkpoints")
            for name in ("part-1", "part-2"):
                testing.write(f"{folder}/{name}.svm", testing.text_like())
            scripts = [block for page in PAGES for kind, _, block in BLOCK.findall(page.read_text()) if kind == "bash"]
            self.assertTrue(scripts)
            for number, script in enumerate(scripts):
                short = re.sub(r"--nodes=\d+", "--nodes=1", re.sub(r"--ntasks-per-node=\d+", "--ntasks-per-node=3", script))
                Path(f"{folder}/script-{number}").write_text(short)
                environment = testing.clean_environment({"PATH": f"{Path(WEIR).parent}:{os.environ['PATH']}", **testing.POOL, **extra})
                done = testing.run(["sbatch", "--wait", f"--chdir={folder}", f"{folder}/script-{number}"], environment, 3 * testing.LIMIT_S)
                said = "\n".join(path.read_text() for path in Path(folder).glob("weir-*.log"))
                self.assertEqual(done.code, 0, f"{done}\n{said}")
                self.assertTrue(list(Path(folder).glob("model-*.txt")), said)


class Brief(unittest.TestCase):
    def test_commands_that_take_minutes(self):
        with tempfile.TemporaryDirectory(prefix="weir-pages-") as folder:
            self.assertGreater(sum(run_blocks(self, page, "brief", folder, {}) for page in PAGES), 0)


class Pages(unittest.TestCase):
    def test_commands_run(self):
        for way, least in (("", 10), ("tree", 1)):
            count = 0
            for page in PAGES:
                with tempfile.TemporaryDirectory(prefix="weir-pages-") as folder, self.subTest(page):
                    for name in ("adult.train", "adult.test"):
                        testing.write(f"{folder}/{name}.svm", testing.like_adult())
                    count += run_blocks(self, page, way, folder, {})
            self.assertGreater(count, least)

    def test_blocks_of_commands_say_how_they_are_run(self):
        for page in PAGES:
            for kind, _, block in BLOCK.findall(page.read_text()):
                if not kind:
                    self.assertIsNone(COMMAND_LINE.search(block), f"{page}:\n{block}")

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
        old = re.findall(r'old_name = "(\w+)"', (ROOT / "lib/base/config_variables.h").read_text())
        in_c = re.findall(r"\bWEIR_[A-Z_]+", (ROOT / "lib/store/plugins/weir_plugin.h").read_text())
        known = {one["name"] for one in variables()} | NO_VARIABLES | set(old) | set(in_c) | {"WEIR_TYPE"}
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
