#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lists the keys of a ds_config.json that DeepSpeed's sources read.

    scripts/deepspeed_keys.py DIR_OR_TARBALL [...] > test/Inputs/deepspeed-keys.txt

Nothing of DeepSpeed is imported, only parsed: DeepSpeedConfig's constructor is
followed with the dictionary as a value of which only the path is known, through
functions and constructors that get a part of it. Fields of pydantic classes
count under their names and aliases. A line is a path, and the versions that
read it.
"""

import ast
import pathlib
import sys
import tarfile
import tempfile


class Package:
    """Constants, functions and classes of all modules, by name."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.modules = {}  # By path below deepspeed/.
        base = self.root / "deepspeed"
        for path in sorted(base.rglob("*.py")):
            if "inference/v2" not in str(path):
                tree = ast.parse(path.read_text())
                self.modules[str(path.relative_to(base))] = tree
        self.version = (self.root / "version.txt").read_text().strip()
        self.names = {}  # (module, name) -> node
        for module, tree in self.modules.items():
            for node in tree.body:
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        if isinstance(target, ast.Name):
                            self.names[module, target.id] = node.value
                elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    self.names[module, node.name] = node

    def imports(self, module):
        """(module, name or *) of each import of this package in a module."""
        for node in ast.walk(self.modules[module]):
            if not isinstance(node, ast.ImportFrom):
                continue
            parts = (node.module or "").split(".")
            if node.level:
                here = module.split("/")[:-1]
                here = here[:len(here) - node.level + 1]
                parts = here + [p for p in parts if p]
            elif parts[0] == "deepspeed":
                parts = parts[1:]
            else:
                continue
            for file in ("/".join(parts) + ".py",
                         "/".join(parts + ["__init__.py"])):
                if file in self.modules:
                    for name in node.names:
                        yield file, name.name

    def find(self, module, name, seen=()):
        """(module, node) of a name as a module sees it, or None."""
        if (module, name) in self.names:
            return module, self.names[module, name]
        if module in seen:
            return None
        for other, imported in self.imports(module):
            if imported in ("*", name):
                found = self.find(other, name, (*seen, module))
                if found:
                    return found
        return None

    def text(self, module, node):
        """The string that an expression is, or None."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            found = self.find(module, node.id)
            return self.text(*found) if found and isinstance(
                found[1], (ast.Constant, ast.Name)) else None
        return None


class Reader:
    """Follows a dictionary through the sources, and records what is read."""

    def __init__(self, package):
        self.package = package
        self.keys = set()
        self.done = set()

    def record(self, section, key):
        """Sections that a variable may be have | between them."""
        paths = [f"{one}.{key}" if one else key for one in section.split("|")]
        self.keys.update(paths)
        return "|".join(paths)

    def is_model(self, module, node):
        for base in node.bases:
            name = getattr(base, "id", None) or getattr(base, "attr", None)
            if name == "DeepSpeedConfigModel":
                return True
            found = name and self.package.find(module, name)
            if found and isinstance(found[1], ast.ClassDef) and self.is_model(
                    *found):
                return True
        return False

    def fields(self, module, node, section):
        """Records the fields of a pydantic class, and of classes in it."""
        for base in node.bases:
            found = isinstance(base, ast.Name) and self.package.find(
                module, base.id)
            if found and isinstance(found[1], ast.ClassDef):
                self.fields(*found, section)
        for item in node.body:
            if not isinstance(item, ast.AnnAssign):
                continue
            names = [item.target.id]
            if isinstance(item.value, ast.Call):
                names += [word.value.value for word in item.value.keywords
                          if word.arg == "alias"]
            for name in names:
                path = self.record(section, name)
                for part in ast.walk(item.annotation):
                    found = isinstance(part, ast.Name) and self.package.find(
                        module, part.id)
                    if found and isinstance(found[1], ast.ClassDef) \
                            and self.is_model(*found):
                        self.fields(*found, path)

    def run(self, module, function, values):
        """What a function returns, with what is known of its arguments."""
        key = (module, function.name, function.lineno,
               tuple(sorted((k, str(v)) for k, v in values.items())))
        if key in self.done:
            return None
        self.done.add(key)
        env, result = dict(values), None
        for node in self.statements(function.body):
            if isinstance(node, ast.Assign):
                value = self.value(module, node.value, env)
                for target in node.targets:
                    # Anything else is written, not read.
                    if isinstance(target, ast.Name) and value is not None:
                        known = env.get(target.id)
                        if isinstance(known, str) and known != value:
                            value = f"{known}|{value}"
                        env[target.id] = value
            elif isinstance(node, ast.Return) and node.value is not None:
                result = self.value(module, node.value, env) or result
            else:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(module, child, env)
        return result

    def statements(self, body):
        for node in body:
            yield node
            for name in ("body", "orelse", "finalbody", "handlers"):
                for child in getattr(node, name, []):
                    if isinstance(child, ast.ExceptHandler):
                        yield from self.statements(child.body)
                    elif isinstance(child, ast.stmt):
                        yield from self.statements([child])

    def call(self, module, node, env):
        arguments = [self.value(module, a, env) for a in node.args]
        for place, argument in enumerate(node.args):
            text = self.package.text(module, argument)
            if arguments[place] is None and text:
                arguments[place] = ("text", text)
        words = {w.arg: self.value(module, w.value, env)
                 for w in node.keywords}
        callee = node.func
        if isinstance(callee, ast.Attribute):
            section = self.value(module, callee.value, env)
            if callee.attr in ("copy", "deepcopy"):
                return section if section is not None else next(
                    (a for a in arguments if isinstance(a, str)), None)
            if section is not None and callee.attr in ("get", "pop"):
                key = self.package.text(module, node.args[0])
                return self.record(section, key) if key else None
            if section is not None and callee.attr in ("keys", "items"):
                return section
            own = env.get("self")
            if isinstance(own, tuple) and callee.attr != "__init__" \
                    and isinstance(callee.value, ast.Name):
                for item in own[1].body:
                    if isinstance(item, ast.FunctionDef) \
                            and item.name == callee.attr:
                        return self.enter(own[0], item, arguments, words, own)
            return None
        if not isinstance(callee, ast.Name):
            return None
        if callee.id.startswith("get_") and callee.id.endswith("_param") \
                and arguments and isinstance(arguments[0], str):
            name = node.args[1]
            key = self.package.text(module, name) or env.get(
                "=" + getattr(name, "id", ""))
            return self.record(arguments[0], key) if key else None
        found = self.find_callable(module, callee.id)
        if not found:
            return None
        module, node_of = found
        if isinstance(node_of, ast.FunctionDef):
            return self.enter(module, node_of, arguments, words)
        if not isinstance(node_of, ast.ClassDef):
            return None
        if self.is_model(module, node_of):
            if words.get(None) is not None:
                self.fields(module, node_of, words[None])
            return None
        for item in node_of.body:
            if isinstance(item, ast.FunctionDef) and item.name == "__init__" \
                    and any(isinstance(a, str) for a in arguments):
                self.enter(module, item, arguments, words, (module, node_of))
        return None

    def find_callable(self, module, name):
        found = self.package.find(module, name)
        if found or module not in self.package.modules:
            return found
        return None

    def enter(self, module, function, arguments, words, own=None):
        names = [a.arg for a in function.args.args]
        values = {}
        if own:
            values["self"] = own
            names = names[1:]
        # Names of keys that are defaults of arguments.
        defaults = function.args.defaults
        for name, default in zip(names[len(names) - len(defaults):], defaults):
            text = self.package.text(module, default)
            if text:
                values["=" + name] = text
        for name, argument in [*zip(names, arguments), *words.items()]:
            if isinstance(argument, tuple) and argument[0] == "text":
                values["=" + name] = argument[1]
            elif name and argument is not None:
                values[name] = argument
        if not any(isinstance(v, str) and not k.startswith("=")
                   for k, v in values.items()):
            return None
        return self.run(module, function, values)

    def value(self, module, node, env):
        """The path of what an expression is, or None; records what it reads."""
        if isinstance(node, ast.Name):
            return env.get(node.id)
        if isinstance(node, ast.Attribute):
            if node.attr == "_param_dict":
                return ""
            return None
        if isinstance(node, ast.Call):
            return self.call(module, node, env)
        if isinstance(node, ast.Subscript):
            section = self.value(module, node.value, env)
            key = self.package.text(module, node.slice)
            if section is None or isinstance(section, tuple) or key is None:
                return None
            return self.record(section, key)
        if isinstance(node, ast.Compare):
            right = self.value(module, node.comparators[0], env)
            key = self.package.text(module, node.left)
            if isinstance(right, str) and key and isinstance(
                    node.ops[0], (ast.In, ast.NotIn)):
                self.record(right, key)
            self.value(module, node.left, env)
            return None
        if isinstance(node, ast.DictComp) and isinstance(node.value, ast.Call):
            # {key: section.get(key) for key in ...}: a part of the section.
            return self.value(module, node.value.func.value, env)
        result = None
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.expr, ast.keyword, ast.comprehension)):
                inner = self.value(module, child, env)
                if isinstance(node, (ast.IfExp, ast.BoolOp, ast.Starred,
                                     ast.keyword)):
                    result = result if result is not None else inner
        return result

    def read(self):
        module = "runtime/config.py"
        root = self.package.names[module, "DeepSpeedConfig"]
        for item in root.body:
            if isinstance(item, ast.FunctionDef):
                names = [a.arg for a in item.args.args]
                values = {n: "" for n in names if n in ("config", "param_dict")}
                self.run(module, item, {**values, "self": (module, root)})
        # What the parser fills in itself is a key too.
        for (file, name), node in self.package.names.items():
            if file == module and isinstance(node, ast.Dict):
                section = {"_REMOVED_TOP_LEVEL_CONFIG_KEYS": "",
                           "_REMOVED_ZERO_CONFIG_KEYS": "zero_optimization"}
                if name in section:
                    for key in node.keys:
                        self.record(section[name], key.value)
        pipeline = self.package.names[module, "get_pipeline_config"]
        for node in ast.walk(pipeline):
            if isinstance(node, ast.Dict):
                for key in node.keys:
                    self.record("pipeline", key.value)
        return self.keys


def keys_of(source, scratch):
    path = pathlib.Path(source)
    if path.is_file():
        with tarfile.open(path) as archive:
            target = pathlib.Path(scratch) / path.name
            for member in archive.getmembers():
                # Plain files below the scratch directory, whatever it holds.
                name = pathlib.PurePosixPath(member.name)
                if not member.isfile() or name.is_absolute() or (
                        ".." in name.parts):
                    continue
                file = target / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(archive.extractfile(member).read())
        (path,) = target.iterdir()
    package = Package(path)
    return package.version, Reader(package).read()


def main(sources):
    versions = {}
    with tempfile.TemporaryDirectory() as scratch:
        for source in sources:
            version, keys = keys_of(source, scratch)
            for key in keys:
                versions.setdefault(key, []).append(version)
    for key in sorted(versions):
        print(key, *sorted(versions[key]))


if __name__ == "__main__":
    main(sys.argv[1:])
