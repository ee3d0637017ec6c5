#!/usr/bin/env python3
"""usage: check_commands.py ROOT BIN FILE...

Runs the commands of every block that is marked `console` in these Markdown files,
with the tools of BIN. A line that begins with `$ ` is a command, a backslash at
its end continues it; the lines after it are what it prints, in this order, and
`...` means any number of others. Numbers, units and hashes may differ. The
commands of one file run in one empty directory that shows the repository's
folders docs and examples.
"""

import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMEOUT = 300
# What a search says after 20 seconds, and again.
PROGRESS = re.compile(r"\s*note: \d+ mixtures compiled, ")


def commands(text):
    """Pairs of a command and the lines that it prints."""
    for block in BLOCK.findall(text):
        found = []
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.strip():
                found[-1][1].append(line)
        yield from found


def mask(line):
    """The line without what depends on the machine."""
    line = re.sub(r"_[0-9a-f]{12}\b", "_HASH", line)
    line = re.sub(r"\b[0-9a-f]{32}\b", "HASH", line)
    line = re.sub(r"-?\d[\d.]*(e[+-]?\d+)?", "0", line)
    line = re.sub(r"\b([KMGT]i?)?(B|FLOP|FLOP/s)\b", "UNIT", line)
    line = re.sub(r"\((avx|amx|x86)[\w-]*\)", "FEATURE", line)
    return " ".join(line.split())


def missing(expected, printed):
    """The first line of the first block, between `...`, that was not printed."""
    printed = [mask(line) for line in printed
               if line.strip() and not PROGRESS.match(line)]
    start, skips, block = 0, False, []
    for line in expected + ["..."]:
        if line.strip() != "...":
            block.append(line)
            continue
        wanted = [mask(text) for text in block]
        last = len(printed) - len(wanted) if skips else start
        found = [at for at in range(start, last + 1)
                 if printed[at:at + len(wanted)] == wanted]
        if not found:
            return block[0]
        start, skips, block = found[0] + len(wanted), True, []
    return None


def check(root, tools, name):
    """What is wrong with the commands of one file; None after the last."""
    with open(os.path.join(root, name), encoding="utf-8") as file:
        listed = list(commands(file.read()))
    environment = dict(os.environ, PATH=tools + os.pathsep + os.environ["PATH"])
    with tempfile.TemporaryDirectory() as folder:
        for shown in ("docs", "examples"):
            os.symlink(os.path.join(root, shown), os.path.join(folder, shown))
        for command, expected in listed:
            done = subprocess.run(["bash", "-c", command], cwd=folder, text=True,
                                  env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, errors="replace",
                                  stderr=subprocess.STDOUT, timeout=TIMEOUT)
            if done.returncode:
                return f"{name}: {command}: status {done.returncode}\n{done.stdout}"
            line = missing(expected, done.stdout.splitlines())
            if line is not None:
                return f"{name}: {command}: does not print\n  {line}\nbut\n{done.stdout}"
    print(f"{name}: {len(listed)} commands")
    return None


def main():
    root, tools, *names = sys.argv[1:]
    root, tools = os.path.abspath(root), os.path.abspath(tools)
    problems = [problem for name in names
                if (problem := check(root, tools, name))]
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
