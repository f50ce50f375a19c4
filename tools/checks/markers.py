# SPDX-License-Identifier: Apache-2.0
"""Checks that the pages agree with the tree: the layer table of README.md is that of layers.py, and the files that pages link to exist."""

import re
import subprocess
import sys

from remember import tree_files
from workshop import Failure, Outcome

LAYERS = re.compile(r"<!-- layers -->\n(.*?)<!-- /layers -->", re.S)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def rows(text):
    """The lines of a markdown table without its head."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip().startswith("|")]
    for place, line in enumerate(lines):
        if set(line) <= set("|-: "):
            return lines[place + 1:]
    return lines


def check(shop):
    readme = shop.root / "README.md"
    if not readme.exists():
        raise Failure("README.md is missing")
    text = readme.read_text()
    problems = []
    tables = LAYERS.findall(text)
    if not tables:
        problems.append("README.md has no layer table between <!-- layers --> and <!-- /layers -->")
    layers = [sys.executable, shop.root / "tools/checks/layers.py", shop.root, "--markdown"]
    printed = subprocess.run(layers, capture_output=True, text=True, check=True).stdout
    for table in tables:
        if rows(table) != rows(printed):
            problems.append(f"README.md: the layer table is not what `tools/checks/layers.py . --markdown` prints:\n{printed}")
    for page in (shop.root / name for name in tree_files(shop.root) if name.endswith(".md")):
        for target in sorted(set(LINK.findall(page.read_text()))):
            if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists():
                problems.append(f"{page.relative_to(shop.root)} links to {target}, which does not exist")
    shop.log("\n".join(problems))
    return Outcome(passed=0 if problems else 1, failed=len(problems), note="layer table of README.md, links of all pages")
