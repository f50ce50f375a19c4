#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every C++ example of the pages and of lib/weir.h against an installed Weir, without a warning, and runs it.

Usage: examples.py ROOT WORK FLAG...    ROOT: the tree; WORK: an existing folder for what is built; FLAG: of the compiler

A block with a main() is a program, which runs alone and as the ranks of each launcher. Any other block is the inside of a function that has
a `client` and returns a weir::Status; it runs alone. A block `sh installed` has commands that make and start programs of the files beside it:
of trainer.cc, the first program of the README, and of plugins/. A block `cmake` stands in the CMakeLists.txt of trainer.cc.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SYSTEM = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(SYSTEM), str(SYSTEM / "launchers")]
import launch as launchers  # noqa: E402
from reserved_port import ReservedPort  # noqa: E402

PAGES = ("README.md", "lib/embedding.md", "lib/functions.md", "lib/send_less.md", "lib/store/rules/rules.md", "lib/worker/iterations.md", "lib/weir.h")

PREAMBLE = """#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>
#include <weir/weir.h>
static weir::Status example(weir::Client& client) {
"""
MAIN = """
return {};
}
int main() {
    const weir::Status done = weir::run({}, example);
    if (!done) std::fprintf(stderr, "%s\\n", done.error().message().c_str());
    return done ? 0 : 1;
}
"""


def blocks(text, kind="cpp"):
    """(line, code) of each block"""
    for match in re.finditer(rf"^```{kind}\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, match.start()) + 1, match[1]


SHAPES = ({}, {"WEIR_SERVERS": "2", "WEIR_SHARDS": "2", "WEIR_WORKERS": "2", "WEIR_REPLICAS": "1"}, {"WEIR_SERVERS": "3", "WEIR_COLOCATE": "yes"})


def run_as_ranks(programs):
    """As three ranks that find each other by a rendezvous, in several shapes, and under each launcher that is installed. Raises
    CalledProcessError."""
    for program, shape in ((program, shape) for program in programs for shape in SHAPES):
        with ReservedPort() as port:
            place = {**os.environ, "WEIR_RENDEZVOUS": f"127.0.0.1:{port}", "WEIR_SIZE": "3", **shape}
            ranks = [subprocess.Popen([program], env={**place, "WEIR_RANK": str(rank)}) for rank in range(3)]
            for rank in ranks:
                if rank.wait(timeout=60):
                    raise subprocess.CalledProcessError(rank.returncode, rank.args)
    for kind in ("weir", "openmpi", "hydra", "slurm-pmix"):
        try:
            with launchers.launcher(kind) as launch:
                for program in programs:
                    done = launch(3, [program])
                    if done.code:
                        raise subprocess.CalledProcessError(done.code, f"{kind}: {program}", done.out, done.err)
            print(f"ok {len(programs)} programs by {kind}")
        except launchers.Missing as missing:
            print(f"SKIPPED: {missing}")


def run_commands(script, folder):
    try:
        launchers.find_openmpi()
    except launchers.Missing as missing:
        print(f"SKIPPED: {missing}")
        return
    done = launchers.run(["bash", "-eu", "-c", f"cd $0\n{script}", folder], launchers.clean_environment({"OMPI_MCA_rmaps_base_oversubscribe": "1"}), 120)
    if done.code:
        raise subprocess.CalledProcessError(done.code, script, done.out, done.err)
    print(f"ok {script}", end="")


def build_by_cmake(block, folder):
    (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.18)\nproject(trainer CXX)\nadd_executable(trainer trainer.cc)\n{block}")
    for words in (["-S", folder, "-B", folder / "build"], ["--build", folder / "build"]):
        subprocess.run(["cmake", *words], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([folder / "build/trainer"], check=True, timeout=60)
    print(f"ok {block}", end="")


# A program that calls the steps of weir::run() itself.
IN_STEPS = """int main() {
    weir::set_log_sink(weir::stderr_log_sink());
    auto job = weir::Job::start(weir::JobOptions{});
    const weir::Status done = job ? (*job)->run_workers(train) : weir::Status(job.error());
    if (!done) std::fprintf(stderr, "%s\\n", done.error().message().c_str());
    return done ? 0 : 1;
}
"""


def check_without_serve(source, compile_as):
    """As two ranks, of which the first serves and forgets to say so: both name that."""
    code = source.read_text()
    unserved = source.with_name(f"{source.stem}_unserved.cc")
    function = "weir::Status train(weir::Client& client) {"
    if function not in code:
        raise SystemExit(f"{source}: no {function}")
    code = code.replace(function, f"{function}\n    std::this_thread::sleep_for(std::chrono::seconds(3));", 1)
    unserved.write_text(f"#include <chrono>\n#include <thread>\n{code[:code.index('int main() {')]}{IN_STEPS}")
    compile_as(unserved, unserved.with_suffix(""))
    with ReservedPort() as port:
        place = {**os.environ, "WEIR_RENDEZVOUS": f"127.0.0.1:{port}", "WEIR_SIZE": "2"}
        ranks = [subprocess.Popen([unserved.with_suffix("")], stderr=subprocess.PIPE, text=True, env={**place, "WEIR_RANK": str(rank)}) for rank in range(2)]
        said = [rank.communicate(timeout=120)[1] for rank in ranks]
    codes = [rank.returncode for rank in ranks]
    if codes != [0, 1] or "rank 0 ends before the job is over" not in said[0] or "rank 0 left before the job was over: did it call serve()?" not in said[1]:
        raise SystemExit(f"{unserved}: as two ranks: {codes}\n{said[0]}\n{said[1]}")


def main():
    root, work = (Path(path).resolve() for path in sys.argv[1:3])
    compiler = [*os.environ.get("CXX", "g++").split(), "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    count, programs = 0, []

    def compile_as(source, program):
        subprocess.run([*compiler, str(source), "-o", str(program), *sys.argv[3:]], check=True)

    for path in PAGES:
        text = (root / path).read_text()
        if path.endswith(".h"):
            text = re.sub(r"^/// ?", "", text, flags=re.M)
        for line, code in blocks(text):
            count += 1
            is_program = "int main(" in code
            source = work / f"example_{count}.cc"
            code = f'#line {line + 1} "{path}"\n{code}'
            source.write_text(code if is_program else PREAMBLE + code + MAIN)
            program = source.with_suffix("")
            compile_as(source, program)
            subprocess.run([str(program)], check=True, timeout=60)
            if is_program:
                programs.append(program)
                if "weir::run(" not in code:
                    raise SystemExit(f"{path}:{line}: a program that does not use weir::run()")
                if len(programs) == 1:
                    check_without_serve(source, compile_as)
                    folder = work / "commands"
                    folder.mkdir()
                    shutil.copy(source, folder / "trainer.cc")
                    for _, script in blocks(text, "sh installed"):
                        run_commands(script, folder)
                    for _, block in blocks(text, "cmake"):
                        build_by_cmake(block, folder)
            print(f"ok {path}:{line}")
    run_as_ranks(programs)
    plugins = shutil.copytree(Path(__file__).parent / "plugins", work / "plugins")
    for _, script in blocks((root / "lib/plugins.md").read_text(), "sh installed"):
        run_commands(script, plugins)
    return 0 if count >= 8 else f"only {count} examples found"


if __name__ == "__main__":
    sys.exit(main())
