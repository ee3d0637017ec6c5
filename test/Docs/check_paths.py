#!/usr/bin/env python3
"""usage: check_paths.py ROOT

Every path of the repository that the project's Markdown mentions, in prose or in
code, is there. Braces and asterisks may mean several. So is every source file
that is named alone, as `Schedule.cpp`, in some folder.
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

NAME = re.compile(r"`([A-Za-z_]\w*\.(?:cpp|h|py|td|def|c|cu))`")
# Files of other projects.
OTHERS = {"cuda.h", "cublasLt.h", "nccl.h"}


def expand(path):
    """The paths that `a/{b,c}/d` means."""
    found = re.search(r"\{([^{}]*)\}", path)
    if not found:
        return [path]
    return [name for part in found.group(1).split(",")
            for name in expand(path[:found.start()] + part + path[found.end():])]


def sources(root):
    """The names of all files in the folders of the project, without folders."""
    return {file for folder in FOLDERS.split("|")
            for _, _, files in os.walk(os.path.join(root, folder))
            for file in files}


def check(root, name, known):
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
    if name == "CHANGELOG.md":  # It names files that once were there.
        return
    for found in NAME.finditer(text):
        if found.group(1) not in known:
            line = text.count("\n", 0, found.start()) + 1
            yield f"{name}:{line}: there is no file {found.group(1)}"


def main():
    root = sys.argv[1]
    names = documents(root)
    known = sources(root) | OTHERS
    problems = [problem for name in names
                for problem in check(root, name, known)]
    print("\n".join(problems) or f"{len(names)} files, every path is there")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
