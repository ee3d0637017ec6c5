#!/usr/bin/env python3
"""Checks docs/errors.md against the sources.

usage: check_error_index.py ROOT

Every code that a source file uses must be in the index, once, in the section of
its class; every code of the index must be used by some source file.
"""
import pathlib
import re
import sys

FOLDERS = ("dialects", "emulator", "include", "lib", "runtime", "tools")
SUFFIXES = {".cpp", ".h", ".td"}


def codes_in_sources(root):
    found = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            code_lines = "\n".join(
                line for line in path.read_text().splitlines()
                if not line.lstrip().startswith("//"))
            for code in re.findall(r'"(H0[0-9]{3})[":]', code_lines):
                found.setdefault(code, path.relative_to(root))
    return found


def codes_in_index(root):
    """Pairs of a code and the class of the section it stands in."""
    section, found = "", []
    for line in (root / "docs" / "errors.md").read_text().splitlines():
        heading = re.match(r"## (H0[0-9])xx", line)
        if heading:
            section = heading.group(1)
        row = re.match(r"\| (H0[0-9]{3}) \| \S", line)
        if row:
            found.append((row.group(1), section))
    return found


def main():
    root = pathlib.Path(sys.argv[1])
    used, listed = codes_in_sources(root), codes_in_index(root)
    codes = [code for code, _ in listed]
    problems = [f"{code} of {path} is not in docs/errors.md"
                for code, path in used.items() if code not in codes]
    problems += [f"{code} is in docs/errors.md, but no source uses it"
                 for code in codes if code not in used]
    problems += [f"{code} is listed twice"
                 for code in sorted(set(codes)) if codes.count(code) > 1]
    problems += [f"{code} stands in the section {section}xx"
                 for code, section in listed if not code.startswith(section)]
    print("\n".join(problems) or f"{len(codes)} codes, each used and listed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
