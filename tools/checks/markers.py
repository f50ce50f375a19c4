# SPDX-License-Identifier: Apache-2.0
"""Checks that the pages agree with the tree: the layer table is that of layers.py, files and headings that pages link to exist, README.md is
short, as are lines of prose, and the commands of every page are checked by a test."""

import re
import subprocess
import sys

from remember import tree_files
from workshop import Failure, Outcome

LAYERS = re.compile(r"<!-- layers -->\n(.*?)<!-- /layers -->", re.S)
LAYERS_PAGE = "lib/architecture.md"
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
CODE = re.compile(r"^```.*?^```$", re.M | re.S)
TESTS_OF_PAGES = "tests/system/meson.build"
README_LINES, COLUMNS = 200, 120


def rows(text):
    """The lines of a markdown table without its head."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip().startswith("|")]
    for place, line in enumerate(lines):
        if set(line) <= set("|-: "):
            return lines[place + 1:]
    return lines


def headings(page):
    """The names by which a page's headings are linked."""
    for heading in re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text()), re.M):
        yield re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def layer_problems(root):
    tables = LAYERS.findall((root / LAYERS_PAGE).read_text())
    if not tables:
        yield f"{LAYERS_PAGE} has no layer table between <!-- layers --> and <!-- /layers -->"
    printed = subprocess.run([sys.executable, root / "tools/checks/layers.py", root, "--markdown"], capture_output=True, text=True, check=True).stdout
    for table in tables:
        if rows(table) != rows(printed):
            yield f"{LAYERS_PAGE}: the layer table is not what `tools/checks/layers.py . --markdown` prints:\n{printed}"


def link_problems(root):
    for page in (root / name for name in tree_files(root) if name.endswith(".md")):
        for target, heading in sorted(set(LINK.findall(page.read_text()))):
            if "://" in target or target.startswith("mailto:"):
                continue
            path = page.parent / target if target else page
            if not path.exists():
                yield f"{page.relative_to(root)} links to {target}, which does not exist"
            elif heading and heading not in headings(path):
                yield f"{page.relative_to(root)} links to {target}#{heading}, and there is no such heading"


def unchecked_pages(root):
    checked = (root / TESTS_OF_PAGES).read_text()
    for name in tree_files(root):
        if name.endswith(".md") and f"'../../{name}'" not in checked:
            yield f"{name} is not among the pages of {TESTS_OF_PAGES}, so nobody checks its commands"


def length_problems(root):
    """Of all lines of the README, and of prose on other pages: not of tables, programs and pictures."""
    for name in (name for name in tree_files(root) if name.endswith(".md")):
        text = (root / name).read_text()
        is_readme = name == "README.md"
        if is_readme and len(text.splitlines()) > README_LINES:
            yield f"README.md has {len(text.splitlines())} lines, more than {README_LINES}: what it says belongs on the page of its subject"
        shown = text if is_readme else CODE.sub(lambda block: "\n" * block[0].count("\n"), text)
        for number, line in enumerate(shown.splitlines(), 1):
            if len(line) > COLUMNS and (is_readme or not line.startswith(("|", "!["))):
                yield f"{name}:{number} has {len(line)} columns, more than {COLUMNS}"


def check(shop):
    if not (shop.root / "README.md").exists():
        raise Failure("README.md is missing")
    problems = [*layer_problems(shop.root), *link_problems(shop.root), *unchecked_pages(shop.root), *length_problems(shop.root)]
    shop.log("\n".join(problems))
    return Outcome(passed=0 if problems else 1, failed=len(problems), note="layer table, links of all pages, length of README.md and of lines")
