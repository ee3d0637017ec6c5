#!/usr/bin/env python3
"""usage: check_words.py ROOT

Finds private synonyms that came back: words that this project once had for
something that papers, PyTorch, DeepSpeed, MLIR or CUDA have a word for (see
docs/glossary.md), in the folders where they meant it.
"""

import os
import re
import subprocess
import sys

# The glossary says what `stands` and `behind` mean; it may also list old words.
GLOSSARY = "docs/glossary.md"
CODE = ("lib", "dialects", "include", "runtime", "emulator", "tools")
ALL = CODE + ("docs", "README.md")
SHARD = ("lib/Transforms/Shard", "include/heddle/Transforms/Shard")
STREAMED = ("lib/Transforms/Memory", "lib/Transforms/Spmd", "include/heddle/Transforms/Memory",
            "include/heddle/Transforms/Spmd")
KERNELS = ("lib/Codegen", "include/heddle/Codegen", "dialects/NN", "dialects/Dist",
           "dialects/Plan", "lib/Transforms")
# A regular expression, the folders in which it is a private word, and the word to use.
WORDS = (
    (r"(?<!factor\.)[uU]nits?(?! attribute)", SHARD, "bucket"),
    (r"(struct|class) (Place|Part|Piece|Run|Window|Way|Thing|Unit)(?= *[:{;])", CODE,
     "a name that says what it is of"),
    (r"[wW]indows?(?! of states)", STREAMED, "tile"),
    (r"(is|are|is not|are not|live|lives|lies|stay|stays) elsewhere", ALL, "offloaded"),
    (r"pitch(es)?", CODE, "leading dimension"),
    (r"speakers?", CODE, "reporting rank"),
    (r"swap files?", ALL, "offload file"),
    (r"turned", ("lib/Codegen", "dialects/NN", "include/heddle/Codegen"), "rotated"),
)
# In memory, bytes lie behind others: in no other sense is one of these two needed.
PLACE_WORDS, MOST_PLACE_WORDS = r"behind|stands", 80


def matches(root, pattern, folders):
    """`file:line: text` of each whole word in tracked files of these folders."""
    present = [name for name in folders if os.path.exists(os.path.join(root, name))]
    found = subprocess.run(
        ["git", "-C", root, "grep", "-nIP", rf"\b({pattern})\b", "--", *present],
        capture_output=True, text=True, check=False)
    if found.returncode > 1:
        sys.exit(found.stderr)
    return [line for line in found.stdout.splitlines()
            if not line.startswith((GLOSSARY, "docs/reference"))]


def main():
    root = sys.argv[1]
    problems = [f"{line}\n  use: {use}" for pattern, folders, use in WORDS
                for line in matches(root, pattern, folders)]
    words = [word for line in matches(root, PLACE_WORDS, ALL)
             for word in re.findall(rf"\b({PLACE_WORDS})\b", line.split(":", 2)[2])]
    if len(words) > MOST_PLACE_WORDS:
        problems.append(f"`behind` and `stands` {len(words)} times, at most "
                        f"{MOST_PLACE_WORDS}: say `after`, `until`, `is`, `follows`")
    print("\n".join(problems) or f"no private word; `behind` and `stands` {len(words)} times")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
