# SPDX-License-Identifier: Apache-2.0
"""Writes a small LIBSVM file, the same every time: labels from a sparse linear model with some noise."""

import random

EXAMPLES, FEATURES, PER_EXAMPLE = 2000, 400, 12


def main():
    dice = random.Random(20141006)
    weights = [dice.gauss(0, 2) if dice.random() < 0.1 else 0.0 for _ in range(FEATURES)]
    for _ in range(EXAMPLES):
        features = sorted(dice.sample(range(FEATURES), PER_EXAMPLE))
        values = [round(dice.uniform(0.1, 1), 3) for _ in features]
        score = sum(weights[f] * v for f, v in zip(features, values)) + dice.gauss(0, 0.5)
        print("+1" if score > 0 else "-1", *(f"{f + 1}:{v}" for f, v in zip(features, values)))


if __name__ == "__main__":
    main()
