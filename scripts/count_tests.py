#!/usr/bin/env python3
"""usage: count_tests.py SUITE FILE -- COMMAND...

Runs one suite of tests and appends `N passed, N failed, N skipped` to FILE. The
suite is `unit` (ctest), `lit`, `fuzz` (one test), or any that prints such a line
itself. A suite that gives no counts has failed.
"""

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

REPORTS = {"unit": "--output-junit", "lit": "--xunit-xml-output"}
LINE = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)


def counts_of_report(path):
    """Passed, failed and skipped in a report in JUnit's format."""
    passed = failed = skipped = 0
    for case in xml.parse(path).getroot().iter("testcase"):
        if case.find("skipped") is not None:
            skipped += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        else:
            passed += 1
    return passed, failed, skipped


def run_with_report(suite, command):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        status = subprocess.run(command + [REPORTS[suite], report]).returncode
        counts = counts_of_report(report) if os.path.exists(report) else None
    return status, counts


def run_with_line(command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    counts = None
    for line in process.stdout:
        print(line, end="", flush=True)
        if match := LINE.match(line):
            counts = tuple(map(int, match.groups()))
    return process.wait(), counts


def main():
    suite, target, separator, *command = sys.argv[1:]
    if separator != "--" or not command:
        sys.exit(__doc__)
    if suite in REPORTS:
        status, counts = run_with_report(suite, command)
    elif suite == "fuzz":
        status = subprocess.run(command).returncode
        counts = (0, 1, 0) if status else (1, 0, 0)
    else:
        status, counts = run_with_line(command)
    passed, failed, skipped = counts or (0, 1, 0)
    if status and not failed:
        failed = 1
    with open(target, "a") as file:
        file.write(f"{passed} passed, {failed} failed, {skipped} skipped\n")
    print(f"{suite}: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
