#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which of a host's addresses ranks listen on and give to each other: hosts are network namespaces that have other networks besides the
one that joins them. Usage: addresses_test.py PATH-OF-WEIR"""

import contextlib
import sys
import unittest
from pathlib import Path

import lr_testing as testing

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tools/torture.d"))
from hosts import NOBODY, Hosts, why_no_namespaces  # noqa: E402

NETWORK_6 = "fd00:99::"


@unittest.skipIf(why_no_namespaces(), why_no_namespaces())
class Addresses(testing.Folder, unittest.TestCase):
    def setUp(self):
        super().setUp()
        rows = testing.text_like(examples=60)
        self.wanted = testing.solve(rows, 0.3)
        self.train = [testing.write(self.path(f"part{i}.svm"), rows[i::2]) for i in range(2)]

    def command(self, *flags):
        return [self.WEIR, "lr", "--servers", "1", "--train", *self.train, "--l1", "0.3", "--json", self.path("result.json"), *flags]

    def named(self, hosts, i, text):
        """A command that runs others on a host with such an /etc/hosts."""
        file = self.folder / f"hosts-{i}"
        file.write_text(f"127.0.0.1 localhost\n{text}\n", encoding="ascii")
        return [*hosts.within(i), "unshare", "--mount", "sh", "-c", f'mount --bind {file} /etc/hosts && exec "$@"', "sh"]

    @contextlib.contextmanager
    def job(self, size, host, extra=None, command=None):
        with testing.Ranks(self.folder, command or self.command(), size, extra=extra, host=host) as job:
            yield job

    def check(self, job):
        codes = [job.wait(rank) for rank in range(job.size)]
        self.assertEqual(codes, [0] * job.size, job.everything())
        self.near(testing.read_json(self.path("result.json"))["objective"], self.wanted)

    def test_rank_0s_own_name_may_be_a_loopback_address_there(self):
        """Debian's /etc/hosts. Ranks 0 and 1 are on that host, so rank 1 meets the others over loopback."""
        with Hosts(2) as hosts, self.job(4, "head") as job:
            there = self.named(hosts, 0, "127.0.1.1 head.example head")
            for rank in (0, 1):
                job.start(rank, within=there)
            for rank in (2, 3):
                job.start(rank, within=self.named(hosts, 1, f"{hosts.address(0)} head"))
            self.check(job)

    def test_a_name_may_have_addresses_that_nobody_answers_at(self):
        """The first one is that of a host that is off: the next is tried although the time is not over."""
        with Hosts(2) as hosts, self.job(2, "head", extra={"WEIR_JOIN_TIMEOUT_S": "60"}) as job:
            silent = "10.99.0.3"  # sorted before that of the host, being more like our own
            for i in range(2):
                hosts.do("-n", hosts.names[i], "neigh", "replace", silent, "lladdr", NOBODY, "nud", "permanent", "dev", "eth0")
            text = f"{silent} head\n{hosts.address(0)} head"
            for rank in range(2):
                job.start(rank, within=self.named(hosts, rank, text))
            self.check(job)

    def test_ranks_give_each_other_the_addresses_by_which_they_met(self):
        """The default route leads elsewhere, with the same address on two hosts (as VirtualBox does), as do bridges of containers."""
        with Hosts(3) as hosts, self.job(4, hosts.address(0)) as job:
            for i, address in enumerate(("10.0.2.15/24", "10.0.2.15/24", "10.0.3.15/24")):
                hosts.add_side_network(hosts.names[i], "aaa0", address, is_default=True)
                hosts.add_side_network(hosts.names[i], "docker0", "172.17.0.1/16")
            for rank in range(4):
                job.start(rank, within=hosts.within(min(rank, 2)))
            self.check(job)

    def test_a_server_joins_by_the_address_on_the_way_to_the_job(self):
        endless = [self.WEIR, "lr", "--servers", "1", "--train", *self.train, *testing.ENDLESS]
        with Hosts(3) as hosts, self.job(2, hosts.address(0), command=endless) as job:
            for i in range(3):
                hosts.add_side_network(hosts.names[i], "aaa0", f"10.0.{i}.15/24", is_default=True)
            for rank in range(2):
                job.start(rank, within=hosts.within(rank))
            self.assertTrue(job.until_training(), job.everything())
            place = f"{hosts.address(0)}:{job.port}"
            job.command, job.size = [self.WEIR, "server", "--join", place], 3
            with open(self.folder / "2.out", "wb") as out, open(self.folder / "2.err", "wb") as err:
                joined = testing.subprocess.Popen([*hosts.within(2), self.WEIR, "server", "--join", place], stdout=out, stderr=err,
                                                  env=testing.clean_environment(testing.POOL))
            try:
                def shares():
                    status = testing.run([*hosts.within(0), self.WEIR, "status", place, "--json"], testing.clean_environment(testing.POOL), 60)
                    return [server["share"] for server in testing.json.loads(status.out)["servers"]] if status.code == 0 else []
                self.assertTrue(job.until(lambda: len([share for share in shares() if share > 0]) == 2), job.everything() + job.err(2))
                self.assertTrue(job.trains_on(1), job.everything())
            finally:
                joined.kill()
                joined.wait()

    def test_hosts_may_have_ipv6_only(self):
        with Hosts(2) as hosts:
            for i in range(2):
                hosts.do("-n", hosts.names[i], "address", "flush", "dev", "eth0")
                hosts.do("-n", hosts.names[i], "address", "add", f"{NETWORK_6}{i + 1}/64", "dev", "eth0", "nodad")
                hosts.add_side_network(hosts.names[i], "aaa0", "fd00:15::15/64")
            with self.job(3, f"[{NETWORK_6}1]") as job:
                for rank in range(3):
                    job.start(rank, within=hosts.within(min(rank, 1)))
                self.check(job)

    def test_one_value_of_weir_bind_serves_all_hosts(self):
        for value in ("10.99.0.0/16", "eth0"):
            with self.subTest(value), Hosts(2) as hosts, self.job(2, "head", extra={"WEIR_BIND": value}) as job:
                for i in range(2):
                    hosts.do("-n", hosts.names[i], "address", "add", f"10.98.0.{i + 1}/24", "dev", "lo")
                    hosts.add_side_network(hosts.names[i], "aaa0", "10.0.2.15/24", is_default=True)
                for rank in range(2):
                    job.start(rank, within=self.named(hosts, rank, f"{hosts.address(0)} head"))
                self.check(job)
                info = testing.run([*hosts.within(0), self.WEIR, "info"], testing.clean_environment({"WEIR_BIND": value}), 60)
                self.assertIn(f"this host is {hosts.address(0)}", info.out)

    def test_an_address_that_others_do_not_reach_is_an_error_that_names_the_variable(self):
        with Hosts(2) as hosts, self.job(2, hosts.address(0), extra={"WEIR_JOIN_TIMEOUT_S": "3"}) as job:
            for i in range(2):
                hosts.add_side_network(hosts.names[i], "aaa0", "10.0.2.15/24", is_default=True)
            for rank in range(2):
                job.start(rank, within=hosts.within(rank), extra={"WEIR_BIND": "aaa0"})
            codes = [job.wait(rank) for rank in range(2)]
            self.assertNotIn(0, codes, job.everything())
            self.assertIn("set WEIR_BIND on all of them", job.err(1), job.everything())


if __name__ == "__main__":
    testing.main(testing.Folder, module="__main__")
