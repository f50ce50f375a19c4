# SPDX-License-Identifier: Apache-2.0
"""Checks of one file at a time, in parallel. It skips files that passed and have not changed since."""

import json
import os
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from remember import FileMemory, digest, tools_version, tree_files
from workshop import Failure, Outcome

NOISE = re.compile(r"^\d+ warnings generated\.\n", re.M)
USING = re.compile(r"^\s*using (?:\w*::)+(\w+);", re.M)
COMMENT = re.compile(r"//.*")
OURS = ("lib/", "transport/", "bench/", "tests/", "tools/")
# clang-tidy looks at the library, including its headers; tests, benches and programs are checked by the compilers only.
TIDY = ("lib/", "transport/")


def sources(root, folders, suffixes):
    return [name for name in tree_files(root) if name.startswith(folders) and name.endswith(suffixes)]


def check_files(shop, names, salt, command_of):
    """Runs command_of(name), which gives (command, stdin), for every name that has not passed before. The output of failed
    commands goes to the log. `names` lists files, or maps the names of groups to lists of files."""
    memory = FileMemory(shop.root, shop.dir / f"{shop.phase}-cache", salt)
    files_of = names if isinstance(names, dict) else {name: [name] for name in names}
    keys = {name: memory.key(files) for name, files in files_of.items()}
    todo = [name for name in names if not memory.passed(keys[name])]

    def one(name):
        code, output = shop.output_of(*command_of(name))
        return name, None if code == 0 else NOISE.sub("", output)

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
    """Runs the checks of .clang-tidy except one that unused_using() replaces. It checks all files of a folder, or of several small ones, as
    one file that includes them: clang-tidy spends most of its time on the headers of the standard library."""
    checks = "--checks=-misc-unused-using-decls"
    folder = shop.build("release")
    entries = compile_commands(shop.root, folder)
    built = {entry["file"] for entry in entries}
    groups = in_groups([name for name in sources(shop.root, TIDY, (".cc",)) if name in built])
    if not groups:
        raise Failure("the release build compiles no file of the library; see its log")
    words = include_and_define_words(entries)
    salt = digest(tools_version(), checks, *words, (shop.root / ".clang-tidy").read_bytes())
    together = shop.dir / "tidy"
    together.mkdir(exist_ok=True)

    def command_of(group):
        lines = [f'#include "{shop.root / name}"  // NOLINT(bugprone-suspicious-include)\n' for name in groups[group]]
        path = together / (group.replace("/", "-") + ".cc")
        path.write_text("".join(lines))
        command = ["clang-tidy-14", "--quiet", checks, f"--config-file={shop.root / '.clang-tidy'}", f"--header-filter=^{shop.root}/", path]
        return [*command, "--", "-std=c++20", "-O2", "-Wno-unknown-warning-option", f"-I{shop.root}", f"-I{folder}", *words], ""

    outcome = check_files(shop, groups, salt, command_of)
    unused = list(unused_using(shop.root))
    if unused:
        shop.log("\n".join(unused))
        outcome.passed, outcome.failed = 0, outcome.failed + len(unused)
    outcome.note = f"{sum(map(len, groups.values()))} files in groups: {outcome.note}"
    return outcome


def in_groups(names, files_min=48):
    """{first folder of a group: its files}: joins whole folders until a group has `files_min` files."""
    folders = {}
    for name in names:
        folders.setdefault(os.path.dirname(name), []).append(name)
    groups, room = {}, {}
    for folder, files in folders.items():
        top = folder.split("/")[0]
        if top not in room or len(groups[room[top]]) >= files_min:
            room[top] = folder
            groups[folder] = []
        groups[room[top]] += files
    return groups


def unused_using(root):
    """Does the work of misc-unused-using-decls, which checks main files only; tidy() includes all sources in another file."""
    for name in sources(root, OURS, (".cc",)):
        text = COMMENT.sub("", (root / name).read_text())
        for found in USING.finditer(text):
            if len(re.findall(rf"\b{found[1]}\b", text)) == len(re.findall(rf"::{found[1]}\s*;", text)):
                yield f"{name}: error: 'using ... {found[1]}' is not used"


def headers_alone(shop):
    """Every header must compile when it is the only one that a file includes."""
    folder = shop.build("release")
    commands = compile_commands(shop.root, folder)
    if not commands:
        raise Failure("the release build compiles no file; see its log")
    words = include_and_define_words(commands)
    command = ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{shop.root}", f"-I{folder}", *words, "-x", "c++", "-"]
    has_eigen = any("eigen" in word for word in words)
    names = [name for name in sources(shop.root, OURS, (".h",)) if has_eigen or name != "lib/eigen.h"]
    return check_files(shop, names, digest(tools_version(), *words), lambda name: (command, f'#include "{name}"\n'))


def compile_commands(root, folder):
    """The entries of meson's compile_commands.json, one for each source, with file names relative to the root and absolute paths in flags."""
    entries = []
    for entry in json.loads((folder / "compile_commands.json").read_text()):
        words = [absolute(word, entry["directory"]) for word in shlex.split(entry["command"])]
        for path in sources_of(os.path.join(entry["directory"], entry["file"])):
            entries.append({"file": os.path.relpath(path, root), "words": words})
    return entries


def sources_of(path):
    """The files that meson compiles as the one at `path`."""
    if not re.search(r"-unity\d+\.cpp$", path):
        return [path]
    return [os.path.join(os.path.dirname(path), name) for name in re.findall(r'#include\s*[<"]([^">]+)[">]', Path(path).read_text())]


def include_and_define_words(entries):
    words = {word for entry in entries for word in entry["words"] if word.startswith(("-I", "-isystem", "-D"))}
    return sorted(word for word in words if not word.startswith("-I") or not word.endswith(".p"))


def absolute(word, directory):
    for flag in ("-isystem", "-I"):
        if word.startswith(flag) and len(word) > len(flag):
            return flag + os.path.normpath(os.path.join(directory, word[len(flag):]))
    return word
