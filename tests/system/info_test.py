#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir info` as people and programs see it. Usage: info_test.py PATH-OF-WEIR"""

import ctypes
import json
import os
import resource
import subprocess
import sys
import unittest

WEIR = ""
CAP_IPC_LOCK = 14
PR_CAPBSET_DROP = 24


def environment(**variables):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_")}
    return {**clean, **variables}


def run(*arguments, prepare=None, **variables):
    return subprocess.run([WEIR, *arguments], env=environment(**variables), capture_output=True, text=True,
                          timeout=60, check=False, preexec_fn=prepare)


def lock_little():
    """64 KiB of locked memory, for root too."""
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0)  # refused to those who do not have it


class Info(unittest.TestCase):
    def info(self, *arguments, **more):
        done = run("info", "--json", *arguments, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), done.stderr

    def test_json_has_everything_under_names_that_stay(self):
        info, errors = self.info()
        self.assertEqual(errors, "")
        self.assertEqual(list(info), ["version", "compiler", "features", "transports", "rdma_devices", "topology",
                                      "huge_pages", "limits", "pool", "registered", "variables", "unknown_variables"])
        self.assertEqual(set(info["features"]), {"verbs", "rdmacm", "pmix", "jemalloc", "hwloc", "raft"})
        self.assertEqual([t["name"] for t in info["transports"]], ["shm", "verbs", "tcp"])
        for transport in info["transports"]:
            self.assertNotEqual(transport["usable"], bool(transport["reason"]), transport)
        topology = info["topology"]
        self.assertEqual(topology["allowed_cpus"], sorted(os.sched_getaffinity(0)))
        self.assertGreaterEqual(topology["cpus"], len(topology["allowed_cpus"]))
        self.assertGreaterEqual(topology["cores"], topology["sockets"])
        self.assertGreater(sum(n["memory_bytes"] for n in topology["numa_nodes"]), 0)
        with open("/proc/meminfo", encoding="ascii") as lines:
            total = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:"))
        self.assertEqual(topology["memory_bytes"], total)
        self.assertLessEqual(info["limits"]["available_memory_bytes"], total)
        self.assertEqual(info["limits"]["open_files"]["soft"], resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        self.assertEqual(info["limits"]["locked_memory"]["soft_bytes"],
                         None if soft == resource.RLIM_INFINITY else soft)
        for pages in info["huge_pages"]["sizes"]:
            path = f"/sys/kernel/mm/hugepages/hugepages-{pages['page_bytes'] // 1024}kB/nr_hugepages"
            with open(path, encoding="ascii") as number:
                self.assertEqual(pages["total"], int(number.read()))

    def test_transports_say_why_not_and_what_to_do(self):
        info, _ = self.info()
        transports = {t["name"]: t for t in info["transports"]}
        self.assertTrue(transports["shm"]["usable"], transports["shm"])
        verbs = transports["verbs"]
        self.assertEqual(verbs["usable"], any(d["usable"] for d in info["rdma_devices"]))
        if not info["features"]["verbs"]:
            self.assertIn("libibverbs", verbs["reason"])
        elif not info["rdma_devices"]:
            self.assertIn("rdma link add", verbs["reason"])
        for device in info["rdma_devices"]:
            self.assertTrue(device["ports"])
            self.assertGreater(device["limits"]["queue_pairs_max"], 0)

    def test_fewer_cpus_are_seen(self):
        one = min(os.sched_getaffinity(0))
        info, _ = self.info(prepare=lambda: os.sched_setaffinity(0, {one}))
        self.assertEqual(info["topology"]["allowed_cpus"], [one])

    def test_every_variable_has_value_default_and_meaning(self):
        info, _ = self.info(WEIR_POOL_MIB="7")
        variables = {v["name"]: v for v in info["variables"]}
        self.assertIn("WEIR_TRANSPORT", variables)
        self.assertIn("WEIR_SECRET_FILE", variables)
        for variable in variables.values():
            self.assertTrue(variable["meaning"])
            self.assertTrue(variable["allowed"])
            self.assertEqual(variable["error"], "")
        self.assertEqual(variables["WEIR_POOL_MIB"]["value"], "7")
        self.assertEqual(variables["WEIR_POOL_MIB"]["source"], "environment")
        self.assertNotEqual(variables["WEIR_POOL_MIB"]["default"], "7")
        self.assertEqual(variables["WEIR_TRANSPORT"]["source"], "default")
        self.assertEqual(info["pool"]["size_bytes"], 7 << 20)

    def test_a_bad_value_is_shown_and_not_fatal(self):
        info, _ = self.info(WEIR_POOL_MIB="lots", WEIR_PIN="maybe")
        errors = {v["name"]: v["error"] for v in info["variables"] if v["error"]}
        self.assertEqual(set(errors), {"WEIR_POOL_MIB", "WEIR_PIN"})
        self.assertIn("lots", errors["WEIR_POOL_MIB"])
        self.assertIn("lots", run("info", WEIR_POOL_MIB="lots").stdout)

    def test_an_unknown_variable_is_warned_about(self):
        info, errors = self.info(WEIR_POOL_MB="7")
        self.assertEqual([v["name"] for v in info["unknown_variables"]], ["WEIR_POOL_MB"])
        self.assertIn("WEIR_POOL_MIB", errors)
        self.assertIn("warning", errors)

    def test_bytes_that_are_no_text_do_not_break_the_json(self):
        done = subprocess.run([WEIR.encode(), b"info", b"--json"], capture_output=True, timeout=60, check=False,
                              env={**{k.encode(): v.encode() for k, v in environment().items()},
                                   b"WEIR_RDMA_DEVICE": b"\xff\xfe"})
        self.assertEqual(done.returncode, 0)
        json.loads(done.stdout.decode("utf-8"))

    def test_little_locked_memory_is_told_with_the_ulimit_to_set(self):
        info, _ = self.info(prepare=lock_little, WEIR_POOL_MIB="64")
        self.assertEqual(info["limits"]["locked_memory"]["soft_bytes"], 65536)
        if info["limits"]["locked_memory"]["may_lock_all"]:
            self.skipTest("the capability to lock memory cannot be given up here")
        self.assertFalse(info["pool"]["fits_locked_memory"])
        self.assertIn("ulimit -l 65536", info["pool"]["advice"])
        self.assertIn("ulimit -l 65536", run("info", prepare=lock_little, WEIR_POOL_MIB="64").stdout)

    def test_a_pool_larger_than_memory_is_told(self):
        info, _ = self.info(WEIR_POOL_MIB=str(1 << 24))
        self.assertFalse(info["pool"]["fits_memory"])
        self.assertIn("WEIR_POOL_MIB", info["pool"]["advice"])

    def test_what_a_job_would_register_and_by_whom(self):
        info, _ = self.info(WEIR_POOL_MIB="7", WEIR_EAGER_BYTES="4096")
        registered = {r["what"]: r for r in info["registered"]}
        self.assertEqual(registered["store pool"]["bytes"], 7 << 20)
        self.assertEqual(registered["worker pool"]["bytes"], 7 << 20)
        self.assertIn("server", registered["store pool"]["by"])
        self.assertIn("worker", registered["worker pool"]["by"])
        if info["features"]["verbs"]:
            buffers = registered["message buffers"]["bytes"]
            more, _ = self.info(WEIR_EAGER_BYTES="12288")
            self.assertGreater({r["what"]: r for r in more["registered"]}["message buffers"]["bytes"], buffers)
        line = next(line for line in run("info", WEIR_POOL_MIB="7").stdout.splitlines() if "a job registers" in line)
        self.assertIn("7 MiB store pool by a server process", line)

    def test_how_much_of_a_pool_remembered_lists_take(self):
        info, _ = self.info(WEIR_POOL_MIB="8")
        self.assertEqual(info["pool"]["lists_bytes_max"], 2 << 20)
        line = next(line for line in run("info", WEIR_POOL_MIB="8").stdout.splitlines() if "remembered lists" in line)
        self.assertIn("at most 2 MiB", line)

    def test_text_has_the_sections_and_no_spaces_at_line_ends(self):
        done = run("info")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        titles = [line for line in lines if line and not line.startswith(" ")]
        self.assertTrue(titles[0].startswith("Weir "))
        self.assertTrue(titles[3].startswith("Machine, by "))
        self.assertEqual(titles[1:3] + titles[4:],
                         ["Transports", "RDMA devices", "Huge pages", "Limits", "Variables"])
        self.assertEqual([line for line in lines if line != line.rstrip()], [])

    def test_f_shows_the_variables_only(self):
        done = run("info", "-f", WEIR_LOG="error")
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.startswith("Variables\n"))
        self.assertIn("WEIR_LOG", done.stdout)
        self.assertIn("error (set; default info)", done.stdout)
        info = json.loads(run("info", "-f", "--json").stdout)
        self.assertEqual(list(info), ["variables", "unknown_variables"])

    def test_a_full_disk_is_a_failure(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([WEIR, "info"], env=environment(), stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)


class CommandLine(unittest.TestCase):
    def test_alone_it_prints_help_and_fails(self):
        done = run()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("info", done.stdout + done.stderr)

    def test_version_and_help(self):
        done = run("--version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^weir \d+\.\d+\.\d+\nbuilt with ")
        done = run("info", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--json", done.stdout)

    def test_what_is_unknown_ends_with_2_and_a_hint(self):
        for arguments, hint in ((["info", "--jsn"], "weir info --help"), (["--frobnicate"], "weir --help"),
                                (["frobnicate"], "weir --help"), (["info", "more"], "weir info --help"),
                                (["bench", "frob"], "weir bench --help"), (["bench", "push", "--frob"], "weir bench push --help")):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(done.stdout, "")
            self.assertIn(hint, done.stderr)
            self.assertIn(arguments[-1].lstrip("-"), done.stderr)


if __name__ == "__main__":
    WEIR = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)  # names every case, and why one is skipped
