#!/usr/bin/env python3
"""Prints UnicodeTables.inc: the code points of \\p{L} and of \\p{N}.

They are those that the package `tokenizers` knows, so that both cut a text at
the same places: a character belongs to a class if GPT-2's pattern does not cut
between it and a member of the class.
"""
from tokenizers import pre_tokenizers

SPLITTER = pre_tokenizers.ByteLevel(add_prefix_space=False)


def ranges(member):
    out = []
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        if len(SPLITTER.pre_tokenize_str(member + chr(code))) != 1:
            continue
        if out and out[-1][1] == code - 1:
            out[-1][1] = code
        else:
            out.append([code, code])
    return out


def table(name, member):
    print(f"static constexpr CodeRange {name}[] = {{")
    row = "   "
    for first, last in ranges(member):
        item = f" {{0x{first:X}, 0x{last:X}}},"
        if len(row) + len(item) > 80:
            print(row)
            row = "   "
        row += item
    print(row)
    print("};")


print("// Made by make_unicode_tables.py; do not edit.")
table("letterRanges", "a")
table("numberRanges", "1")
