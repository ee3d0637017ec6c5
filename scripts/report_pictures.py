#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: report_pictures.py [--check]

Makes the pictures of docs/report.md: docs/pictures/plan-*.svg with `heddle explain
--svg`, and the screenshots docs/pictures/report-*.png with a headless Chromium. Beside
each screenshot is a hash of the plan and of the page's script and styles. With --check
nothing is written: drawings must be equal byte for byte, and the hashes of screenshots
must be those of this build. The build is that of $HEDDLE_BUILD, or build/release.
"""

import hashlib
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "EndToEnd"))
BUILD = os.environ.get("HEDDLE_BUILD", os.path.join(ROOT, "build/release"))
HEDDLE = os.path.join(BUILD, "bin/heddle")
PICTURES = os.path.join(ROOT, "docs/pictures")
CLUSTER = os.path.join(ROOT, "examples/clusters/dgx-8x8.json")
PLAN = ["--init", "random", "--batch", "16", "--micro-batch", "1", "--seq", "128",
        "--mesh", "pipe=4,data=2", "--zero", "1", "--threads", "1", "--march",
        "x86-64-v3"]
DRAWINGS = ["memory", "schedule", "transfers", "mesh"]
SOURCES = ["tables.js", "report.js", "report.css", "chart.css"]


def make_plan(folder):
    binary = os.path.join(folder, "gpt2-bytes")
    subprocess.run([HEDDLE, "compile", "examples/gpt2-bytes/config.json", *PLAN, "-o",
                    binary], check=True, cwd=ROOT, capture_output=True)
    return binary


def read(path):
    with open(path, "rb") as file:
        return file.read()


def hash_of(folder):
    """A hash of the plan, as the drawings in the folder show it, and of the page's
    script and styles."""
    parts = [read(os.path.join(folder, f"plan-{name}.svg")) for name in DRAWINGS]
    parts += [read(os.path.join(ROOT, "tools/heddle/report", name)) for name in SOURCES]
    return hashlib.sha256(b"\0".join(parts)).hexdigest() + "\n"


def make_drawings(binary, folder):
    for name in DRAWINGS:
        subprocess.run([HEDDLE, "explain", binary, "--cluster", CLUSTER, "--svg", name,
                        "-o", os.path.join(folder, f"plan-{name}.svg")], check=True)


def check(binary, folder):
    make_drawings(binary, folder)
    stale = [name for name in (f"plan-{drawing}.svg" for drawing in DRAWINGS)
             if read(os.path.join(folder, name)) != read(os.path.join(PICTURES, name))]
    for theme in ("light", "dark"):
        if read(os.path.join(PICTURES, f"report-{theme}.hash")).decode() != hash_of(folder):
            stale.append(f"report-{theme}.png")
    for name in stale:
        print(f"docs/pictures/{name} is not what this build makes: run "
              "scripts/report_pictures.py")
    return 1 if stale else 0


def make(binary, folder):
    import report_page
    make_drawings(binary, PICTURES)
    page = os.path.join(folder, "report.html")
    subprocess.run([HEDDLE, "report", binary, "--cluster", CLUSTER, "-o", page],
                   check=True)
    for theme in ("light", "dark"):
        begin = os.path.join(PICTURES, f"report-{theme}")
        report_page.screenshot(page, begin + ".png", height=1500, dark=theme == "dark")
        with open(begin + ".hash", "w") as file:
            file.write(hash_of(PICTURES))
    return 0


def main():
    with tempfile.TemporaryDirectory() as folder:
        binary = make_plan(folder)
        return check(binary, folder) if sys.argv[1:] == ["--check"] else make(binary, folder)


if __name__ == "__main__":
    sys.exit(main())
