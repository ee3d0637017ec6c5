# Edits of dumps, drawn at random.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a user may do to a dump with an editor: lines go, come twice or move,
operands, numbers, names and attributes change.

    mutate(text, random.Random(7))  ->  (what was done, the new text)

The same text and seed give the same mutant. An edit knows the text alone, and
a little of how MLIR is written: which values there are and of which type."""

import re

VALUE = re.compile(r"%[A-Za-z_0-9]+(?:#\d+)?")
RESULTS = re.compile(r"^\s*((?:%\w+(?::\d+)?(?:, )?)+) = ([\w.]+)")
ARGUMENT = re.compile(r"(%\w+): ((?:tensor|memref)<[^>]*>|index|i\d+)")
SYMBOL = re.compile(r"@[\w.$-]+")
QUOTED = re.compile(r'"[^"\\]{1,60}"')
# A number that is none of a name's, a type's or a location's.
INTEGER = re.compile(r"(?<![\w.%@#\"x<+-])-?\d+(?![\w.\"])")
SIZE = re.compile(r"(?<=[<x])\d+(?=x)")
FLOAT = re.compile(r"(?<![\w.%@#])-?\d+\.\d+(?:e[+-]\d+)?(?![\w.])")
TYPE = re.compile(r"(?:tensor|memref)<[^>]*>")
ELEMENT = re.compile(r"(?<=[<x])(?:f32|bf16|i32)(?=>)")
DICTIONARY = re.compile(r"(?<![\w>] )\{([^{}]*)\}")
ENTRY = re.compile(r"(?<![%\w.])([a-z_]\w*) = ((?:[^,\[\]<>{}\"]|\"[^\"]*\"|\[[^\[\]]*\]|"
                   r"<[^<>]*>|\[(?:[^\[\]]|\[[^\[\]]*\])*\]|<(?:[^<>]|<[^<>]*>)*>)+)")
# Compiled code as text.
CODE = re.compile(r'"[A-Za-z0-9+/=]{61,}"')
LOCATION = re.compile(r" loc\((?:[^()]|\([^()]*\))*\)")
NUMBERS = ["0", "1", "-1", "2", "7", "2147483648", "9223372036854775807"]
FLOATS = ["0.000000e+00", "1.000000e+00", "-1.000000e+00", "5.000000e-01",
          "1.000000e+308", "0x7FF8000000000000"]


def _spans(pattern, line):
    """Where the pattern stands before the line's location."""
    end = line.rfind(" loc(")
    return [match for match in pattern.finditer(line, 0, end if end > 0 else len(line))]


def _put(line, match, text):
    return line[:match.start()] + text + line[match.end():]


def _split_types(text):
    """The types of a list, which may be in parentheses."""
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    return re.findall(r"(?:tensor|memref|vector)<[^>]*>|\w+", text)


class _Text:
    """The lines of a dump, and what is known of them."""

    def __init__(self, text, pick):
        self.lines = text.split("\n")
        self.pick = pick
        self.body = [number for number, line in enumerate(self.lines)
                     if line.strip() and not line.startswith("#")
                     and not re.match(r"\s*[})]", line) and line.startswith(" ")]

    def line(self, wanted=None):
        """The number of a line, drawn; `wanted` says which are possible."""
        numbers = [n for n in self.body if wanted is None or wanted(self.lines[n])]
        if not numbers:
            return None
        # Most lines of a dump are declarations of states, and one says what the
        # model is: neither is drawn as often as it is long.
        roots = [n for n in numbers if re.match(r"\s*nn\.model|\s*plan\.program",
                                                self.lines[n])]
        if roots and self.pick.random() < 0.04:
            return self.pick.choice(roots)
        other = [n for n in numbers if not re.match(r"\s*(nn|plan)\.state",
                                                    self.lines[n])]
        return self.pick.choice(other if other and self.pick.random() < 0.6 else numbers)

    def scope(self, number):
        """The first and last line of the function that a line is in."""
        def outside(line):
            return len(line) - len(line.lstrip()) <= 4 and line.strip()
        first = last = number
        while first > 0 and not outside(self.lines[first]):
            first -= 1
        while last + 1 < len(self.lines) and not outside(self.lines[last]):
            last += 1
        return first, last

    def types(self, first, last):
        """The type of each value that these lines define."""
        found = {}
        for line in self.lines[first:last + 1]:
            head = RESULTS.match(line)
            if not head:
                found.update(ARGUMENT.findall(line))
                continue
            signature = LOCATION.sub("", line).rsplit(" : ", 1)[-1]
            kinds = _split_types(signature.rsplit(" -> ", 1)[-1])
            names = []
            for name in head.group(1).split(", "):
                name, _, count = name.partition(":")
                names += [f"{name}#{i}" for i in range(int(count))] if count else [name]
            found.update(zip(names, kinds))
        return found

    def block_end(self, number):
        """The line that closes what line `number` opens."""
        indent = len(self.lines[number]) - len(self.lines[number].lstrip())
        for other in range(number + 1, len(self.lines)):
            line = self.lines[other]
            if line.strip() and len(line) - len(line.lstrip()) <= indent:
                return other
        return number


def delete(text):
    number = text.line()
    del text.lines[number]
    return f"delete line {number + 1}"


def delete_block(text):
    number = text.line(lambda line: LOCATION.sub("", line).endswith("{"))
    if number is None:
        return None
    end = text.block_end(number)
    del text.lines[number:end + 1]
    return f"delete lines {number + 1} to {end + 1}"


def _fresh(line, number):
    """The line with other names for its results."""
    head = RESULTS.match(line)
    if not head:
        return line
    names = re.sub(r"%(\w+)", rf"%\1_again{number}", head.group(1))
    return line[:head.start(1)] + names + line[head.end(1):]


def duplicate(text):
    number = text.line()
    text.lines.insert(number + 1, _fresh(text.lines[number], number))
    return f"duplicate line {number + 1}"


def copy(text):
    number, place = text.line(), text.line()
    text.lines.insert(place, _fresh(text.lines[number], number))
    return f"copy line {number + 1} before line {place + 1}"


def move(text):
    number = text.line()
    first, last = text.scope(number)
    place = text.pick.randint(first + 1, max(first + 1, last))
    text.lines.insert(place, text.lines.pop(number))
    return f"move line {number + 1} to {place + 1}"


def swap(text):
    number = text.line()
    if number + 1 >= len(text.lines):
        return None
    lines = text.lines
    lines[number], lines[number + 1] = lines[number + 1], lines[number]
    return f"swap lines {number + 1} and {number + 2}"


def _operands(line):
    head = RESULTS.match(line)
    begin = head.end() if head else 0
    return [match for match in _spans(VALUE, line) if match.start() >= begin]


def operand(text):
    """Another value in the place of an operand: often of the same type."""
    number = text.line(_operands)
    if number is None:
        return None
    line = text.lines[number]
    old = text.pick.choice(_operands(line))
    types = text.types(*text.scope(number))
    alike = [name for name, kind in types.items()
             if kind == types.get(old.group()) and name != old.group()]
    others = alike if alike and text.pick.random() < 0.85 else list(types)
    if not others:
        return None
    new = text.pick.choice(others)
    text.lines[number] = _put(line, old, new)
    return f"line {number + 1}: {old.group()} becomes {new}"


def bypass(text):
    """An operation goes; an operand stands for its result."""
    number = text.line(lambda line: RESULTS.match(line) and _operands(line))
    if number is None:
        return None
    line = text.lines[number]
    first, last = text.scope(number)
    types = text.types(first, last)
    result = re.match(r"%\w+", RESULTS.match(line).group(1)).group()
    inputs = [match.group() for match in _operands(line)]
    alike = [name for name in inputs if types.get(name) == types.get(result)]
    new = text.pick.choice(alike or inputs)
    del text.lines[number]
    pattern = re.compile(re.escape(result) + r"(?:#0)?(?![\w#])")
    for other in range(number, last):
        text.lines[other] = pattern.sub(new, text.lines[other])
    return f"line {number + 1} goes, {new} stands for {result}"


def dead(text):
    """The result of an operation is used no more: another one stands for it."""
    number = text.line(lambda line: RESULTS.match(line))
    if number is None:
        return None
    first, last = text.scope(number)
    types = text.types(first, last)
    result = re.match(r"%\w+", RESULTS.match(text.lines[number]).group(1)).group()
    alike = [name for name, kind in types.items()
             if kind == types.get(result) and name != result]
    if not alike:
        return None
    new = text.pick.choice(alike)
    pattern = re.compile(re.escape(result) + r"(?![\w#])")
    for other in range(number + 1, last):
        text.lines[other] = pattern.sub(new, text.lines[other])
    return f"line {number + 1}: {new} stands for {result} from here on"


def swap_operands(text):
    number = text.line(lambda line: len(_operands(line)) > 1)
    if number is None:
        return None
    line = text.lines[number]
    one, two = sorted(text.pick.sample(_operands(line), 2), key=lambda m: m.start())
    text.lines[number] = _put(_put(line, two, one.group()), one, two.group())
    return f"line {number + 1}: {one.group()} and {two.group()} change places"


def integer(text):
    number = text.line(lambda line: _spans(INTEGER, line))
    if number is None:
        return None
    line = text.lines[number]
    old = text.pick.choice(_spans(INTEGER, line))
    value = int(old.group())
    new = text.pick.choice(NUMBERS + [str(value + 1), str(value - 1), str(value * 2)])
    text.lines[number] = _put(line, old, new)
    return f"line {number + 1}: {old.group()} becomes {new}"


def floating(text):
    number = text.line(lambda line: _spans(FLOAT, line))
    if number is None:
        return None
    line = text.lines[number]
    old = text.pick.choice(_spans(FLOAT, line))
    new = text.pick.choice(FLOATS)
    text.lines[number] = _put(line, old, new)
    return f"line {number + 1}: {old.group()} becomes {new}"


def size(text):
    """Another size of a tensor: in one place, or of this type everywhere."""
    number = text.line(lambda line: SIZE.search(line))
    if number is None:
        return None
    line = text.lines[number]
    kind = text.pick.choice([m for m in TYPE.finditer(line) if SIZE.search(m.group())])
    old = text.pick.choice(list(SIZE.finditer(kind.group())))
    new = text.pick.choice(["0", "1", "3", str(int(old.group()) + 1),
                            str(int(old.group()) * 2), "2147483648"])
    changed = _put(kind.group(), old, new)
    if text.pick.random() < 0.5:
        text.lines[number] = _put(line, kind, changed)
        return f"line {number + 1}: {kind.group()} becomes {changed}"
    text.lines[:] = [each.replace(kind.group(), changed) for each in text.lines]
    return f"{kind.group()} becomes {changed} everywhere"


def element(text):
    number = text.line(lambda line: ELEMENT.search(line))
    if number is None:
        return None
    line = text.lines[number]
    old = text.pick.choice(list(ELEMENT.finditer(line)))
    new = text.pick.choice([e for e in ("f32", "bf16", "i32", "f64", "i8")
                            if e != old.group()])
    text.lines[number] = (_put(line, old, new) if text.pick.random() < 0.5 else
                          line.replace(old.group() + ">", new + ">"))
    return f"line {number + 1}: {old.group()} becomes {new}"


def symbol(text):
    """Another name, one that is there or one that is not."""
    number = text.line(lambda line: _spans(SYMBOL, line))
    if number is None:
        return None
    line = text.lines[number]
    old = text.pick.choice(_spans(SYMBOL, line))
    there = sorted({m.group() for n in text.body for m in _spans(SYMBOL, text.lines[n])
                    if m.group() != old.group()})
    new = old.group() + "x"
    if there and text.pick.random() < 0.7:
        new = text.pick.choice(there)
    text.lines[number] = _put(line, old, new)
    return f"line {number + 1}: {old.group()} becomes {new}"


def string(text):
    """Another string: an axis, a role, a path, a kind."""
    number = text.line(lambda line: _spans(QUOTED, line))
    if number is None:
        return None
    line = text.lines[number]
    old = text.pick.choice(_spans(QUOTED, line))
    there = sorted({m.group() for n in text.body for m in _spans(QUOTED, text.lines[n])
                    if m.group() != old.group()})
    new = text.pick.choice(there) if there and text.pick.random() < 0.75 else '"x"'
    text.lines[number] = _put(line, old, new)
    return f"line {number + 1}: {old.group()} becomes {new}"


def drop_attribute(text):
    number = text.line(lambda line: DICTIONARY.search(line))
    if number is None:
        return None
    line = text.lines[number]
    body = text.pick.choice(list(DICTIONARY.finditer(line)))
    entries = [e.strip() for e in re.split(r", (?=[a-z_]+(?: =|,|$))", body.group(1))]
    gone = entries.pop(text.pick.randrange(len(entries)))
    text.lines[number] = _put(line, body, "{" + ", ".join(entries) + "}")
    return f"line {number + 1}: without {gone}"


def swap_attributes(text):
    """The values of one attribute in two places change places."""
    number = text.line(lambda line: _spans(ENTRY, line))
    if number is None:
        return None
    one = text.pick.choice(_spans(ENTRY, text.lines[number]))
    there = [(n, m) for n in text.body for m in _spans(ENTRY, text.lines[n])
             if m.group(1) == one.group(1) and m.group(2) != one.group(2)
             and n != number]
    if not there:
        return None
    other, two = text.pick.choice(there)
    text.lines[number] = _put(text.lines[number], one, two.group())
    text.lines[other] = _put(text.lines[other], two, one.group())
    return f"{one.group(1)} of lines {number + 1} and {other + 1} change places"


def operation(text):
    """Another operation that is in the text, with the same operands."""
    pattern = re.compile(r"(?<=[ =])(?:nn|dist|pipe|plan|arith)\.\w+")
    number = text.line(lambda line: _spans(pattern, line))
    if number is None:
        return None
    line = text.lines[number]
    old = _spans(pattern, line)[0]
    there = sorted({m.group() for n in text.body for m in _spans(pattern, text.lines[n])}
                   - {old.group()})
    if not there:
        return None
    new = text.pick.choice(there)
    text.lines[number] = _put(line, old, new)
    return f"line {number + 1}: {old.group()} becomes {new}"


def truncate(text):
    number = text.line()
    line = text.lines[number]
    del text.lines[number:]
    text.lines.append(line[:text.pick.randint(0, len(line))])
    return f"truncated in line {number + 1}"


def code(text):
    """A bit of compiled code, or a few bytes of it."""
    number = text.line(CODE.search)
    if number is None:
        return None
    line = text.lines[number]
    old = CODE.search(line)
    at = text.pick.randrange(old.start() + 1, old.end() - 1)
    new = text.pick.choice("ABCDwxyz0189+/!")
    text.lines[number] = line[:at] + new + line[at + text.pick.choice([1, 1, 1, 4]):]
    return f"line {number + 1}, column {at + 1}: {new!r} in compiled code"


def character(text):
    number = text.line()
    line = text.lines[number]
    at = text.pick.randrange(len(line))
    new = text.pick.choice('@%#"<>{}()[],:=x0\x00\xe9')
    text.lines[number] = line[:at] + new + line[at + text.pick.randint(0, 1):]
    return f"line {number + 1}, column {at + 1}: {new!r}"


EDITS = {delete: 8, delete_block: 2, duplicate: 6, copy: 3, move: 5, swap: 4,
         operand: 16, bypass: 8, dead: 6, swap_operands: 4, integer: 12, floating: 3,
         size: 5, element: 3, symbol: 10, string: 8, drop_attribute: 6,
         swap_attributes: 6, operation: 4, truncate: 1, character: 2}
# Of dumps that have compiled code.
CODE_EDITS = {**EDITS, code: 3}


def mutate(text, pick):
    """One edit or, now and then, two or three."""
    edited = _Text(text, pick)
    edits = CODE_EDITS if CODE.search(text) else EDITS
    done = []
    for _ in range(pick.choice([1, 1, 1, 1, 1, 2, 3])):
        what = None
        while what is None:
            before = list(edited.lines)
            (edit,) = pick.choices(list(edits), weights=edits.values())
            what = edit(edited)
            if edited.lines == before:
                what = None
        done.append(f"{edit.__name__}: {what}")
        edited = _Text("\n".join(edited.lines), pick)
        if not edited.body:
            break
    return "; ".join(done), "\n".join(edited.lines)
