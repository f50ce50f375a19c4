# SPDX-License-Identifier: Apache-2.0
"""Turns manual pages into LIBSVM files: +1 for system calls (section 2), -1 for library functions (section 3).

Usage: manpages.py MAN OUT [LIST]      MAN: a folder with man2 and man3, such as /usr/share/man
                                       LIST: a file with one path per line; other pages are left out
Writes OUT/train.svm, OUT/test.svm (every fifth page, chosen by its name) and OUT/words.txt (one `feature word` per line).

A page is a bag of words, each hashed to a 64-bit feature; values are tf-idf, scaled to length 1. The header line (.TH, which
holds the section's number and title), markup, comments and numbers are left out, and so are pages that only refer to another page.
"""

import gzip
import hashlib
import math
import re
import sys
from collections import Counter
from pathlib import Path

# Macros whose arguments are text of the page. The arguments of other macros are layout, or the header line.
TEXT_MACROS = {"B", "I", "BR", "RB", "BI", "IB", "IR", "RI", "SM", "SB", "SH", "SS", "TQ", "UR", "MR"}
ESCAPE = re.compile(r"\\(?:f(?:\[[^]]*\]|\(..|.)|s[+-]?\d|\*?\(..|\*?\[[^]]*\]|[&%/,|^:c0 ]|[-.~e])")
GIVEN_AWAY = re.compile(r"system calls? manual|library functions? manual|linux programmer's manual|linux man-pages", re.I)
WORD = re.compile(r"[a-z_][a-z0-9_]+")
TEST_SHARE = 5  # one page in five is a test page


def stable_hash(text):
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def words_of(source):
    """The words of a page without its markup; None if it only refers to another page."""
    words, in_table_format = [], False
    for line in source.splitlines():
        if line.startswith((".so ", "'so ")):
            return None
        if in_table_format:  # column specifications, which end in a line with a full stop
            in_table_format = not line.rstrip().endswith(".")
            continue
        if line.startswith(".TS"):
            in_table_format = True
        if line.startswith((".", "'")):
            macro, _, line = line[1:].strip().partition(" ")
            if macro not in TEXT_MACROS:
                continue
        line = GIVEN_AWAY.sub(" ", ESCAPE.sub("", line).replace('"', " "))
        words += WORD.findall(line.lower())
    return words


def read_pages(folder, section, listed):
    """{name: words} of the pages of one section that are not links. `listed`: the paths to use; None: all."""
    pages = {}
    for path in sorted(folder.glob(f"man{section}/*.{section}.gz")) + sorted(folder.glob(f"man{section}/*.{section}")):
        if path.is_symlink() or (listed is not None and str(path) not in listed):
            continue
        text = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
        words = words_of(text.decode("utf-8", "replace"))
        if words:
            pages[path.name.removesuffix(".gz")] = words
    return pages


def line_of(label, words, weight, feature):
    """One LIBSVM line. Words that the training pages do not have are left out."""
    values = {feature[word]: (1 + math.log(count)) * weight[word] for word, count in Counter(words).items() if word in weight}
    length = math.sqrt(sum(value * value for value in values.values())) or 1.0
    return label + "".join(f" {number}:{values[number] / length:.6g}" for number in sorted(values)) + "\n"


def main():
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    listed = set(Path(sys.argv[3]).read_text().splitlines()) if len(sys.argv) > 3 else None
    pages = [("+1", name, words) for name, words in read_pages(folder, 2, listed).items()]
    pages += [("-1", name, words) for name, words in read_pages(folder, 3, listed).items()]
    pages.sort(key=lambda page: stable_hash(page[1]))  # so that labels are mixed
    train = [page for page in pages if stable_hash(page[1]) % TEST_SHARE]
    test = [page for page in pages if stable_hash(page[1]) % TEST_SHARE == 0]
    if not train or not test:
        sys.exit(f"manpages.py: no manual pages in {folder}/man2 and {folder}/man3")
    appears_in = Counter(word for _, _, words in train for word in set(words))
    weight = {word: 1 + math.log((1 + len(train)) / (1 + count)) for word, count in appears_in.items() if count > 1}
    feature = {word: stable_hash(word) for word in weight}
    out.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", train), ("test", test)):
        (out / f"{name}.svm").write_text("".join(line_of(label, words, weight, feature) for label, _, words in part))
    (out / "words.txt").write_text("".join(f"{feature[word]} {word}\n" for word in sorted(weight)))
    calls = sum(label == "+1" for label, _, _ in pages)
    print(f"{calls} system calls and {len(pages) - calls} library functions: {len(train)} pages to train, {len(test)} to test, {len(weight)} words")


if __name__ == "__main__":
    main()
