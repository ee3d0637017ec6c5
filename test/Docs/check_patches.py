#!/usr/bin/env python3
"""usage: check_patches.py ROOT [BUILD]

Each patch beside this file follows a page of docs that says how to add something:
patches/adding-an-op.patch follows docs/adding-an-op.md. Its first lines say

    build: TARGET...     what to build with it
    run: COMMAND         what must succeed then, in the tree, with $BUILD

Without BUILD, or unless HEDDLE_TEST_LONG=1, the patches have to apply to ROOT. With
both they are, one after the other, applied to a copy of the tree that is configured
as BUILD is, built, run and taken back."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "patches")


def lines_of(path, word):
    with open(path) as file:
        return [line[len(word) + 2:].strip() for line in file
                if line.startswith(word + ": ")]


def run(command, **options):
    print("$", command if isinstance(command, str) else " ".join(command), flush=True)
    return subprocess.run(command, **options).returncode == 0


def applies(root, path, *flags):
    return run(["patch", "-p1", "--batch", "--fuzz=2", *flags, "-d", root, "-i", path],
               stdout=subprocess.DEVNULL)


def works(tree, made, path):
    return (applies(tree, path) and
            run(["cmake", "--build", made, "--target",
                 *" ".join(lines_of(path, "build")).split()]) and
            all(run(command, shell=True, cwd=tree,
                    env={**os.environ, "BUILD": made, "HEDDLE_BUILD": made})
                for command in lines_of(path, "run")) and
            applies(tree, path, "--reverse"))


def those_that_do_not_work(root, build, patches):
    """Builds one tree for all of them: what a patch does not change is not built
    again. What comes after one that does not work is not tried."""
    with tempfile.TemporaryDirectory(prefix="heddle-patch-") as folder:
        tree, made = os.path.join(folder, "tree"), os.path.join(folder, "build")
        shutil.copytree(root, tree, ignore=shutil.ignore_patterns("build", ".git"))
        with open(os.path.join(build, "CMakeCache.txt")) as cache:
            kept = [line.split("=", 1)[1].strip() for line in cache
                    if line.startswith("CMAKE_BUILD_TYPE:")]
        if not run(["cmake", "-S", tree, "--preset", "release", "-B", made,
                    "-DCMAKE_BUILD_TYPE=" + "".join(kept)]):
            return patches
        return next(([path] for path in patches if not works(tree, made, path)), [])


def main():
    root, builds = sys.argv[1], sys.argv[2:]
    patches = sorted(glob.glob(os.path.join(FOLDER, "*.patch")))
    wrong = [path for path in patches if not os.path.exists(
        os.path.join(root, "docs", os.path.basename(path)[:-len("patch")] + "md"))]
    wrong += [path for path in patches if not applies(root, path, "--dry-run")]
    if not wrong and builds and os.environ.get("HEDDLE_TEST_LONG") == "1":
        wrong = those_that_do_not_work(root, builds[0], patches)
    for path in wrong:
        print("does not work:", path)
    return 1 if wrong or not patches else 0


if __name__ == "__main__":
    sys.exit(main())
