# SPDX-License-Identifier: Apache-2.0
"""Starts a program as the ranks of a job, by every launcher that is installed; python3's own library only.

    with launcher("slurm-pmix") as launch:          # Missing if it is not installed
        done = launch(4, [program, "--flag"])       # Done(code, out, err, seconds)

Kinds: weir (`weir run`), openmpi, hydra, slurm-pmix, slurm-pmi2, slurm-none, hand. Several of them can share one Slurm: see slurm().
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from reserved_port import ReservedPort  # noqa: E402

KINDS = ("weir", "openmpi", "hydra", "slurm-pmix", "slurm-pmi2", "slurm-none", "hand")
Done = namedtuple("Done", "code out err seconds")


# Hydra 4.0 kills the ranks when one of them has failed; if another's PMI request is under way then, Hydra's proxy
# meets a broken pipe and dies with the ranks' output unread: 9 of 750 launches of failing ranks on a busy machine.
HYDRA_CRASH = "control_cb (pm/pmiserv/pmiserv_cb.c:206): assert (!closed) failed"


class Missing(Exception):
    """A launcher is not installed; says which package has it."""


# What other launchers leave in the environment must not reach the jobs started here.
FOREIGN = ("PMI_", "PMIX_", "OMPI_", "SLURM_", "WEIR_", "MPI_LOCAL", "HYDRA_")


def clean_environment(extra):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    kept.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    kept.update({k: v for k, v in os.environ.items() if k.startswith(("ASAN_", "TSAN_", "LSAN_", "UBSAN_"))})
    kept.update(extra or {})
    return kept


def run(command, environment, timeout_s):
    """Runs one command to its end; after the time limit its process group (ours alone) is killed."""
    begin = time.monotonic()
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment, text=True, errors="replace",
                          start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err += f"\n(killed after {timeout_s} s)"
        return Done(process.returncode, out, err, time.monotonic() - begin)


def find(package, *programs):
    for program in programs:
        path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if path:
            return path
    raise Missing(f"{programs[0]} is not installed (apt-get install {package})")


def find_openmpi():
    path = find("openmpi-bin", "mpirun.openmpi", "mpirun")
    words = run([path, "--version"], clean_environment(None), 20).out
    if "Open MPI" not in words and "OpenRTE" not in words:
        raise Missing("mpirun is another MPI's (apt-get install openmpi-bin)")
    return path


@contextlib.contextmanager
def slurm():
    """A Slurm of our own in a temporary folder; yields the environment that srun needs."""
    for program in ("srun", "slurmctld", "slurmd"):
        find("--no-install-recommends slurm-wlm slurmctld slurmd slurm-client slurm-wlm-basic-plugins", program)
    folder = tempfile.mkdtemp(prefix="weir-slurm-")
    script = HERE / "slurm.sh"
    controller, node = ReservedPort(), ReservedPort()
    try:
        words = [script, "start", folder, str(controller.number), str(node.number)]
        started = subprocess.run(words, check=False, capture_output=True, text=True)
        if started.returncode == 77:
            raise Missing(started.stderr.strip())
        if started.returncode != 0:
            raise RuntimeError(f"Slurm did not start:\n{started.stderr}")
        yield {"SLURM_CONF": f"{folder}/slurm.conf"}
    finally:
        subprocess.run([script, "stop", folder], check=False, capture_output=True)
        controller.close()
        node.close()
        shutil.rmtree(folder, ignore_errors=True)


def launch_by_hand(size, command, extra=None, timeout_s=60, port=None, ranks=None, flags=()):
    """One process per rank with --rendezvous, --rank and --size; `ranks` leaves some out."""
    if port is None:
        with ReservedPort() as port:
            return launch_by_hand(size, command, extra, timeout_s, port, ranks, flags)
    results = {}

    def start(rank):
        words = [*command, "--rendezvous", f"127.0.0.1:{port}", "--rank", rank, "--size", size, *flags]
        results[rank] = run(words, clean_environment(extra), timeout_s)

    threads = [threading.Thread(target=start, args=(rank,)) for rank in (range(size) if ranks is None else ranks)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = list(results.values())
    code = next((d.code for d in done if d.code), 0)
    return Done(code, "".join(d.out for d in done), "".join(d.err for d in done), time.monotonic() - begin)


@contextlib.contextmanager
def launcher(kind, slurm_environment=None):
    """Yields launch(size, command, extra=None, timeout_s=60, flags=()); flags are the launcher's own."""
    if kind == "hand":
        yield launch_by_hand
        return
    environment, behind = {}, []
    with contextlib.ExitStack() as stack:
        if kind == "weir":
            prefix, behind = ["weir", "run"], ["--"]
        elif kind == "openmpi":
            prefix = [find_openmpi(), "--oversubscribe", "--bind-to", "none"]
        elif kind == "hydra":
            prefix = [find("mpich", "mpiexec.hydra")]
        elif kind.startswith("slurm-"):
            environment = slurm_environment or stack.enter_context(slurm())
            prefix = [find("slurm-client", "srun"), f"--mpi={kind.removeprefix('slurm-')}"]
        else:
            raise ValueError(f"launcher {kind}; known are {', '.join(KINDS)}")

        def launch(size, command, extra=None, timeout_s=60, flags=()):
            words = [*prefix, *flags, "-n", size, *behind, *command]
            for _ in range(4):
                done = run(words, clean_environment({**environment, **(extra or {})}), timeout_s)
                if HYDRA_CRASH not in done.err:
                    break
                print(f"launching again: mpiexec.hydra ended by an assertion of its own, {HYDRA_CRASH}", flush=True)
            return done

        yield launch
