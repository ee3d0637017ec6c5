#!/usr/bin/env python3
"""usage: check_paths.py ROOT

Every path of the repository that the project's Markdown mentions, in prose or in
code, is there. Braces and asterisks may stand for several.
"""

import glob
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_links import documents  # noqa: E402

FOLDERS = ("bench|cmake|dialects|docs|emulator|examples|include|lib|runtime|scripts|"
           "test|tools")
PATH = re.compile(r"(?<![\w./$-])(?:%s)/[\w.{},*/-]*" % FOLDERS)


def expand(path):
    """The paths that `a/{b,c}/d` stands for."""
    found = re.search(r"\{([^{}]*)\}", path)
    if not found:
        return [path]
    return [name for part in found.group(1).split(",")
            for name in expand(path[:found.start()] + part + path[found.end():])]


def check(root, name):
    """The paths in one file that are not there."""
    with open(os.path.join(root, name), encoding="utf-8") as file:
        text = file.read()
    for found in PATH.finditer(text):
        path = found.group().rstrip(".,")
        if "..." in path or path.count("{") != path.count("}"):
            continue
        for single in expand(path):
            if not glob.glob(os.path.join(root, single), recursive=True):
                line = text.count("\n", 0, found.start()) + 1
                yield f"{name}:{line}: {single} is not there"


def main():
    root = sys.argv[1]
    names = documents(root)
    problems = [problem for name in names for problem in check(root, name)]
    print("\n".join(problems) or f"{len(names)} files, every path is there")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
