#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weir lr` as ranks of a launcher's job. Usage: lr_ranks_test.py openmpi|hydra|slurm|hand PATH-OF-WEIR

One line per case, "ok WHAT" or "not ok WHAT"; exit 77 if the launcher is not installed.
"""

import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]
import launch as launchers  # noqa: E402
import lr_testing as testing  # noqa: E402

NAMES = {"openmpi": "PMIx", "hydra": "PMI-1", "slurm-pmix": "PMIx", "slurm-pmi2": "PMI-1", "hand": "rendezvous"}
SHAPES = (  # name, ranks, flags, servers and workers of the whole job
    ("2 servers and 2 workers", 4, ("--servers", "2"), (2, 2)),
    ("2 servers of 2 shards and 2 x 2 workers", 4, ("--servers", "2", "--shards", "2", "--workers", "2"), (2, 4)),
    ("3 ranks that all work, 2 of them serve", 3, ("--servers", "2", "--colocate"), (2, 3)),
)
failures = 0


def case(what, good, detail):
    global failures
    print(f"{'ok' if good else 'not ok'} {what}", flush=True)
    if not good:
        failures += 1
        print(f"  {detail}", flush=True)


def trained(done, out):
    if done.code != 0 or not out.exists():
        return None
    result = json.loads(out.read_text(encoding="utf-8"))
    out.unlink()
    return result


def all_cases(kind, launch, weir, folder, alone):
    out = folder / "out.json"
    command = [weir, "lr", "--train", *sorted(map(str, folder.glob("*.svm"))), "--json", str(out)]
    for name, size, flags, (servers, workers) in SHAPES:
        done = launch(size, [*command, *flags], testing.POOL)
        result = trained(done, out)
        good = (result is not None and result["launcher"] == NAMES[kind] and (result["servers"], result["workers"]) == (servers, workers) and
                result["examples"] == alone["examples"] and abs(result["objective"] / alone["objective"] - 1) < 1e-3)
        case(f"{kind}: {name} find what one process finds", good, f"{result}, alone {alone['objective']}; {done}")
    done = launch(2, [*command, "--servers", "2"], testing.POOL)
    case(f"{kind}: more servers than ranks is an error", done.code != 0 and "--servers 2 needs at least 3 ranks" in done.err, done)
    done = launch(3, [weir, "lr", "--train", str(folder / "missing.svm"), "--servers", "1"], testing.POOL)
    case(f"{kind}: a missing file ends the job with an error that names it", done.code != 0 and "missing.svm: no such file" in done.err, done)
    elastic_case(kind, launch, weir, folder)


def until(is_so, seconds=40):
    """Whether it becomes so."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def elastic_case(kind, launch, weir, folder):
    """A server joins the launcher's job by its contact file, and leaves again, while iterations go on."""
    contact, done = folder / "contact", []

    def ask(*words):
        return launchers.run([weir, *words], launchers.clean_environment(testing.POOL), 60)

    def servers():
        status = ask("status", contact, "--json")
        return [server["server"] for server in json.loads(status.out)["servers"] if server["share"] > 0] if status.code == 0 else []

    bench = [weir, "bench", "delay", "--seconds", "4", "--workers", "1", "--contact", str(contact)]
    job = threading.Thread(target=lambda: done.append(launch(3, bench, testing.POOL)))
    job.start()
    opened = until(lambda: servers() == [0])
    mode = contact.stat().st_mode & 0o777 if opened else None
    joiner = []
    joining = threading.Thread(target=lambda: joiner.append(ask("server", "--join", contact)))
    joining.start()
    joined = opened and until(lambda: servers() == [0, 1])
    left = ask("leave", contact, "--server", "1")
    joining.join()
    job.join()
    good = mode == 0o600 and joined and left.code == 0 and joiner[0].code == 0 and done[0].code == 0
    case(f"{kind}: a server joins by the contact file, gets a share, and leaves", good, f"mode {mode}, joined {joined}, {left}, {joiner}, {done}")
    case(f"{kind}: the contact file is gone with the job", not contact.exists(), contact)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    kind, weir = sys.argv[1], os.path.abspath(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="weir-ranks-") as name:
        folder = Path(name)
        rows = testing.text_like()
        for i in range(3):
            testing.write(folder / f"part{i}.svm", rows[i::3])
        out = folder / "alone.json"
        done = launchers.run([weir, "lr", "--train", *sorted(map(str, folder.glob("*.svm"))), "--json", out], launchers.clean_environment(testing.POOL), 60)
        alone = trained(done, out)
        if alone is None:
            print(f"not ok one process alone\n  {done}")
            return 1
        try:
            if kind == "slurm":
                with launchers.slurm() as environment:
                    for mpi in ("slurm-pmix", "slurm-pmi2"):
                        with launchers.launcher(mpi, environment) as launch:
                            all_cases(mpi, launch, weir, folder, alone)
            else:
                with launchers.launcher(kind) as launch:
                    all_cases(kind, launch, weir, folder, alone)
        except launchers.Missing as missing:
            print(f"SKIPPED: {missing}")
            return 77
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
