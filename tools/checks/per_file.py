# SPDX-License-Identifier: Apache-2.0
"""Checks that look at one file at a time, in parallel, and leave out files that passed as they are."""

import json
import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

from remember import FileMemory, digest, tools_version, tree_files
from workshop import Failure, Outcome

NOISE = re.compile(r"^\d+ warnings generated\.\n", re.M)
OURS = ("lib/", "transport/", "bench/", "tests/", "tools/")
# clang-tidy looks at the library, headers of it included; tests, benches and programs are left to the compilers.
TIDY = ("lib/", "transport/")


def sources(root, folders, suffixes):
    return [name for name in tree_files(root) if name.startswith(folders) and name.endswith(suffixes)]


def check_files(shop, names, salt, command_of, seconds=300):
    """Runs command_of(name) for every file that is not known to pass; the output of those that fail goes to the log."""
    memory = FileMemory(shop.root, shop.dir / f"{shop.phase}-cache", salt)
    keys = {name: memory.key(name) for name in names}
    todo = [name for name in names if not memory.passed(keys[name])]

    def one(name):
        command, text = command_of(name)
        try:
            done = subprocess.run(command, cwd=shop.root, input=text, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return name, f"did not end within {seconds} s"
        return name, None if done.returncode == 0 else NOISE.sub("", done.stdout + done.stderr)

    failed = []
    with ThreadPoolExecutor(shop.jobs) as pool:
        for name, problem in pool.map(one, todo):
            if problem is None:
                memory.store(keys[name])
            else:
                failed.append(name)
                shop.log(f"{name}:\n{problem}")
    if failed:
        shop.log("failed: " + " ".join(failed))
    note = f"{len(names)} files, {len(names) - len(todo)} unchanged"
    return Outcome(passed=0 if failed else 1, failed=len(failed), note=note)


def clang_format(shop):
    names = sources(shop.root, OURS, (".h", ".cc"))
    shop.run(["clang-format-14", "--dry-run", "-Werror", *names])
    return Outcome(passed=1, note=f"{len(names)} files")


def clang_tidy(shop):
    """All checks of .clang-tidy but the static analyzer's, which take three times as long as all others together."""
    return tidy(shop, "--checks=-clang-analyzer-*")


def analyze(shop):
    return tidy(shop, "--checks=-*,clang-analyzer-*")


def tidy(shop, checks):
    folder = shop.build("release")
    names = sources(shop.root, TIDY, (".cc",))
    built = {entry["file"] for entry in compile_commands(shop.root, folder)}
    names = [name for name in names if name in built]
    salt = digest(tools_version(), checks, (shop.root / ".clang-tidy").read_bytes())
    command = ["clang-tidy-14", "--quiet", checks, "-p", folder, "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-ignored-optimization-argument"]
    return check_files(shop, names, salt, lambda name: ([*command, name], None))


def headers_alone(shop):
    """Every header must compile when it is the only one that a file includes."""
    folder = shop.build("release")
    commands = compile_commands(shop.root, folder)
    if not commands:
        raise Failure("the release build compiles nothing")
    words = sorted({word for entry in commands for word in entry["words"] if word.startswith(("-I", "-isystem", "-D"))})
    words = [word for word in words if not word.startswith("-I") or not word.endswith(".p")]
    command = ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{shop.root}", f"-I{folder}", *words, "-x", "c++", "-"]
    names = sources(shop.root, OURS, (".h",))
    return check_files(shop, names, digest(tools_version(), *words), lambda name: (command, f'#include "{name}"\n'))


def compile_commands(root, folder):
    """meson's compile_commands.json with files named from the root and paths in flags made absolute."""
    entries = []
    for entry in json.loads((folder / "compile_commands.json").read_text()):
        words = [absolute(word, entry["directory"]) for word in shlex.split(entry["command"])]
        path = os.path.join(entry["directory"], entry["file"])
        entries.append({"file": os.path.relpath(path, root), "words": words})
    return entries


def absolute(word, directory):
    for flag in ("-isystem", "-I"):
        if word.startswith(flag) and len(word) > len(flag):
            return flag + os.path.normpath(os.path.join(directory, word[len(flag):]))
    return word
