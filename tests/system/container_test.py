#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process in a container that may have little memory. Usage: container_test.py PATH-OF-WEIR PATH-OF-LIBRARY-PROCESS

Skipped aloud (exit 77) where no group of processes with a limit of memory can be made."""

import os
import sys
import tempfile
import unittest

import lr_testing as testing

LIBRARY = ""  # a program that embeds the library
MIB = 2**20


class Group:
    """A control group whose processes may have so much memory together, of either version of the interface."""

    ROOTS = {"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"}

    def __init__(self, limit_bytes):
        self.folder = None
        why = []
        for root, limit in self.ROOTS.items():
            try:
                folder = tempfile.mkdtemp(prefix="weir-test-", dir=root)
            except OSError as error:
                why.append(str(error))
                continue
            try:
                with open(os.path.join(folder, limit), "w", encoding="ascii") as file:
                    file.write(str(limit_bytes))
                self.folder = folder
                return
            except OSError as error:
                why.append(str(error))
                os.rmdir(folder)
        raise OSError("; ".join(why))

    def command(self, words):
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', os.path.join(self.folder, "cgroup.procs"), *words]

    def kills(self):
        """How often the kernel has killed a process in it; None: it does not say."""
        for name in ("memory.oom_control", "memory.events"):
            path = os.path.join(self.folder, name)
            if not os.path.exists(path):
                continue
            with open(path, encoding="ascii") as file:
                counts = dict(line.split() for line in file)
            return int(counts["oom_kill"])
        return None

    def close(self):
        os.rmdir(self.folder)


class Container(testing.Folder, unittest.TestCase):
    def tables(self, count, limit_bytes, **variables):
        """What a process says that makes so many sparse tables of three keys on four shards."""
        group = Group(limit_bytes)
        try:
            words = group.command([LIBRARY, "tables", str(count)])
            done = testing.run(words, testing.clean_environment(variables), 240)
            self.assertIn(group.kills(), (0, None), done)
        finally:
            group.close()
        return done

    def test_a_thousand_small_sparse_tables_have_room_in_300_mib(self):
        done = self.tables(1000, 300 * MIB)
        self.assertEqual((done.code, done.out), (0, "ok\n"), done)


if __name__ == "__main__":
    LIBRARY = os.path.abspath(sys.argv.pop(2))
    try:
        Group(64 * MIB).close()
    except OSError as error:
        print(f"skipped: no control group with a limit of memory can be made: {error}")
        sys.exit(77)
    testing.main(testing.Folder, module="__main__")
