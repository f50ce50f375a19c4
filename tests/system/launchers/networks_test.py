#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that a launcher starts on two hosts (network namespaces) whose default routes lead elsewhere, with the same address on both: no
rank connects to another before the first endpoint is made. Usage: networks_test.py PATH-OF-WEIR

One line per case, "ok WHAT" or "not ok WHAT"; exit 77 if no launcher is installed, or namespaces cannot be made.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent.parent / "tools/torture.d")]
import launch as launchers  # noqa: E402
import lr_testing as testing  # noqa: E402
from hosts import Hosts, why_no_namespaces  # noqa: E402

# What a launcher calls instead of ssh, with options, the name of a host, and words of a command.
AGENT = """#!/bin/bash
while [[ $1 == -* ]]; do shift; done
host=$1
shift
exec ip netns exec "$host" unshare --uts bash -c "hostname $host; $*"
"""


def mpirun(names, agent):
    return [launchers.find_openmpi(), "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1",
            "--mca", "oob_tcp_if_include", "10.99.0.0/24", "--oversubscribe", "--bind-to", "none", "--host", ",".join(f"{name}:2" for name in names)]


def hydra(names, agent):
    return [launchers.find("mpich", "mpiexec.hydra"), "-launcher", "ssh", "-launcher-exec", agent, "-iface", "eth0",
            "-hosts", ",".join(f"{name}:2" for name in names)]


def trains(command, weir, folder, wanted):
    """Whether ranks of both hosts train together; what they said."""
    out = folder / "result.json"
    agent = folder / "agent"
    agent.write_text(AGENT, encoding="ascii")
    agent.chmod(0o755)
    with Hosts(2) as hosts:
        for name in hosts.names:
            hosts.add_side_network(name, "aaa0", "10.0.2.15/24", is_default=True)
        begin = [*hosts.within(0), "unshare", "--uts", "bash", "-c", f'hostname {hosts.names[0]}; exec "$@"', "bash"]
        words = [weir, "lr", "--servers", "2", "--train", folder / "train.svm", "--l1", "0.3", "--json", out]
        done = launchers.run([*begin, *command(hosts.names, agent), "-n", "4", *words], launchers.clean_environment(testing.POOL), 60)
    if done.code != 0 or not out.exists():
        return False, done
    result = json.loads(out.read_text(encoding="utf-8"))
    out.unlink()
    return abs(result["objective"] / wanted - 1) < 1e-3 and result["workers"] == 2, done


def main():
    weir = os.path.abspath(sys.argv[1])
    if why_no_namespaces():
        print(f"SKIPPED: {why_no_namespaces()}")
        return 77
    tried = failures = 0
    with tempfile.TemporaryDirectory(prefix="weir-networks-") as folder:
        rows = testing.text_like(examples=60)
        testing.write(Path(folder) / "train.svm", rows)
        wanted = testing.solve(rows, 0.3)
        for command in (mpirun, hydra):
            try:
                good, done = trains(command, weir, Path(folder), wanted)
            except launchers.Missing as missing:
                print(f"SKIPPED: {missing}")
                continue
            tried += 1
            failures += not good
            print(f"{'ok' if good else 'not ok'} {command.__name__}: ranks give each other addresses of the network that their hosts share", flush=True)
            if not good:
                print(f"  {done}", flush=True)
    return 1 if failures else 0 if tried else 77


if __name__ == "__main__":
    sys.exit(main())
