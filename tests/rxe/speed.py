# SPDX-License-Identifier: Apache-2.0
"""Compares Weir over verbs with perftest in the same guest.

Usage: speed.py FOLDER JSON; FOLDER has the output of pieces/perf.

The absolute numbers are those of an emulated machine. Only the ratios (the share of the limit that
is reached; 1 is the best) have a meaning, and no ratio is a failure. The only check is that bulk
transfers copy no byte: prints a line `ok ...` or `not ok ...`, and returns 1 if it is not ok.
"""

import json
import sys
from pathlib import Path

BULK = 65536


def perftest_row(path):
    """The numbers of the one line of results in a perftest program's output."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return None
    rows = [words for words in lines if len(words) > 3 and all(word.replace(".", "", 1).isdigit() for word in words)]
    return [float(word) for word in rows[-1]] if rows else None


def bench_row(path, size=None):
    """The fastest row of a `weir bench` file at a size (the smallest size if none is given)."""
    try:
        rows = json.loads(path.read_text())["rows"]
    except (OSError, ValueError, KeyError):
        return None
    wanted = min((row["size_bytes"] for row in rows), default=None) if size is None else size
    rows = [row for row in rows if row["size_bytes"] == wanted]
    return max(rows, key=lambda row: row.get("bytes_per_s") or 0, default=None)


def table(folder):
    read = perftest_row(folder / "ib_read_bw.out")
    send = perftest_row(folder / "ib_send_lat.out")
    push, pull, latency = (bench_row(folder / f"{name}.json", size) for name, size in (("push", BULK), ("pull", BULK), ("latency", None)))
    rows = []
    for name, row in (("push 64 KiB", push), ("pull 64 KiB", pull)):
        if read and row and read[3] > 0:  # on a very slow machine ib_read_bw rounds to nothing
            limit = read[3] * 1e9 / 8
            rows.append({"what": name, "unit": "MB/s", "weir": row["bytes_per_s"] / 1e6, "limit": limit / 1e6, "limit_is": "ib_read_bw", "ratio": row["bytes_per_s"] / limit})
    mixed = bench_row(folder / "mixed.json", BULK)
    if mixed and mixed["limit"] > 0:
        limit = mixed["limit"]
        rows.append({"what": "pushes and pulls at once, 64 KiB", "unit": "MB/s", "weir": mixed["bytes_per_s"] / 1e6, "limit": limit / 1e6, "limit_is": "each of the two alone", "ratio": mixed["ratio"]})
    if send and latency and latency["p50_us"] > 0:
        limit = 2 * send[4]  # t_typical, both ways
        rows.append({"what": "small push round trip, median", "unit": "us", "weir": latency["p50_us"], "limit": limit, "limit_is": "2 x ib_send_lat", "ratio": limit / latency["p50_us"]})
    return rows


def copied(folder):
    """Returns the number of rows of BULK bytes or more, and the bytes that the library copied."""
    rows = []
    for name in ("push", "pull", "mixed"):
        try:
            rows += json.loads((folder / f"{name}.json").read_text())["rows"]
        except (OSError, ValueError, KeyError):
            return 0, 0
    bulk = [row["bytes_copied"] for row in rows if row["size_bytes"] >= BULK]
    return len(bulk), sum(bulk)


def main():
    rows = table(Path(sys.argv[1]))
    Path(sys.argv[2]).write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    print(f"{'verbs in the guest':32}{'weir':>10}{'limit':>10}{'ratio':>8}")
    for row in rows:
        print(f"{row['what']:32}{row['weir']:>10.1f}{row['limit']:>10.1f}{row['ratio']:>8.2f}  {row['unit']}, limit: {row['limit_is']}")
    count, bytes_copied = copied(Path(sys.argv[1]))
    good = count > 0 and bytes_copied == 0
    print(f"{'ok' if good else 'not ok'} bulk over verbs is not copied: {bytes_copied} bytes in {count} kinds of pushes and pulls")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
