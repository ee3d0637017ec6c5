#!/usr/bin/env python3
"""usage: check_headers.py ROOT

Every header of lib, runtime and emulator has the home that docs/architecture.md
says: include/heddle if a file of another folder, a test or a header that is there
includes it, and else the folder of its sources.
"""

import os
import re
import sys

FOLDERS = ("bench", "dialects", "emulator", "include", "lib", "runtime", "test", "tools")
PUBLIC = "include/heddle/"
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def sources(root):
    """The paths of all C and C++ files, from the root on."""
    return [os.path.relpath(os.path.join(folder, name), root)
            for top in FOLDERS
            for folder, _, names in os.walk(os.path.join(root, top))
            for name in names if re.search(r"\.(h|c|cpp)$", name)]


def folder_of(path):
    """The folder of a file's sources: that of a header in include/heddle/Emit is
    lib/Emit."""
    folder = os.path.dirname(path)
    if not folder.startswith(PUBLIC):
        return folder
    folder = folder[len(PUBLIC):]
    return folder if re.match("(runtime|emulator)/", folder) else "lib/" + folder


def is_inside(one, other):
    """Whether one of two folders is, or contains, the other."""
    return (one + "/").startswith(other + "/") or (other + "/").startswith(one + "/")


def includers(root, paths):
    """Which files include each header of the repository."""
    found = {path: set() for path in paths if path.endswith(".h")}
    for path in paths:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            names = INCLUDE.findall(file.read())
        for name in names:
            for start in (os.path.dirname(path), "include", ""):
                header = os.path.normpath(os.path.join(start, name))
                if header in found:
                    found[header].add(path)
                    break
    return found


def public_headers(users):
    """The headers that belong in include/heddle, with a file that is the reason."""
    reasons = {}
    for header, paths in users.items():
        for path in sorted(paths):
            if not is_inside(folder_of(path), folder_of(header)):
                reasons[header] = path
    reached = list(reasons)
    while reached:
        user = reached.pop()
        for header, paths in users.items():
            if user in paths and header not in reasons:
                reasons[header] = user
                reached.append(header)
    return reasons


def check(root):
    """The headers that are in the wrong place."""
    users = includers(root, sources(root))
    reasons = public_headers(users)
    for header in sorted(users):
        folder = folder_of(header)
        if not re.match("(lib|runtime|emulator)/", folder):
            continue
        if header.startswith(PUBLIC) and header not in reasons:
            yield f"{header}: only {folder} includes it, so it belongs there"
        if not header.startswith(PUBLIC) and header in reasons:
            yield f"{header}: {reasons[header]} includes it, so it belongs in {PUBLIC}"


def main():
    problems = list(check(sys.argv[1]))
    print("\n".join(problems) or "every header has its home")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
