# SPDX-License-Identifier: Apache-2.0
"""Hosts without RDMA on this machine: network namespaces that are joined by a bridge in another one, and cables that can be cut."""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

CUTS = ("whole", "from", "to")  # nothing passes; nothing comes from the host; nothing comes to it
NOBODY = "02:00:00:00:00:01"  # an Ethernet address that no host has


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)


def why_no_namespaces():
    """None if this process can make them."""
    if shutil.which("ip") is None:
        return "no ip command (iproute2): no network namespaces"
    name = f"weir-{os.getpid()}-try"
    made = ip("netns", "add", name)
    ip("netns", "del", name)
    return None if made.returncode == 0 else "this process may not make network namespaces (root may)"


class Hosts:
    """The names are this process's own. What still runs in the namespaces at the end is killed."""

    def __init__(self, count):
        self.names = [f"weir-{os.getpid()}-{i}" for i in range(count)]
        self.switch = f"weir-{os.getpid()}-switch"

    def __enter__(self):
        self.do("netns", "add", self.switch)
        self.do("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        self.do("-n", self.switch, "link", "set", "bridge", "up")
        for i, name in enumerate(self.names):
            self.do("netns", "add", name)
            self.do("-n", self.switch, "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            self.do("-n", self.switch, "link", "set", f"port{i}", "master", "bridge", "up")
            self.do("-n", name, "address", "add", f"{self.address(i)}/24", "dev", "eth0")
            for link in ("eth0", "lo"):
                self.do("-n", name, "link", "set", link, "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            for pid in ip("netns", "pids", name).stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        for name in (self.switch, *self.names):
            ip("netns", "del", name)

    @staticmethod
    def do(*words):
        done = ip(*words)
        assert done.returncode == 0, (words, done.stderr)

    def add_side_network(self, name, interface, address, is_default=False):
        """Another network of a host, to which nothing else is joined: packets that go there get lost."""
        self.do("-n", name, "link", "add", interface, "type", "veth", "peer", "name", f"{interface}-end")
        for link in (interface, f"{interface}-end"):
            self.do("-n", name, "link", "set", link, "up")
        self.do("-n", name, "address", "add", address, "dev", interface)
        if is_default:
            self.do("-n", name, "route", "add", "default", "dev", interface)

    @staticmethod
    def address(i):
        return f"10.99.0.{i + 1}"

    def within(self, i):
        return ["ip", "netns", "exec", self.names[i]]

    def commands(self, kind, i, heals):
        """Those that cut the cable of a host, or heal it. One way: packets go to an Ethernet address that nobody has, and the sender
        does not notice; the kernel needs nothing for that which not every kernel has."""
        if kind == "whole":
            return [f"ip -n {self.switch} link set port{i} {'up' if heals else 'down'}"]
        others = [other for other in range(len(self.names)) if other != i]
        ways = [(i, other) for other in others] if kind == "from" else [(other, i) for other in others]
        what, how = ("del", "") if heals else ("replace", f"lladdr {NOBODY} nud permanent")
        return [f"ip -n {self.names[at]} neigh {what} {self.address(to)} dev eth0 {how}" for at, to in ways]

    def write_cable(self, path, kind, first):
        """A program for `weir bench failover --cut`, whose server I is on the host first + I."""
        lines = ["#!/bin/sh", "set -e", 'case "$1 $2" in']
        for i in range(first, len(self.names)):
            for word, heals in (("cut", False), ("heal", True)):
                lines += [f'"{word} {i - first}")', *self.commands(kind, i, heals), ";;"]
        Path(path).write_text("\n".join([*lines, "*) exit 2 ;;", "esac", ""]), encoding="utf-8")
        os.chmod(path, 0o755)
        return path
