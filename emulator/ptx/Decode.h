//===- Decode.h - One instruction being decoded -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_DECODE_H
#define HEDDLE_EMULATOR_PTX_DECODE_H

#include "emulator/ptx/Program.h"

namespace heddle::emulator {

class FunctionDecoder;

/// What a group of opcodes sees of an instruction: it takes the modifiers one
/// by one, names results and then operands, and sets the handler.
class Decode {
public:
  Decode(FunctionDecoder &function, const Instruction &source, Op &op)
      : op(op), source(source), function(function),
        taken(source.modifiers.size()) {}

  /// Whether there is a modifier `name`; it is taken.
  bool take(std::string_view name);
  /// Takes the first of `names` that is there; its index, or -1.
  int takeOneOf(std::initializer_list<std::string_view> names);
  /// Takes the next modifier that is a type.
  Type type();
  bool hasType() const;
  /// Takes a modifier that starts with `prefix`; empty when there is none.
  std::string takePrefix(std::string_view prefix);

  size_t numOperands() const { return source.operands.size(); }
  const Operand &operand(size_t index) const;
  /// The row of operand `index` is written, read.
  void result(size_t index, Type type) { result(operand(index), type); }
  void use(size_t index, Type type) { use(operand(index), type); }
  void result(const Operand &operand, Type type);
  void use(const Operand &operand, Type type);
  /// The bits of the register or constant, which may be wider than `type`.
  int resultAnyWidth(const Operand &operand, Type type);
  int useAnyWidth(const Operand &operand, Type type);
  /// An address: its row, and the offset in `imm`. Returns the bits of the row.
  int address(size_t index);
  /// Gives a register memory of its own.
  void pin(const Operand &operand);
  /// Fails unless the text is for one of the chips.
  void requireTarget(std::initializer_list<std::string_view> targets);
  /// A row that the text does not name: the carry of extended arithmetic.
  void resultCarry();
  void useCarry();
  /// The value of operand `index`, which has to be a number.
  int64_t number(size_t index) const;
  /// Whether operand `index` is a pair d|p, and its second part.
  bool hasSecond(size_t index) const { return !operand(index).second.empty(); }
  Operand second(size_t index) const;
  /// The elements of a vector, or the operand itself.
  static std::vector<Operand> elements(const Operand &operand);
  /// Index of the instruction at a label.
  int64_t label(size_t index) const;
  /// Index in Program::targets of the list of labels that operand `index`
  /// names.
  int32_t branchTargets(size_t index);
  /// The kernel has an instruction that changes how many registers it has.
  void changeRegisters();
  /// The kernel has bulk copies from global memory, or to it.
  void copyBulk();
  /// Whether an address names a parameter of the kernel, not of a call.
  bool isParameter(size_t index) const;
  /// Offset of the parameter that an address names.
  int64_t parameter(size_t index) const;

  void expectOperands(size_t least, size_t most) const;
  void expectOperands(size_t count) const { expectOperands(count, count); }
  /// Fails unless every modifier was taken.
  void finish() const;
  [[noreturn]] void fail(const std::string &message) const;
  [[noreturn]] void failUnknown() const;
  /// The whole name, as in the text.
  std::string name() const;

  Op &op;
  const Instruction &source;

private:
  FunctionDecoder &function;
  std::vector<bool> taken;
};

/// What `decode` of an opcode does: it sets `op.run` and all that it needs.
using DecodeFn = void (*)(Decode &);

struct Opcode {
  const char *name;
  Class kind;
  DecodeFn decode;
};

/// The opcodes of each group, ended by one without a name.
extern const Opcode integerOpcodes[], bitOpcodes[], floatOpcodes[],
    approximateOpcodes[], compareOpcodes[], moveOpcodes[], convertOpcodes[],
    memoryOpcodes[], atomicOpcodes[], asyncOpcodes[], mbarrierOpcodes[],
    wgmmaOpcodes[], warpOpcodes[], tensorOpcodes[], controlOpcodes[],
    clusterOpcodes[];

/// cp.async.bulk and cp.reduce.async.bulk, after these words.
void decodeBulk(Decode &d, bool reduces);
/// barrier.cluster, after these words; setmaxnreg.
void decodeClusterBarrier(Decode &d);
void decodeRegisters(Decode &d);

/// The opcode `name`, or null.
const Opcode *findOpcode(std::string_view name);

/// The forms on floats of opcodes that integers have too, and of all others.
void decodeFloat(Decode &d);
void decodeNarrow(Decode &d);
void decodeApproximate(Decode &d);

constexpr Type b16Type = {Type::Bits, 16}, b32Type = {Type::Bits, 32},
               b64Type = {Type::Bits, 64}, u32Type = {Type::Unsigned, 32},
               f32Type = {Type::Float, 32}, predType = {Type::Pred, 1};

/// Calls `f` with a value of the C++ type of an integer.
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

/// Calls `f` with an unsigned value of `width` bits.
template <class F> bool withBits(int width, F f) {
  return withInteger({Type::Bits, width}, f);
}

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_DECODE_H
