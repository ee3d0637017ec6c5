//===- Syntax.h - PTX text as a tree ----------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// What is wrong with a line of PTX.
class PtxError : public std::runtime_error {
public:
  PtxError(int64_t line, const std::string &message)
      : std::runtime_error("line " + std::to_string(line) + ": " + message) {}
};

/// A type of an instruction, a register or a variable.
struct Type {
  enum Kind { None, Pred, Bits, Unsigned, Signed, Float, BFloat, Tf32 };

  Kind kind = None;
  int width = 0; ///< Bits of one element.
  int lanes = 1; ///< 2 for f16x2 and bf16x2.

  int bits() const { return width * lanes; }
  int bytes() const { return bits() / 8; }
  bool isFloat() const { return kind >= Float; }
  bool operator==(const Type &other) const {
    return kind == other.kind && width == other.width && lanes == other.lanes;
  }
};

/// The type of a name such as "u32" or "bf16x2"; kind None when it is none.
Type parseType(std::string_view name);

/// A number as it is written.
struct Literal {
  bool isFloat = false;
  bool isSingle = false; ///< Written as the bits of an f32: 0f3F800000.
  uint64_t bits = 0;     ///< Of an f64 when it is a float, else an integer.
};

struct Operand {
  enum Kind { Register, Immediate, Symbol, Address, Vector, Sink };

  Kind kind = Sink;
  std::string name;     ///< Of a register or symbol; the base of an address.
  Literal literal;      ///< An immediate; the offset of an address.
  bool negated = false; ///< !p
  bool isRegisterBase = false;   ///< Address: `name` is a register.
  std::vector<Operand> elements; ///< Of a vector; coordinates of an address.
  std::string second;            ///< The q of p|q.
};

struct Instruction {
  int64_t line = 0;
  int64_t sourceFile = 0, sourceLine = 0; ///< From .loc; 0 when there is none.
  std::string guard;                      ///< The predicate of @p, or empty.
  bool guardNegated = false;
  std::string opcode;                 ///< "add"
  std::vector<std::string> modifiers; ///< "rn", "f32"
  std::vector<Operand> operands;
};

/// A variable: .shared, .global, .const, .local or .param.
struct Variable {
  std::string name, space;
  Type type;
  int64_t bytes = 0; ///< 0: of a size that the launch gives.
  int64_t alignment = 1;
  bool isExtern = false;
  std::vector<uint8_t> initial; ///< Empty: zeros.
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
  std::map<std::string, size_t> labels; ///< Index of the next instruction.
  /// .branchtargets: the labels that a brx.idx chooses from.
  std::map<std::string, std::vector<std::string>> branchTargets;
  int64_t maxThreads[3] = {0, 0, 0};      ///< .maxntid; 0 when there is none.
  int64_t requiredThreads[3] = {0, 0, 0}; ///< .reqntid
  int64_t maxRegisters = 0;               ///< .maxnreg
  int64_t minBlocks = 0;                  ///< .minnctapersm
  int64_t cluster[3] = {0, 0, 0};         ///< .reqnctapercluster
  int64_t maxClusterRank = 0;             ///< .maxclusterrank
  bool isExplicitCluster = false;         ///< .explicitcluster
};

/// What a text of PTX says.
struct Syntax {
  std::string version, target;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::map<int64_t, std::string> files; ///< .file
};

/// `function` with the bodies of the functions that it calls in place of the
/// calls; throws PtxError.
Function inlineCalls(const Syntax &syntax, const Function &function);

/// Parses `text`; throws PtxError.
Syntax parsePtx(std::string_view text);

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_SYNTAX_H
