#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Joins jobs of bootstrap_probe by one launcher. Usage: bootstrap_launch.py openmpi|hydra|slurm|hand PROBE

One line per case, "ok WHAT" or "not ok WHAT"; exit 77 if the launcher is not installed.
"""

import os
import re
import socket
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import launch as launchers  # noqa: E402

LINE = re.compile(r"^probe name=(\S+) rank=(\d+) size=(\d+) manager=(\S+) secret=(\S+)$", re.M)
NAMES = {"openmpi": "PMIx", "hydra": "PMI-1", "slurm-pmix": "PMIx", "slurm-pmi2": "PMI-1", "hand": "rendezvous"}
LAUNCHES = 20  # in a row: a race at the start shows now and then only
# For WEIR_JOIN_TIMEOUT_S, where somebody is waited for in vain: longer ones if the machine was too busy for the others to come in time.
# A rank of the probe that is absent is there for 8 s.
PATIENCE_S = (2, 4, 6)
LAUNCH_S = 60  # a launch that takes longer is killed
failures = 0


def case(what, good, done=None):
    global failures
    print(f"{'ok' if good else 'not ok'} {what}", flush=True)
    if not good:
        failures += 1
        if done is not None:
            print(f"  exit {done.code} after {done.seconds:.1f} s\n  out: {done.out}\n  err: {done.err}", flush=True)


def met(done, name, size):
    """Whether all ranks came, once each, and learned the same; the secret, or None."""
    rows = LINE.findall(done.out)
    if done.code != 0 or sorted(int(row[1]) for row in rows) != list(range(size)):
        return None
    same = {(row[0], row[2], row[3], row[4]) for row in rows}
    return rows[0][4] if len(same) == 1 and rows[0][0] == name and rows[0][2] == str(size) else None


def meets(kind, launch, probe):
    name = NAMES[kind]
    done = launch(4, [probe])
    case(f"{kind}: four ranks meet", met(done, name, 4), done)
    secrets = set()
    for _ in range(LAUNCHES):
        done = launch(2, [probe])
        secret = met(done, name, 2)
        if secret is None:
            break
        secrets.add(secret)
    case(f"{kind}: {LAUNCHES} launches in a row, each with a secret of its own", len(secrets) == LAUNCHES, done)


def two_jobs(kind, launch, probe):
    results = [None, None]

    def start(i):
        results[i] = launch(3, [probe])

    threads = [threading.Thread(target=start, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    secrets = {met(done, NAMES[kind], 3) for done in results}
    case(f"{kind}: two jobs at once do not mix", len(secrets) == 2 and None not in secrets, results[0])


def absent(kind, launch, probe):
    flags = ["--kill-on-bad-exit=1"] if kind.startswith("slurm") else []
    # PMI-1 has no way to ask who is in a barrier
    name = "" if NAMES[kind] == "PMI-1" else " that names it"
    says = r"rank 1 of 3" if name else r"rank [02]: another of the job's 3 ranks did not start in time"
    for patience_s in PATIENCE_S:
        done = launch(3, [probe, "--absent", "1"], {"WEIR_JOIN_TIMEOUT_S": str(patience_s)}, timeout_s=LAUNCH_S, flags=flags)
        good = done.code != 0 and re.search(says, done.err) and patience_s * 0.75 < done.seconds < LAUNCH_S and not LINE.search(done.out)
        if good:
            break
    case(f"{kind}: a rank that never comes is an error{name} after the time limit", good, done)


def dies(kind, launch, probe):
    """Only where the launcher lets the other ranks go on after one has died; Weir must do so too."""
    flags = {"openmpi": ["--enable-recovery"], "hydra": None}.get(kind, ["--kill-on-bad-exit=0"])
    if flags is None:
        return
    done = launch(3, [probe, "--die", "1"], flags=flags)
    survived = sorted(re.findall(r"survived rank=(\d)", done.out))
    case(f"{kind}: a rank that dies after the exchange does not end the others", survived == ["0", "2"], done)


def secret_file(kind, launch, probe):
    with tempfile.NamedTemporaryFile(prefix="weir-secret-") as file:
        file.write(b"a secret of 23 letters.\n")
        file.flush()
        secrets = {met(launch(2, [probe], {"WEIR_SECRET_FILE": file.name}), NAMES[kind], 2) for _ in range(2)}
        case(f"{kind}: WEIR_SECRET_FILE is the secret of every job that names it", len(secrets) == 1 and None not in secrets)
        os.chmod(file.name, 0o644)
        done = launch(2, [probe], {"WEIR_SECRET_FILE": file.name, "WEIR_JOIN_TIMEOUT_S": "3"})
        case(f"{kind}: a secret file that others can read is refused", done.code != 0 and f"chmod {'0440' if os.geteuid() == 0 else '0600'} {file.name}" in done.err, done)


def met_twice(done):
    """Whether two ranks met in two jobs, with another secret in each."""
    secrets = sorted(row[4] for row in LINE.findall(done.out))
    return done.code == 0 and len(secrets) == 4 and secrets[0] == secrets[1] != secrets[2] == secrets[3]


def several_users(kind, launch, probe):
    """A process that has two jobs, or uses MPI as well: over PMIx that works, PMI-1 has one user only."""
    mpi = {"openmpi": "libmpi.so.40", "hydra": "libmpich.so.12"}.get(kind)
    done = launch(2, [probe, "--jobs", "2"])
    if NAMES[kind] == "PMIx":
        case(f"{kind}: a process has two jobs, one after the other", met_twice(done), done)
        if mpi:
            done = launch(2, [probe, "--mpi", mpi])
            case(f"{kind}: a process has a job and MPI", met(done, NAMES[kind], 2), done)
        return
    told = "an earlier job in this process uses the launcher's connection (PMI_FD), or has used it; "
    case(f"{kind}: the second job of a process is told to use --rendezvous",
         done.code != 0 and told in done.err and "give this job --rendezvous HOST:PORT" in done.err, done)
    with launchers.ReservedPort() as port:
        met_there = ["--rendezvous", f"127.0.0.1:{port}"]
        done = launch(2, [probe, "--jobs", "2", *met_there])
        case(f"{kind}: with --rendezvous a process has two jobs", met_twice(done), done)
        if mpi:
            done = launch(2, [probe, "--mpi", mpi])
            case(f"{kind}: a job beside MPI is told to use --rendezvous", done.code != 0 and "PMI-1: MPI in this process uses" in done.err, done)
            done = launch(2, [probe, "--mpi", mpi, *met_there])
            case(f"{kind}: with --rendezvous a process has a job and MPI", met(done, "rendezvous", 2), done)


def all_cases(kind, launch, probe):
    meets(kind, launch, probe)
    two_jobs(kind, launch, probe)
    absent(kind, launch, probe)
    secret_file(kind, launch, probe)
    if kind != "hand":
        several_users(kind, launch, probe)
        dies(kind, launch, probe)


def slurm_cases(probe):
    with launchers.slurm() as environment:
        for kind in ("slurm-pmix", "slurm-pmi2"):
            with launchers.launcher(kind, environment) as launch:
                all_cases(kind, launch, probe)
        with launchers.launcher("slurm-none", environment) as launch:
            done = launch(2, [probe])
            case("slurm-none: ranks without PMI are told how to start", done.code != 0 and "--mpi=pmix" in done.err, done)
            with launchers.ReservedPort() as port:
                done = launch(3, [probe, "--rendezvous", f"127.0.0.1:{port}"])
            case("slurm-none: with --rendezvous Slurm's rank variables do", met(done, "rendezvous", 3), done)


def hand_cases(probe):
    by_hand = launchers.launch_by_hand
    all_cases("hand", by_hand, probe)
    short = {"WEIR_JOIN_TIMEOUT_S": str(PATIENCE_S[0])}
    for patience_s in PATIENCE_S:
        done = by_hand(5, [probe], {"WEIR_JOIN_TIMEOUT_S": str(patience_s)}, ranks=[0, 2, 4])
        good = done.err.count("ranks 1 and 3 of 5") >= 3
        if good:
            break
    case("hand: missing ranks are named by everybody", good, done)
    done = by_hand(3, [probe], short, ranks=[1, 2])
    case("hand: without rank 0 the others say where they looked",
         done.code != 0 and done.err.count("gave up waiting for rank 0 at 127.0.0.1:") == 2, done)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        done = by_hand(2, [probe], short, port=port, ranks=[0])
    case("hand: a port in use is an error that names it", done.code != 0 and f"127.0.0.1:{port}: the port is in use" in done.err, done)
    done = launchers.run([probe, "--rank", "1", "--size", "2"], launchers.clean_environment(None), 20)
    case("hand: ranks without --rendezvous are asked for it", done.code != 0 and "--rendezvous" in done.err, done)
    done = launchers.run([probe], launchers.clean_environment(None), 20)
    case("hand: a program alone is a job of one", met(done, "in-process", 1), done)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    kind, probe = sys.argv[1], str(Path(sys.argv[2]).resolve())
    try:
        if kind == "slurm":
            slurm_cases(probe)
        elif kind == "hand":
            hand_cases(probe)
        else:
            with launchers.launcher(kind) as launch:
                all_cases(kind, launch, probe)
    except launchers.Missing as missing:
        print(f"SKIPPED: {missing}")
        return 77
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
