//===- Calls.cpp - Functions that kernels call ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replaces each call by the body of the called function before decoding, so
// that the rest of the emulator sees a single function. Names in the body
// change: a parameter becomes the caller's variable, and a register gets a
// prefix.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Syntax.h"

#include <algorithm>

namespace heddle::emulator {

namespace {
using Names = std::map<std::string, std::string>;

class Inliner {
public:
  Inliner(const Syntax &syntax, const Function &entry)
      : syntax(syntax), result(entry) {
    result.body.clear();
    result.labels.clear();
    result.branchTargets.clear();
    result.variables.clear();
    result.registers.clear();
  }

  Function run(const Function &entry) {
    append(entry, "", {}, entry.line);
    return std::move(result);
  }

private:
  void append(const Function &function, const std::string &prefix, Names names,
              int64_t line);
  void addVariables(const Function &function, const std::string &prefix,
                    Names &names);
  void call(const Instruction &source, const Names &names);
  const Function &find(const std::string &name, int64_t line) const;

  const Syntax &syntax;
  Function result;
  std::vector<const Function *> active; ///< The callers, to detect recursion.
  int64_t numCalls = 0;
};

void rename(std::string &name, const Names &names) {
  if (auto found = names.find(name); found != names.end())
    name = found->second;
}

void rename(Operand &operand, const Names &names) {
  rename(operand.name, names);
  rename(operand.second, names);
  for (Operand &element : operand.elements)
    rename(element, names);
}

Instruction branch(const Instruction &at, const std::string &label) {
  Instruction made = at;
  made.opcode = "bra";
  made.modifiers.clear();
  Operand target;
  target.kind = Operand::Symbol;
  target.name = label;
  made.operands = {target};
  return made;
}
} // namespace

const Function &Inliner::find(const std::string &name, int64_t line) const {
  for (const Function &function : syntax.functions)
    if (function.name == name && !function.isEntry)
      return function;
  throw PtxError(line, "a call of '" + name + "', which has no body here");
}

void Inliner::addVariables(const Function &function, const std::string &prefix,
                           Names &names) {
  for (Variable variable : function.variables) {
    // Do not rename shared memory, because all calls of a function share it.
    std::string name = variable.space == "shared" && !prefix.empty()
                           ? function.name + "@" + variable.name
                           : prefix + variable.name;
    names[variable.name] = name;
    variable.name = name;
    auto isSame = [&](const Variable &of) { return of.name == name; };
    if (std::none_of(result.variables.begin(), result.variables.end(), isSame))
      result.variables.push_back(std::move(variable));
  }
}

void Inliner::append(const Function &function, const std::string &prefix,
                     Names names, int64_t line) {
  if (std::count(active.begin(), active.end(), &function))
    throw PtxError(line, "'" + function.name + "' calls itself");
  active.push_back(&function);
  for (const auto &[name, type] : function.registers) {
    names[name] = prefix + name;
    result.registers[prefix + name] = type;
  }
  addVariables(function, prefix, names);
  std::multimap<size_t, std::string> labels;
  for (const auto &[name, at] : function.labels) {
    names[name] = prefix + name;
    labels.emplace(at, prefix + name);
  }
  for (const auto &[name, targets] : function.branchTargets) {
    names[name] = prefix + name;
    for (const std::string &target : targets)
      result.branchTargets[prefix + name].push_back(prefix + target);
  }
  std::string end = prefix + "@end"; // A name that PTX cannot contain.
  for (size_t i = 0; i <= function.body.size(); ++i) {
    auto [first, last] = labels.equal_range(i);
    for (auto label = first; label != last; ++label)
      result.labels[label->second] = result.body.size();
    if (i == function.body.size())
      break;
    Instruction source = function.body[i];
    rename(source.guard, names);
    if (source.opcode == "call") {
      call(source, names);
      continue;
    }
    if (source.opcode == "ret" && !prefix.empty())
      source = branch(source, end);
    else
      for (Operand &operand : source.operands)
        rename(operand, names);
    result.body.push_back(std::move(source));
  }
  if (!prefix.empty())
    result.labels[end] = result.body.size();
  active.pop_back();
}

/// Inlines a call: call{.uni} (results), function, (operands)
void Inliner::call(const Instruction &source, const Names &names) {
  std::string callee, prefix = "call" + std::to_string(++numCalls) + "@";
  std::vector<std::string> values;
  for (const Operand &operand : source.operands) {
    for (const Operand &element : operand.elements) {
      values.push_back(element.name);
      rename(values.back(), names);
    }
    if (operand.kind == Operand::Symbol && callee.empty())
      callee = operand.name;
    else if (operand.kind != Operand::Vector)
      throw PtxError(source.line, "a call by a register");
  }
  const Function &function = find(callee, source.line);
  if (values.size() != function.parameters.size())
    throw PtxError(source.line, "a call of '" + callee + "' with " +
                                    std::to_string(values.size()) +
                                    " results and operands; it has " +
                                    std::to_string(function.parameters.size()));
  Names given;
  for (size_t i = 0; i < values.size(); ++i) {
    if (function.parameters[i].space != "param")
      throw PtxError(source.line, "'" + callee + "' takes registers");
    given[function.parameters[i].name] = values[i];
  }
  std::string after = prefix + "@after";
  if (!source.guard.empty()) {
    Instruction skip = branch(source, after);
    skip.guardNegated = !source.guardNegated;
    result.body.push_back(std::move(skip));
  }
  append(function, prefix, std::move(given), source.line);
  if (!source.guard.empty())
    result.labels[after] = result.body.size();
}

Function inlineCalls(const Syntax &syntax, const Function &function) {
  auto isCall = [](const Instruction &of) { return of.opcode == "call"; };
  if (std::none_of(function.body.begin(), function.body.end(), isCall))
    return function;
  return Inliner(syntax, function).run(function);
}

} // namespace heddle::emulator
