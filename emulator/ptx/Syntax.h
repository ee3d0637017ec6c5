//===- Syntax.h - Parsed PTX ------------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parser's result: the functions, variables and instructions of a module,
// before they are decoded into a Program.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_SYNTAX_H
#define HEDDLE_EMULATOR_PTX_SYNTAX_H

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::emulator {

/// An error in a line of PTX.
class PtxError : public std::runtime_error {
public:
  PtxError(int64_t line, const std::string &message)
      : std::runtime_error("line " + std::to_string(line) + ": " + message) {}
};

/// The type of an instruction, a register or a variable.
struct Type {
  enum Kind { None, Pred, Bits, Unsigned, Signed, Float, BFloat, Tf32 };

  Kind kind = None;
  int width = 0; ///< Bits of one element.
  int lanes = 1; ///< Number of elements: 2 for f16x2 and bf16x2, otherwise 1.

  int bits() const { return width * lanes; }
  int bytes() const { return bits() / 8; }
  bool isFloat() const { return kind >= Float; }
  bool operator==(const Type &other) const {
    return kind == other.kind && width == other.width && lanes == other.lanes;
  }
};

/// Returns the type with a name such as "u32" or "bf16x2". If there is no such
/// type, the kind of the result is None.
Type parseType(std::string_view name);

/// A number, as it is written in the PTX.
struct Literal {
  bool isFloat = false;
  /// Whether the number is written as the bits of an f32, such as 0f3F800000.
  bool isSingle = false;
  /// The value: an integer, or the bits of the float as an f64.
  uint64_t bits = 0;
};

struct Operand {
  enum Kind { Register, Immediate, Symbol, Address, Vector, Sink };

  Kind kind = Sink;
  /// The name of a register or symbol, or of the base of an address.
  std::string name;
  Literal literal; ///< The value of an immediate, or the offset of an address.
  bool negated = false; ///< Whether the operand is a negated predicate: !p.
  /// For an address: whether its base `name` is a register instead of a
  /// variable.
  bool isRegisterBase = false;
  /// The elements, if the operand is a vector, or the coordinates, if it is a
  /// tensor address.
  std::vector<Operand> elements;
  std::string second; ///< The second register of a pair: q of p|q.
};

struct Instruction {
  int64_t line = 0;
  /// The position in the source, from .loc. 0 if there is no .loc.
  int64_t sourceFile = 0, sourceLine = 0;
  /// The predicate p of a guard @p. Empty if there is no guard.
  std::string guard;
  bool guardNegated = false;
  std::string opcode; ///< The opcode without modifiers, such as "add".
  /// The modifiers, such as "rn" and "f32".
  std::vector<std::string> modifiers;
  std::vector<Operand> operands;
};

/// A variable: .shared, .global, .const, .local or .param.
struct Variable {
  std::string name, space;
  Type type;
  int64_t bytes = 0; ///< The size. 0 for dynamic shared memory.
  int64_t alignment = 1;
  bool isExtern = false;
  /// The initial bytes. If empty, all bytes are zeros.
  std::vector<uint8_t> initial;
  int64_t line = 0;
};

struct Function {
  std::string name;
  bool isEntry = false;
  int64_t line = 0;
  std::vector<Variable> parameters;
  std::map<std::string, Type> registers;
  std::vector<Variable> variables;
  std::vector<Instruction> body;
  /// For each label, the index of the instruction that follows it.
  std::map<std::string, size_t> labels;
  /// .branchtargets: the labels that a brx.idx chooses from.
  std::map<std::string, std::vector<std::string>> branchTargets;
  /// The values of .maxntid; 0 if not stated.
  int64_t maxThreads[3] = {0, 0, 0};
  int64_t requiredThreads[3] = {0, 0, 0}; ///< .reqntid
  int64_t maxRegisters = 0;               ///< .maxnreg
  int64_t minBlocks = 0;                  ///< .minnctapersm
  int64_t cluster[3] = {0, 0, 0};         ///< .reqnctapercluster
  int64_t maxClusterRank = 0;             ///< .maxclusterrank
  bool isExplicitCluster = false;         ///< .explicitcluster
};

/// A parsed module.
struct Syntax {
  std::string version, target;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::map<int64_t, std::string> files; ///< .file
};

/// Returns a copy of `function` with every call replaced by the body of the
/// called function. Throws PtxError.
Function inlineCalls(const Syntax &syntax, const Function &function);

/// Parses the text of a module. Throws PtxError.
Syntax parsePtx(std::string_view text);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_SYNTAX_H
