# Runs the end-to-end tests and prints a summary.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: run.py [-v] [NAME...]

Runs every test_*.py beside this file, or those named. The last line is
`N passed, N failed, N skipped`; the status is 1 when one failed.
"""

import glob
import os
import sys
import tempfile
import time
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))


class Result(unittest.TextTestResult):
    """Counts what passed, and says how long each test took."""

    def __init__(self, *args):
        super().__init__(*args)
        self.passed = 0

    def startTest(self, test):
        self.started = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test):
        self.passed += 1
        super().addSuccess(test)

    def stopTest(self, test):
        super().stopTest(test)
        print(f"{time.monotonic() - self.started:7.1f} s  {test.id()}", flush=True)


def main():
    sys.path.insert(0, FOLDER)
    names = [name for name in sys.argv[1:] if not name.startswith("-")]
    if not names:
        files = sorted(glob.glob(os.path.join(FOLDER, "test_*.py")))
        names = [os.path.basename(file)[:-3] for file in files]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    runner = unittest.TextTestRunner(resultclass=Result, stream=sys.stdout)
    with tempfile.TemporaryDirectory(prefix="heddle-e2e-cache-") as cache:
        os.environ["HEDDLE_TEST_CACHE"] = cache  # Kernels that tests have in common.
        result = runner.run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
