#!/usr/bin/env python3
"""usage: check_links.py ROOT

Every relative link in the project's Markdown names a file that is there, and an
anchor in it names a heading.
"""

import os
import re
import subprocess
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def anchors(path):
    """The anchors of a file's headings, as GitHub makes them."""
    with open(path, encoding="utf-8") as file:
        text = FENCE.sub("", file.read())
    names = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        names.add(plain.replace(" ", "-"))
    return names


def check(root, name):
    """The links of one file that lead nowhere."""
    path = os.path.join(root, name)
    with open(path, encoding="utf-8") as file:
        text = FENCE.sub("", file.read())
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        full = os.path.join(os.path.dirname(path), file) if file else path
        if not os.path.exists(full):
            yield f"{name}: {target}: there is no such file"
        elif anchor and full.endswith(".md") and anchor not in anchors(full):
            yield f"{name}: {target}: there is no such heading"


def documents(root):
    """The Markdown files of the project, relative to its root."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "*.md"],
                            capture_output=True, text=True)
    if listed.returncode == 0:
        names = listed.stdout.split()
    else:  # Not a clone: every file but those of a build.
        names = [os.path.relpath(os.path.join(folder, file), root)
                 for folder, _, files in os.walk(root) for file in files
                 if file.endswith(".md") and "/build/" not in folder + "/"]
    return [name for name in names if os.path.exists(os.path.join(root, name))]


def main():
    root = sys.argv[1]
    names = documents(root)
    problems = [problem for name in names
                for problem in check(root, name)]
    print("\n".join(problems) or f"{len(names)} files, every link leads somewhere")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
