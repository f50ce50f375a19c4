# SPDX-License-Identifier: Apache-2.0
"""Remembers which phases and files passed, so that a second run repeats only those whose result may have changed."""

import hashlib
import json
import os
import platform
import re
import subprocess
from functools import lru_cache

INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.M)


def digest(*parts):
    hasher = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        hasher.update(len(data).to_bytes(8, "little") + data)
    return hasher.hexdigest()


def tree_files(root):
    """The project's files, tracked and new, as paths from the root, without those that .gitignore names."""
    listing = subprocess.run(["git", "ls-files", "-z", "-c", "-o", "--exclude-standard"], cwd=root, capture_output=True, check=False)
    if listing.returncode == 0:
        names = {name for name in listing.stdout.decode().split("\0") if name}
    else:  # an unpacked archive
        skipped = (".check/", "build", ".git/")
        names = {path.relative_to(root).as_posix() for path in root.rglob("*")}
        names = {name for name in names if not name.startswith(skipped)}
    return sorted(name for name in names if (root / name).is_file())


@lru_cache(maxsize=1)
def tools_version():
    """The machine and its compilers, on which the results depend besides the files."""
    words = [platform.platform()]
    for tool in ("g++", "clang++-14", "clang-tidy-14", "meson"):
        try:
            words.append(subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout)
        except OSError:
            words.append(f"no {tool}")
    return "\n".join(words)


def surroundings():
    """What tests depend on beside files: the variables of the caller, the user, the devices, and the packages that are installed."""
    variables = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("WEIR_")]
    devices = sorted(os.listdir("/sys/class/infiniband")) if os.path.isdir("/sys/class/infiniband") else []
    try:
        packages = os.stat("/var/lib/dpkg/status").st_mtime_ns
    except OSError:
        packages = 0
    return "\n".join([*variables, f"user {os.geteuid()}", *devices, f"packages {packages}"])


class Memory:
    """Remembers whole phases: one small file for each, with the key of its last success."""

    def __init__(self, root, folder, files):
        self.root, self.folder, self.files = root, folder, files
        folder.mkdir(parents=True, exist_ok=True)

    def key(self, phase):
        watched = [name for name in self.files() if name.startswith(phase.watches)]
        return digest(phase.name, tools_version(), surroundings(), *(f"{name} {digest((self.root / name).read_bytes())}" for name in watched))

    def recall(self, name, key):
        try:
            known = json.loads((self.folder / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None
        return known["passed"] if known.get("key") == key else None

    def store(self, name, key, passed):
        (self.folder / f"{name}.json").write_text(json.dumps({"key": key, "passed": passed}))


class FileMemory:
    """Remembers source files, or groups of them. A group is unchanged if its files and all headers of the project that they include are
    unchanged."""

    def __init__(self, root, folder, salt):
        self.root, self.folder, self.salt = root, folder, salt
        self._contents = {}
        folder.mkdir(parents=True, exist_ok=True)

    def key(self, names):
        seen, todo = {}, list(names)
        while todo:
            name_now = todo.pop()
            if name_now in seen:
                continue
            seen[name_now], includes = self._read(name_now)
            todo += includes
        return digest(self.salt, *names, *(f"{path} {seen[path]}" for path in sorted(seen)))

    def passed(self, key):
        return (self.folder / key).exists()

    def store(self, key):
        (self.folder / key).touch()

    def _read(self, name):
        if name not in self._contents:
            data = (self.root / name).read_bytes()
            includes = [path.decode() for path in INCLUDE.findall(data)]
            self._contents[name] = (digest(data), [path for path in includes if (self.root / path).is_file()])
        return self._contents[name]
