# Runs the end-to-end tests and prints a summary.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""run.py [-j N] [NAME...]

Runs every test_*.py beside this file, or those named, N classes at a time (by
default one for each core, at most four), the long ones first. Classes that judge times
run alone, after the others. Each test has a line: seconds, and seconds of processors.
The last line is `N passed, N failed, N skipped`; the status is 1 when one failed.
"""

import argparse
import glob
import multiprocessing
import os
import sys
import tempfile
import time
import unittest
from concurrent import futures

import heddle_test as h

FOLDER = os.path.dirname(os.path.abspath(__file__))


def processor_seconds():
    """Of this process and of all programs that it started and that ended."""
    return time.process_time() + h.processor_seconds()


class Result(unittest.TextTestResult):
    """Counts what passed, and says how long each test took."""

    def __init__(self, *args):
        super().__init__(*args)
        self.passed = 0

    def startTest(self, test):
        self.started = time.monotonic(), processor_seconds()
        super().startTest(test)

    def addSuccess(self, test):
        self.passed += 1
        super().addSuccess(test)

    def stopTest(self, test):
        super().stopTest(test)
        wall, used = self.started
        print(f"{time.monotonic() - wall:7.1f} s {processor_seconds() - used:7.1f} s"
              f"  {test.id()}", flush=True)


classes = []  # The tests of each class: what is forked finds them here.


def run_class(number):
    """Runs the tests of one class in this process; gives what they said, and how many
    passed, failed and were skipped."""
    with tempfile.TemporaryFile("w+") as said:
        for stream in (1, 2):
            os.dup2(said.fileno(), stream)
        runner = unittest.TextTestRunner(resultclass=Result, stream=sys.stdout)
        result = runner.run(unittest.TestSuite(classes[number]))
        sys.stdout.flush()
        said.seek(0)
        return said.read(), (result.passed, len(result.failures) + len(result.errors),
                             len(result.skipped))


def tests_by_class(names):
    """The tests of each class. A class that one file imports from another is found
    twice, and its tests are run once."""
    found, known = {}, set()

    def add(suite):
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                add(test)
            elif test.id() not in known:
                known.add(test.id())
                found.setdefault(type(test), []).append(test)

    add(unittest.defaultTestLoader.loadTestsFromNames(names))
    return found


def run_classes(numbers, jobs):
    """Runs these classes, so many at a time; gives the sums of their counts."""
    counts = [0, 0, 0]
    # What is imported by now need not be imported again.
    context = multiprocessing.get_context("fork")
    with futures.ProcessPoolExecutor(jobs, context) as pool:
        for done in futures.as_completed([pool.submit(run_class, number)
                                          for number in numbers]):
            said, found = done.result()
            print(said, end="", flush=True)
            counts = [a + b for a, b in zip(counts, found)]
    return counts


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("-j", type=int, default=min(os.cpu_count(), 4))
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    sys.path.insert(0, FOLDER)
    names = given.names
    if not names:
        files = sorted(glob.glob(os.path.join(FOLDER, "test_*.py")))
        names = [os.path.basename(file)[:-3] for file in files]
    beside, alone = [], []
    for each, tests in tests_by_class(names).items():
        (alone if getattr(each, "runs_alone", False) else beside).append(len(classes))
        classes.append(tests)
    # What takes long comes first.
    beside.sort(key=lambda number: (
        not getattr(classes[number][0], "takes_long", False), -len(classes[number])))
    with tempfile.TemporaryDirectory(prefix="heddle-e2e-cache-") as cache:
        # Kernels that tests have in common, also where they do not say --cache.
        os.environ["XDG_CACHE_HOME"] = cache
        os.environ["HEDDLE_TEST_CACHE"] = os.path.join(cache, "heddle")
        counts = [sum(pair) for pair in zip(run_classes(beside, given.j),
                                            run_classes(alone, 1))]
    print("{} passed, {} failed, {} skipped".format(*counts))
    return 1 if counts[1] else 0


if __name__ == "__main__":
    sys.exit(main())
