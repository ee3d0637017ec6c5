#!/usr/bin/env python3
"""Prints UnicodeTables.inc: the code points of \\p{L} and of \\p{N}.

Needs the module `regex`, whose Unicode version is the newest that is packaged.
"""
import regex


def ranges(pattern):
    matches = regex.compile(pattern).fullmatch
    out = []
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000 or not matches(chr(code)):
            continue
        if out and out[-1][1] == code - 1:
            out[-1][1] = code
        else:
            out.append([code, code])
    return out


def table(name, pattern):
    print(f"static constexpr CodeRange {name}[] = {{")
    row = "   "
    for first, last in ranges(pattern):
        item = f" {{0x{first:X}, 0x{last:X}}},"
        if len(row) + len(item) > 80:
            print(row)
            row = "   "
        row += item
    print(row)
    print("};")


print("// Made by make_unicode_tables.py; do not edit.")
table("letterRanges", r"\p{L}")
table("numberRanges", r"\p{N}")
