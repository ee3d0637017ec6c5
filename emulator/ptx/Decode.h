//===- Decode.h - Decodes one instruction -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each file of instructions (Integer.cpp, Tensor.cpp ...) has a table of
// opcodes with functions that turn a parsed instruction into an Op through the
// class `Decode`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_DECODE_H
#define HEDDLE_EMULATOR_PTX_DECODE_H

#include "emulator/ptx/Program.h"

namespace heddle::emulator {

class FunctionDecoder;

/// An instruction while it is decoded. A decoding function consumes its
/// modifiers one by one, names the results, then the operands, and sets the
/// handler.
class Decode {
public:
  Decode(FunctionDecoder &function, const Instruction &source, Op &op)
      : op(op), source(source), function(function),
        taken(source.modifiers.size()) {}

  /// Consumes the modifier `name`; false if the instruction does not have it.
  bool take(std::string_view name);
  /// Consumes the first of `names` that the instruction has; returns its index,
  /// or -1.
  int takeOneOf(std::initializer_list<std::string_view> names);
  /// Consumes the next modifier that is a type.
  Type type();
  bool hasType() const;
  /// Consumes a modifier that starts with `prefix`; empty if there is none.
  std::string takePrefix(std::string_view prefix);

  size_t numOperands() const { return source.operands.size(); }
  const Operand &operand(size_t index) const;
  /// Adds operand `index` to the op: `result` as a row that it writes, `use` as
  /// a row that it reads.
  void result(size_t index, Type type) { result(operand(index), type); }
  void use(size_t index, Type type) { use(operand(index), type); }
  void result(const Operand &operand, Type type);
  void use(const Operand &operand, Type type);
  /// As `result`, for a register that may be wider than `type`. Returns its
  /// bits.
  int resultAnyWidth(const Operand &operand, Type type);
  int useAnyWidth(const Operand &operand, Type type);
  /// Operand `index` is an address: adds its row, and puts the offset into
  /// `imm`. Returns the bits of the row.
  int address(size_t index);
  /// Gives a register a row that it shares with no other.
  void pin(const Operand &operand);
  /// Fails unless the module's target is one of `targets`.
  void requireTarget(std::initializer_list<std::string_view> targets);
  /// Adds a result that the PTX does not name: the carry of extended
  /// arithmetic.
  void resultCarry();
  void useCarry();
  /// The value of operand `index`. Fails unless it is a number.
  int64_t number(size_t index) const;
  /// Whether operand `index` is a pair d|p, and its second element.
  bool hasSecond(size_t index) const { return !operand(index).second.empty(); }
  Operand second(size_t index) const;
  /// The elements of a vector, or the operand itself.
  static std::vector<Operand> elements(const Operand &operand);
  /// Index of the instruction at the label that operand `index` names.
  int64_t label(size_t index) const;
  /// Index in Program::targets of the list of labels that operand `index`
  /// names.
  int32_t branchTargets(size_t index);
  /// Records that the kernel changes its number of registers (setmaxnreg).
  void changeRegisters();
  /// Records that the kernel has bulk copies from or to global memory.
  void copyBulk();
  /// Whether an address names a parameter of the kernel, rather than of a
  /// called function.
  bool isParameter(size_t index) const;
  /// Offset of the parameter that an address names.
  int64_t parameter(size_t index) const;

  void expectOperands(size_t least, size_t most) const;
  void expectOperands(size_t count) const { expectOperands(count, count); }
  /// Fails if a modifier was not taken.
  void finish() const;
  [[noreturn]] void fail(const std::string &message) const;
  [[noreturn]] void failUnknown() const;
  /// The opcode with its modifiers, as in the PTX.
  std::string name() const;

  Op &op;
  const Instruction &source;

private:
  FunctionDecoder &function;
  std::vector<bool> taken;
};

/// Decodes an opcode: sets `op.run` and the fields that it needs.
using DecodeFn = void (*)(Decode &);

struct Opcode {
  const char *name;
  Class kind;
  DecodeFn decode;
};

/// Tables of opcodes, one for each group; the last entry has no name.
extern const Opcode integerOpcodes[], bitOpcodes[], floatOpcodes[],
    approximateOpcodes[], compareOpcodes[], moveOpcodes[], convertOpcodes[],
    memoryOpcodes[], atomicOpcodes[], asyncOpcodes[], mbarrierOpcodes[],
    wgmmaOpcodes[], warpOpcodes[], tensorOpcodes[], controlOpcodes[],
    clusterOpcodes[];

/// Decodes cp.async.bulk and cp.reduce.async.bulk after these modifiers.
void decodeBulk(Decode &d, bool reduces);
/// Decode barrier.cluster after these modifiers, and setmaxnreg.
void decodeClusterBarrier(Decode &d);
void decodeRegisters(Decode &d);

/// The opcode `name`, or null.
const Opcode *findOpcode(std::string_view name);

/// Decode an opcode on floats: those that integers share, and all others.
void decodeFloat(Decode &d);
void decodeNarrow(Decode &d);
void decodeApproximate(Decode &d);

constexpr Type b16Type = {Type::Bits, 16}, b32Type = {Type::Bits, 32},
               b64Type = {Type::Bits, 64}, u32Type = {Type::Unsigned, 32},
               f32Type = {Type::Float, 32}, predType = {Type::Pred, 1};

/// Calls `f` with a value of the C++ type of the integer `type`.
template <class F> bool withInteger(Type type, F f) {
  bool isSigned = type.kind == Type::Signed;
  if (type.lanes != 1 ||
      (type.kind != Type::Signed && type.kind != Type::Unsigned &&
       type.kind != Type::Bits))
    return false;
  switch (type.width) {
  case 8:
    isSigned ? f(int8_t()) : f(uint8_t());
    return true;
  case 16:
    isSigned ? f(int16_t()) : f(uint16_t());
    return true;
  case 32:
    isSigned ? f(int32_t()) : f(uint32_t());
    return true;
  case 64:
    isSigned ? f(int64_t()) : f(uint64_t());
    return true;
  }
  return false;
}

/// Calls `f` with an unsigned integer of `width` bits.
template <class F> bool withBits(int width, F f) {
  return withInteger({Type::Bits, width}, f);
}

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_DECODE_H
