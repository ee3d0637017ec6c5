//===- Decode.h - Decodes one instruction -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decodes parsed instructions into Ops. Each file of instructions (Integer.cpp,
// Tensor.cpp ...) has a table that names a decoding function for each opcode.
// Such a function decodes an instruction with the help of the class `Decode`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_DECODE_H
#define HEDDLE_EMULATOR_PTX_DECODE_H

#include "emulator/ptx/Program.h"

namespace heddle::emulator {

class FunctionDecoder;

/// An instruction while it is decoded. A decoding function consumes the
/// instruction's modifiers one by one, names the results, then the operands,
/// and sets the handler.
class Decode {
public:
  Decode(FunctionDecoder &function, const Instruction &source, Op &op)
      : op(op), source(source), function(function),
        taken(source.modifiers.size()) {}

  /// Consumes the modifier `name`. Returns false if the instruction does not
  /// have it.
  bool take(std::string_view name);
  /// Consumes the first modifier among `names` that the instruction has.
  /// Returns its index in `names`, or -1.
  int takeOneOf(std::initializer_list<std::string_view> names);
  /// Consumes the next modifier that is a type, and returns the type.
  Type type();
  bool hasType() const;
  /// Consumes a modifier that starts with `prefix`, and returns it. Returns ""
  /// if there is none.
  std::string takePrefix(std::string_view prefix);

  size_t numOperands() const { return source.operands.size(); }
  const Operand &operand(size_t index) const;
  /// Adds operand `index` of the instruction to the op: `result` as a register
  /// that the op writes, `use` as a register that the op reads.
  void result(size_t index, Type type) { result(operand(index), type); }
  void use(size_t index, Type type) { use(operand(index), type); }
  void result(const Operand &operand, Type type);
  void use(const Operand &operand, Type type);
  /// Does the same as `result`, for a register that may be wider than `type`.
  /// Returns the width of the register in bits.
  int resultAnyWidth(const Operand &operand, Type type);
  int useAnyWidth(const Operand &operand, Type type);
  /// Decodes operand `index`, which is an address. Adds its register to the op,
  /// and puts its constant offset into `imm`. Returns the width of the register
  /// in bits.
  int address(size_t index);
  /// Gives a register memory that is never reused for another register. Without
  /// this, registers whose lifetimes do not overlap may share memory.
  void pin(const Operand &operand);
  /// Fails unless the module's target is one of `targets`.
  void requireTarget(std::initializer_list<std::string_view> targets);
  /// Adds the carry flag as a result, for instructions such as add.cc. It is an
  /// implicit register, which the PTX text does not name.
  void resultCarry();
  void useCarry();
  /// Returns the value of operand `index`. Fails unless the operand is a
  /// number.
  int64_t number(size_t index) const;
  /// `hasSecond` returns whether operand `index` is a pair d|p, and `second`
  /// returns its second element.
  bool hasSecond(size_t index) const { return !operand(index).second.empty(); }
  Operand second(size_t index) const;
  /// Returns the elements of an operand that is a vector. For any other operand
  /// returns the operand itself.
  static std::vector<Operand> elements(const Operand &operand);
  /// Returns the index of the instruction at the label that operand `index`
  /// names.
  int64_t label(size_t index) const;
  /// Returns the index in Program::targets of the list of labels that operand
  /// `index` names.
  int32_t branchTargets(size_t index);
  /// Records that the kernel changes its number of registers (setmaxnreg).
  void changeRegisters();
  /// Records that the kernel has bulk copies from or to global memory.
  void copyBulk();
  /// Whether the address in operand `index` names a parameter of the kernel,
  /// rather than one of a called function.
  bool isParameter(size_t index) const;
  /// Returns the offset of the parameter that the address in operand `index`
  /// names.
  int64_t parameter(size_t index) const;

  void expectOperands(size_t least, size_t most) const;
  void expectOperands(size_t count) const { expectOperands(count, count); }
  /// Fails if the instruction has a modifier that was not consumed.
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

/// Tables of opcodes, one for each group of instructions. The last entry of a
/// table has a null name, which marks the end.
extern const Opcode integerOpcodes[], bitOpcodes[], floatOpcodes[],
    approximateOpcodes[], compareOpcodes[], moveOpcodes[], convertOpcodes[],
    memoryOpcodes[], atomicOpcodes[], asyncOpcodes[], mbarrierOpcodes[],
    wgmmaOpcodes[], warpOpcodes[], tensorOpcodes[], controlOpcodes[],
    clusterOpcodes[];

/// Decodes the rest of an instruction that begins with the modifiers
/// cp.async.bulk or cp.reduce.async.bulk.
void decodeBulk(Decode &d, bool reduces);
/// Decode the rest of an instruction: decodeClusterBarrier after
/// `barrier.cluster`, decodeRegisters after `setmaxnreg`.
void decodeClusterBarrier(Decode &d);
void decodeRegisters(Decode &d);

/// Returns the table entry of the opcode `name`, or null if there is none.
const Opcode *findOpcode(std::string_view name);

/// Decode an instruction on floats: decodeFloat on floats of any type,
/// decodeNarrow on 16-bit floats, and decodeApproximate a function such as
/// ex2.approx.
void decodeFloat(Decode &d);
void decodeNarrow(Decode &d);
void decodeApproximate(Decode &d);

constexpr Type b16Type = {Type::Bits, 16}, b32Type = {Type::Bits, 32},
               b64Type = {Type::Bits, 64}, u32Type = {Type::Unsigned, 32},
               f32Type = {Type::Float, 32}, predType = {Type::Pred, 1};

/// Calls `f` with a zero of the C++ type for the integer type `type`. The zero
/// only tells `f` the type. Returns false if there is no such C++ type.
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

/// Calls `f` with a zero of the unsigned C++ type of `width` bits. The zero
/// only tells `f` the type. Returns false if there is no such C++ type.
template <class F> bool withBits(int width, F f) {
  return withInteger({Type::Bits, width}, f);
}

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_DECODE_H
