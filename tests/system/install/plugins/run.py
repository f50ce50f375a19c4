#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the plugins beside this file with the installed header alone, and runs jobs with them: by `weir run`, with workers that have none,
and with servers that join.

Usage: run.py PREFIX WORK FLAG...    PREFIX: where Weir is installed; WORK: an existing folder; FLAG: of the compiler of programs
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from reserved_port import ReservedPort  # noqa: E402

LIMIT_S = 120
WARNINGS = ["-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SAID = "rows are what they must be\n"


def expect(is_so, what):
    if not is_so:
        raise SystemExit(what)


def ranks_of(trainer, at, size, shape, arguments=()):
    """shape: of each rank, its WEIR_PLUGINS"""
    place = {**os.environ, "WEIR_RENDEZVOUS": at, "WEIR_SIZE": str(size), "WEIR_SERVERS": "2" if size > 2 else "1"}
    return [
        subprocess.Popen([trainer, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**place, "WEIR_RANK": str(rank), "WEIR_PLUGINS": plugins})
        for rank, plugins in enumerate(shape)
    ]


def ended(ranks):
    said = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
    return [rank.returncode for rank in ranks], "".join(out or "" for out, _ in said), [err for _, err in said]


def check_info(weir, plugins):
    shown = subprocess.run([weir, "info", "--plugin", plugins[0], "--plugin", plugins[1]], capture_output=True, text=True, check=True).stdout
    for words in ("group_lasso, version 1", "lambda (>= 0)", "workers' pushes are combined by mean", "rate (else the table's)", "float32: 4 bytes for a row of 1"):
        expect(words in shown, f"weir info does not say '{words}':\n{shown}")
    told = json.loads(subprocess.run([weir, "info", "--plugin", plugins[1], "--json"], capture_output=True, text=True, check=True).stdout)
    rule = told["plugins"][0]["rules"][0]
    expect(rule["name"] == "clipped_sgd" and rule["types"] == ["float32", "float64"] and rule["wants_keys"], told)
    done = subprocess.run([weir, "info", "--plugin", HERE / "group_lasso.c"], capture_output=True, text=True, check=False)
    expect(done.returncode == 2 and "group_lasso.c: it is no shared object (ELF)" in done.stderr, done)


def check_codec(weir, plugin):
    shown = subprocess.run([weir, "info", "--plugin", plugin], capture_output=True, text=True, check=True).stdout
    expect("signs, version 1, a codec\n    types          float32\n" in shown, shown)
    told = json.loads(subprocess.run([weir, "info", "--plugin", plugin, "--json"], capture_output=True, text=True, check=True).stdout)
    expect(told["plugins"][0]["codecs"] == [{"name": "signs", "version": 1, "types": ["float32"]}] and told["plugins"][0]["rules"] == [], told)


def check_functions(weir, plugin):
    shown = subprocess.run([weir, "info", "--plugin", plugin], capture_output=True, text=True, check=True).stdout
    expect("shrink, version 1, a function that changes rows" in shown and "numbers        by" in shown and "zeros, version 1, a function that reads rows" in shown, shown)
    told = json.loads(subprocess.run([weir, "info", "--plugin", plugin, "--json"], capture_output=True, text=True, check=True).stdout)
    functions = told["plugins"][0]["functions"]
    expect([one["name"] for one in functions] == ["shrink", "zeros"] and functions[0]["changes"] and functions[0]["types"] == ["float32"], told)


def check_ranks(trainer, both, first):
    with ReservedPort() as port:
        codes, out, errors = ended(ranks_of(trainer, f"127.0.0.1:{port}", 4, [both, both, "", ""]))
    expect(codes == [0] * 4 and out == SAID, f"ranks whose workers have no plugin: {codes} {out} {errors}")
    with ReservedPort() as port:
        codes, _, errors = ended(ranks_of(trainer, f"127.0.0.1:{port}", 3, [both, first, ""]))
    for code, error in zip(codes, errors):
        expect(code == 1 and "lacks the plugin clipped_sgd.so, which rank 0 (" in error and "rank 1 (" in error, f"ranks with other plugins: {codes} {errors}")


def check_joiners(weir, trainer, plugins, both):
    with ReservedPort() as port:
        at = f"127.0.0.1:{port}"
        ranks = ranks_of(trainer, at, 2, [both, ""], ["1"])
        join = [weir, "server", "--join", at]
        try:
            while subprocess.run([weir, "status", at], capture_output=True, check=False).returncode:
                expect(all(rank.poll() is None for rank in ranks), "a rank has ended")
            without = subprocess.run(join, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            expect(without.returncode == 2 and ") lacks the plugin group_lasso.so, which each server of the job has loaded" in without.stderr, without)
            joined = subprocess.Popen([*join, "--plugin", plugins[0], "--plugin", plugins[1]], stderr=subprocess.PIPE, text=True)
            codes, out, errors = ended([*ranks, joined])
        finally:
            for rank in ranks:
                rank.kill()  # if something is wrong, they still wait for the server
    expect(codes == [0, 0, 0] and out == SAID, f"a server that joined: {codes} {out} {errors}")


def main():
    prefix, work = (Path(path).resolve() for path in sys.argv[1:3])
    include = next(flag for flag in sys.argv[3:] if flag.startswith("-I"))
    header = work / "plugin_header" / "weir"  # and no other
    header.mkdir(parents=True)
    (header / "weir_plugin.h").write_bytes((Path(include[2:]) / "weir" / "weir_plugin.h").read_bytes())
    compiler = os.environ.get("CXX", "g++").split()
    plugins = [str(work / "group_lasso.so"), str(work / "clipped_sgd.so")]
    signs = str(work / "signs.so")
    shrink = str(work / "shrink.so")
    shared = [*WARNINGS, "-shared", "-fPIC", "-I", str(header.parent)]
    for source, plugin in (("group_lasso.c", plugins[0]), ("signs.c", signs), ("shrink.c", shrink)):
        subprocess.run([*os.environ.get("CC", "cc").split(), "-std=c99", *shared, HERE / source, "-o", plugin, "-lm"], check=True)
    subprocess.run([*compiler, "-std=c++17", *shared, HERE / "clipped_sgd.cc", "-o", plugins[1]], check=True)
    print("ok plugins in C and C++ need one header")
    trainer = str(work / "plugin_trainer")
    subprocess.run([*compiler, *WARNINGS, HERE / "trainer.cc", "-o", trainer, *sys.argv[3:]], check=True)
    weir = str(prefix / "bin" / "weir")
    check_info(weir, plugins)
    check_codec(weir, signs)
    check_functions(weir, shrink)
    run = [weir, "run", "-n", "4", "--servers", "2", "--replicas", "1", "--plugin", plugins[0], "--plugin", plugins[1], "--plugin", signs, "--plugin", shrink, "--", trainer]
    done = subprocess.run(run, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True).stdout
    expect(SAID in done and re.search(r"signs: 3200 bytes became 1[0-9][0-9]\n", done), done)  # a bit each, and a number for each request
    expect("shrink: 2 zeros, a sum of -1\n" in done, done)
    both = ":".join(plugins)
    check_ranks(trainer, both, plugins[0])
    check_joiners(weir, trainer, plugins, both)
    print("ok jobs with plugins")
    return 0


if __name__ == "__main__":
    sys.exit(main())
