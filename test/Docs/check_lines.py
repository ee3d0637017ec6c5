#!/usr/bin/env python3
"""usage: check_lines.py ROOT

No line of the project's Markdown is longer than 120 characters. Rows of tables,
code, and lines with a link that cannot be broken may be longer, and so may the
generated pages in docs/reference.
"""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_links import documents  # noqa: E402

LIMIT = 120


def check(root, name):
    """The lines of one file that are too long."""
    with open(os.path.join(root, name), encoding="utf-8") as file:
        lines = file.read().splitlines()
    fenced = False
    for number, line in enumerate(lines, 1):
        if re.match(r"\s*(```|~~~)", line):
            fenced = not fenced
        elif (len(line) > LIMIT and not fenced
              and not line.startswith("    ")  # Code, or a list inside a list.
              and not line.lstrip().startswith("|")
              and not re.search(r"\[[^\]]*\]\([^)\s]{60,}\)", line)):
            yield f"{name}:{number}: {len(line)} characters, not {LIMIT}"


def main():
    root = sys.argv[1]
    names = [name for name in documents(root)
             if not name.startswith("docs/reference/")]
    problems = [problem for name in names for problem in check(root, name)]
    print("\n".join(problems) or f"{len(names)} files, no line too long")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
