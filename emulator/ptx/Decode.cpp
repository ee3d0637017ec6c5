//===- Decode.cpp - Decodes parsed PTX into ops ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns each instruction of a function into an Op: looks up its opcode in the
// tables of the instruction files, and resolves registers, variables, labels
// and special registers.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Decode.h"
#include "emulator/ptx/Rounding.h"

#include <algorithm>
#include <cstring>

namespace heddle::emulator {

/// Decodes a function. Operands are the indices of PTX registers, until
/// `assignRows` replaces them by offsets in a warp's memory for registers.
class FunctionDecoder {
public:
  FunctionDecoder(const Syntax &syntax, const Function &function,
                  const std::map<std::string, uint64_t> &globals);

  Program run();

  uint32_t row(const std::string &name, int64_t line);
  uint32_t constant(uint64_t bits, int width);
  uint32_t scratch(int width);
  uint32_t carry();
  int width(uint32_t row) const { return widths[row]; }
  /// The address of a variable in its state space.
  uint64_t addressOf(const std::string &name, int64_t line) const;

  const Function &function;
  const std::string target;
  Program program;

private:
  friend class Decode;

  void layOut(const Variable &variable, int64_t &bytes, int64_t base);
  uint32_t add(int width);

  std::vector<int> widths;
  std::map<std::string, uint32_t> named;
  std::map<std::pair<uint64_t, int>, uint32_t> constants;
  std::map<std::string, uint64_t> addresses;
  std::map<std::string, int64_t> parameterOffsets;
  uint32_t carryRow = noRow;
};

static int64_t alignTo(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

//===----------------------------------------------------------------------===//
// Variables and rows
//===----------------------------------------------------------------------===//

void FunctionDecoder::layOut(const Variable &variable, int64_t &bytes,
                             int64_t base) {
  bytes = alignTo(bytes, variable.alignment);
  addresses[variable.name] = static_cast<uint64_t>(base + bytes);
  bytes += variable.bytes;
}

FunctionDecoder::FunctionDecoder(const Syntax &syntax, const Function &function,
                                 const std::map<std::string, uint64_t> &globals)
    : function(function), target(syntax.target), addresses(globals) {
  program.name = function.name;
  for (const Variable &parameter : function.parameters) {
    int64_t bytes = std::max<int64_t>(parameter.bytes, 1);
    program.parameterBytes =
        alignTo(program.parameterBytes, parameter.alignment);
    parameterOffsets[parameter.name] = program.parameterBytes;
    addresses[parameter.name] = static_cast<uint64_t>(program.parameterBytes);
    program.parameters.push_back({program.parameterBytes, bytes});
    program.parameterBytes += bytes;
  }
  std::vector<const Variable *> dynamic;
  auto shared = [&](const Variable &variable) {
    if (variable.bytes == 0)
      dynamic.push_back(&variable);
    else
      layOut(variable, program.sharedBytes, sharedBase);
  };
  for (const Variable &variable : syntax.variables)
    if (variable.space == "shared")
      shared(variable);
  for (const Variable &variable : function.variables) {
    if (variable.space == "shared")
      shared(variable);
    else if (variable.space == "local" || variable.space == "param")
      layOut(variable, program.localBytes, 0);
    else if (!addresses.count(variable.name))
      throw PtxError(variable.line,
                     "a variable of ." + variable.space + " inside a function");
  }
  for (const Variable *variable : dynamic)
    program.sharedBytes = alignTo(program.sharedBytes, variable->alignment);
  for (const Variable *variable : dynamic)
    addresses[variable->name] = sharedBase + program.sharedBytes;
  std::copy_n(function.maxThreads, 3, program.maxThreads);
  std::copy_n(function.requiredThreads, 3, program.requiredThreads);
  program.maxRegisters = function.maxRegisters;
  program.minBlocks = function.minBlocks;
  std::copy_n(function.cluster, 3, program.cluster);
  program.maxClusterRank = function.maxClusterRank;
  program.isExplicitCluster = function.isExplicitCluster;
}

uint32_t FunctionDecoder::add(int width) {
  widths.push_back(width);
  return static_cast<uint32_t>(widths.size() - 1);
}

/// Returns the width of a special register in bits, or 0 if there is no special
/// register of that name.
static int specialWidth(const std::string &name) {
  static const char *const names[] = {"tid.x",
                                      "tid.y",
                                      "tid.z",
                                      "ntid.x",
                                      "ntid.y",
                                      "ntid.z",
                                      "ctaid.x",
                                      "ctaid.y",
                                      "ctaid.z",
                                      "nctaid.x",
                                      "nctaid.y",
                                      "nctaid.z",
                                      "laneid",
                                      "warpid",
                                      "nwarpid",
                                      "lanemask_eq",
                                      "lanemask_lt",
                                      "lanemask_le",
                                      "lanemask_gt",
                                      "lanemask_ge",
                                      "smid",
                                      "dynamic_smem_size",
                                      "total_smem_size",
                                      "cluster_ctarank",
                                      "cluster_nctarank",
                                      "clusterid.x",
                                      "clusterid.y",
                                      "clusterid.z",
                                      "nclusterid.x",
                                      "nclusterid.y",
                                      "nclusterid.z",
                                      "cluster_ctaid.x",
                                      "cluster_ctaid.y",
                                      "cluster_ctaid.z",
                                      "cluster_nctaid.x",
                                      "cluster_nctaid.y",
                                      "cluster_nctaid.z"};
  if (name == "%is_explicit_cluster")
    return 1;
  for (const char *known : names)
    if (name == std::string("%") + known)
      return 32;
  return 0;
}

uint32_t FunctionDecoder::row(const std::string &name, int64_t line) {
  auto [it, isNew] = named.try_emplace(name, 0);
  if (!isNew)
    return it->second;
  auto declared = function.registers.find(name);
  if (declared != function.registers.end())
    return it->second = add(declared->second.bits());
  int width = name == "WARP_SZ" ? 32 : specialWidth(name);
  if (!width)
    throw PtxError(line, "unknown register '" + name + "'");
  it->second = add(width);
  program.fixed.push_back({it->second, width, 0, name});
  return it->second;
}

uint32_t FunctionDecoder::constant(uint64_t bits, int width) {
  if (width == 1)
    bits = bits ? ~uint32_t(0) : 0; // A predicate has one bit for each lane.
  else if (width < 64)
    bits &= (uint64_t(1) << width) - 1;
  auto [it, isNew] = constants.try_emplace({bits, width}, 0);
  if (isNew) {
    it->second = add(width);
    program.fixed.push_back({it->second, width, bits, ""});
  }
  return it->second;
}

uint32_t FunctionDecoder::scratch(int width) { return add(width); }

uint32_t FunctionDecoder::carry() {
  if (carryRow == noRow)
    carryRow = add(1);
  return carryRow;
}

uint64_t FunctionDecoder::addressOf(const std::string &name,
                                    int64_t line) const {
  auto found = addresses.find(name);
  if (found == addresses.end())
    throw PtxError(line, "unknown name '" + name + "'");
  return found->second;
}

Program FunctionDecoder::run() {
  std::vector<size_t> firstRow;
  for (const Instruction &source : function.body) {
    const Opcode *opcode = findOpcode(source.opcode);
    if (!opcode)
      throw PtxError(source.line,
                     "unknown instruction '" + source.opcode + "'");
    Op op;
    op.kind = opcode->kind;
    firstRow.push_back(program.rows.size());
    if (!source.guard.empty()) {
      op.guard = row(source.guard, source.line);
      op.guardNegated = source.guardNegated;
      if (width(op.guard) != 1)
        throw PtxError(source.line, source.guard + " is no predicate");
    }
    Decode decode(*this, source, op);
    opcode->decode(decode);
    decode.finish();
    program.ops.push_back(op);
    std::string name = decode.name();
    program.locations.push_back(
        {source.line, source.sourceFile, source.sourceLine, name});
  }
  // The function may end without `ret`, so append one.
  Op end;
  end.kind = Class::Control;
  Instruction ret;
  ret.line = function.body.empty() ? function.line : function.body.back().line;
  ret.opcode = "ret";
  firstRow.push_back(program.rows.size());
  Decode decode(*this, ret, end);
  findOpcode("ret")->decode(decode);
  program.ops.push_back(end);
  program.locations.push_back({ret.line, 0, 0, "ret"});

  for (size_t i = 0; i < program.ops.size(); ++i)
    program.ops[i].rows = program.rows.data() + firstRow[i];
  findReconvergence(program);
  assignRows(program, widths);
  return std::move(program);
}

/// Returns the limit for the bytes of a kernel's parameters, which PTX 8.1 has
/// raised.
static int64_t mostParameterBytes(const Syntax &syntax) {
  return std::strtod(syntax.version.c_str(), nullptr) >= 8.1 ? 32764 : 4096;
}

Program decode(const Syntax &syntax, const Function &function,
               const std::map<std::string, uint64_t> &globals) {
  Program program =
      FunctionDecoder(syntax, inlineCalls(syntax, function), globals).run();
  int64_t most = mostParameterBytes(syntax);
  if (program.parameterBytes > most)
    throw PtxError(function.line, std::to_string(program.parameterBytes) +
                                      " bytes of parameters; " +
                                      std::to_string(most) + " can be");
  return program;
}

//===----------------------------------------------------------------------===//
// Modifiers
//===----------------------------------------------------------------------===//

bool Decode::take(std::string_view name) {
  for (size_t i = 0; i < taken.size(); ++i)
    if (!taken[i] && source.modifiers[i] == name) {
      taken[i] = true;
      return true;
    }
  return false;
}

int Decode::takeOneOf(std::initializer_list<std::string_view> names) {
  int index = 0;
  for (std::string_view name : names) {
    if (take(name))
      return index;
    ++index;
  }
  return -1;
}

std::string Decode::takePrefix(std::string_view prefix) {
  for (size_t i = 0; i < taken.size(); ++i)
    if (!taken[i] &&
        source.modifiers[i].compare(0, prefix.size(), prefix) == 0) {
      taken[i] = true;
      return source.modifiers[i];
    }
  return {};
}

bool Decode::hasType() const {
  for (size_t i = 0; i < taken.size(); ++i)
    if (!taken[i] && parseType(source.modifiers[i]).kind != Type::None)
      return true;
  return false;
}

Type Decode::type() {
  for (size_t i = 0; i < taken.size(); ++i) {
    Type type = taken[i] ? Type() : parseType(source.modifiers[i]);
    if (type.kind == Type::None)
      continue;
    taken[i] = true;
    return type;
  }
  fail("'" + name() + "' has no type");
}

void Decode::finish() const {
  for (bool known : taken)
    if (!known)
      failUnknown();
}

std::string Decode::name() const {
  std::string result = source.opcode;
  for (const std::string &modifier : source.modifiers)
    result += "." + modifier;
  return result;
}

void Decode::fail(const std::string &message) const {
  throw PtxError(source.line, message);
}

void Decode::failUnknown() const {
  fail("unknown form '" + name() + "' of " + source.opcode);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

const Operand &Decode::operand(size_t index) const {
  if (index >= source.operands.size())
    fail("'" + name() + "' lacks an operand");
  return source.operands[index];
}

void Decode::expectOperands(size_t least, size_t most) const {
  if (numOperands() < least || numOperands() > most)
    fail("'" + name() + "' has " + std::to_string(numOperands()) +
         " operands, not " + std::to_string(least));
}

int Decode::resultAnyWidth(const Operand &operand, Type type) {
  if (op.operands)
    fail("results come before operands");
  ++op.results;
  uint32_t row;
  if (operand.kind == Operand::Sink)
    row = function.scratch(type.bits());
  else if (operand.kind == Operand::Register)
    row = function.row(operand.name, source.line);
  else
    fail("the result of '" + name() + "' is no register");
  for (const FixedRow &fixed : function.program.fixed)
    if (fixed.row == row)
      fail(operand.name + " cannot be written");
  function.program.rows.push_back(row);
  return function.width(row);
}

void Decode::result(const Operand &operand, Type type) {
  int width = resultAnyWidth(operand, type);
  if (width != type.bits())
    fail(operand.name + " has " + std::to_string(width) + " bits, '" + name() +
         "' takes " + std::to_string(type.bits()));
}

/// Returns the bits of a literal after its conversion to `type`.
static uint64_t bitsAs(const Literal &literal, Type type) {
  if (!literal.isFloat)
    return literal.bits;
  double value;
  std::memcpy(&value, &literal.bits, 8);
  uint64_t single = value == value ? bitsOf(static_cast<float>(value))
                                   : literal.bits & 0xffffffffu;
  if (type.kind == Type::BFloat)
    return roundToNarrow<BFloat16>(value);
  if (type.kind == Type::Float && type.width == 16)
    return roundToNarrow<Half>(value);
  if (type.width == 64 && (type.isFloat() || !literal.isSingle))
    return literal.bits;
  return literal.isSingle || type.width == 32 ? single : literal.bits;
}

int Decode::useAnyWidth(const Operand &operand, Type type) {
  ++op.operands;
  auto push = [&](uint32_t row) {
    function.program.rows.push_back(row);
    return function.width(row);
  };
  switch (operand.kind) {
  case Operand::Register:
    return push(function.row(operand.name, source.line));
  case Operand::Immediate:
    return push(function.constant(bitsAs(operand.literal, type), type.bits()));
  case Operand::Symbol:
    if (operand.name == "WARP_SZ")
      return push(function.constant(warpSize, type.bits()));
    return push(function.constant(
        function.addressOf(operand.name, source.line) + operand.literal.bits,
        type.bits()));
  case Operand::Sink:
  case Operand::Address:
  case Operand::Vector:
    break;
  }
  fail("an operand of '" + name() + "' is neither register nor number");
}

void Decode::use(const Operand &operand, Type type) {
  int width = useAnyWidth(operand, type);
  if (width != type.bits())
    fail(operand.name + " has " + std::to_string(width) + " bits, '" + name() +
         "' takes " + std::to_string(type.bits()));
}

int Decode::address(size_t index) {
  const Operand &at = operand(index);
  if (at.kind != Operand::Address)
    fail("operand " + std::to_string(index + 1) + " of '" + name() +
         "' is no address");
  Operand base;
  base.kind = at.isRegisterBase ? Operand::Register
              : at.name.empty() ? Operand::Immediate
                                : Operand::Symbol;
  base.name = at.name;
  op.imm = static_cast<int64_t>(at.literal.bits);
  return useAnyWidth(base, b64Type);
}

void Decode::resultCarry() {
  ++op.results;
  function.program.rows.push_back(function.carry());
}

void Decode::useCarry() {
  ++op.operands;
  function.program.rows.push_back(function.carry());
}

void Decode::pin(const Operand &operand) {
  function.program.pinned.push_back(function.row(operand.name, source.line));
}

void Decode::requireTarget(std::initializer_list<std::string_view> targets) {
  for (std::string_view known : targets)
    if (function.target == known)
      return;
  fail("'" + name() + "' needs another target than " + function.target);
}

int64_t Decode::number(size_t index) const {
  const Operand &value = operand(index);
  if (value.kind != Operand::Immediate || value.literal.isFloat)
    fail("operand " + std::to_string(index + 1) + " of '" + name() +
         "' has to be a whole number");
  return static_cast<int64_t>(value.literal.bits);
}

Operand Decode::second(size_t index) const {
  Operand result;
  result.name = operand(index).second;
  result.kind = result.name == "_" ? Operand::Sink : Operand::Register;
  return result;
}

std::vector<Operand> Decode::elements(const Operand &operand) {
  if (operand.kind == Operand::Vector)
    return operand.elements;
  return {operand};
}

int64_t Decode::label(size_t index) const {
  const Operand &target = operand(index);
  auto found = function.function.labels.find(target.name);
  if (target.kind != Operand::Symbol || found == function.function.labels.end())
    fail("unknown label '" + target.name + "'");
  return static_cast<int64_t>(found->second);
}

int32_t Decode::branchTargets(size_t index) {
  const Operand &table = operand(index);
  auto found = function.function.branchTargets.find(table.name);
  if (found == function.function.branchTargets.end())
    fail("unknown list of labels '" + table.name + "'");
  std::vector<int32_t> targets;
  for (const std::string &name : found->second) {
    auto label = function.function.labels.find(name);
    if (label == function.function.labels.end())
      fail("unknown label '" + name + "'");
    targets.push_back(static_cast<int32_t>(label->second));
  }
  function.program.targets.push_back(std::move(targets));
  return static_cast<int32_t>(function.program.targets.size()) - 1;
}

void Decode::changeRegisters() { function.program.changesRegisters = true; }

void Decode::copyBulk() { function.program.copiesBulk = true; }

bool Decode::isParameter(size_t index) const {
  return function.parameterOffsets.count(operand(index).name);
}

int64_t Decode::parameter(size_t index) const {
  const Operand &at = operand(index);
  auto found = function.parameterOffsets.find(at.name);
  if (at.kind != Operand::Address || found == function.parameterOffsets.end())
    fail("unknown parameter '" + at.name + "'");
  return found->second + static_cast<int64_t>(at.literal.bits);
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

const Opcode *findOpcode(std::string_view name) {
  static const std::map<std::string_view, const Opcode *> opcodes = [] {
    std::map<std::string_view, const Opcode *> result;
    for (const Opcode *group :
         {integerOpcodes, bitOpcodes, floatOpcodes, approximateOpcodes,
          compareOpcodes, moveOpcodes, convertOpcodes, memoryOpcodes,
          atomicOpcodes, asyncOpcodes, mbarrierOpcodes, wgmmaOpcodes,
          warpOpcodes, tensorOpcodes, controlOpcodes, clusterOpcodes})
      for (const Opcode *opcode = group; opcode->name; ++opcode)
        result[opcode->name] = opcode;
    return result;
  }();
  auto found = opcodes.find(name);
  return found == opcodes.end() ? nullptr : found->second;
}

} // namespace heddle::emulator
