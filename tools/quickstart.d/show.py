# SPDX-License-Identifier: Apache-2.0
"""Shows what the quickstart's training found. Usage: show.py OUT, where OUT holds words.txt, model.txt, result.json, objective.svg."""

import json
import sys
from pathlib import Path

SHOWN = 20


def read_pairs(path):
    return [line.split(maxsplit=1) for line in path.read_text().splitlines() if line.strip()]


def main():
    out = Path(sys.argv[1])
    words = dict(read_pairs(out / "words.txt"))
    weights = sorted(((float(weight), words.get(feature, feature)) for feature, weight in read_pairs(out / "model.txt")), reverse=True)
    result = json.loads((out / "result.json").read_text())
    print(f"objective           {result['objective']:.4f} after {result['passes']} passes in {result['seconds']:.2f} s")
    print(f"non-zero weights    {result['nonzeros']} of {result['features']}")
    print(f"held-out accuracy   {result['test_accuracy']:.2%} (training: {result['train_accuracy']:.2%})")
    calls = [pair for pair in weights if pair[0] > 0][:SHOWN]
    functions = [pair for pair in reversed(weights) if pair[0] < 0][:SHOWN]
    print(f"\n{'says system call':>24}            {'says library function':>24}")
    for row in range(max(len(calls), len(functions))):
        left, right = (f"{side[row][1]:>24} {side[row][0]:+8.2f}" if row < len(side) else " " * 33 for side in (calls, functions))
        print(f"{left}   {right}".rstrip())
    print(f"\nobjective against time: {(out / 'objective.svg').resolve()}")


if __name__ == "__main__":
    main()
