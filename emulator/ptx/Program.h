//===- Program.h - Decoded kernels ------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decoded kernels. An instruction is decoded once. The result is a function
// (handler) that executes the instruction for a warp, and the list of the rows
// that are its operands. A row is a register of all 32 lanes. Constants and
// special registers are rows too, so that handlers treat all operands alike.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_PTX_PROGRAM_H
#define HEDDLE_EMULATOR_PTX_PROGRAM_H

#include "emulator/ptx/Syntax.h"
#include "heddle/emulator/ptx/Machine.h"

namespace heddle::emulator {

struct Warp;
struct Op;
using Handler = void (*)(Warp &, const Op &);

constexpr uint32_t noRow = ~uint32_t(0);
constexpr int32_t noPc = -1;

/// A decoded instruction.
struct Op {
  Handler run = nullptr;
  /// Offsets of the op's registers (rows) in the memory that holds a warp's
  /// registers: first those of the results, then those of the operands.
  const uint32_t *rows = nullptr;
  /// A constant of the instruction: the offset of an address, a branch target,
  /// or a number, depending on the handler.
  int64_t imm = 0;
  uint32_t guard = noRow;
  /// For brx.idx, which branches to an entry of a list of labels: the index of
  /// its list in Program::targets. Otherwise -1.
  int32_t targets = -1;
  int32_t reconverge = noPc; ///< For a branch: the op where its paths converge.
  /// Flags for the handler `run`, which gives each bit its meaning.
  uint32_t flags = 0;
  uint8_t results = 0; ///< The first so many of `rows` are results.
  uint8_t operands = 0;
  bool guardNegated = false;
  /// Whether the op ends a basic block, because it is a branch or an exit.
  bool endsBlock = false;
  /// Whether the op is an ld.global.nc, which promises that the launch does not
  /// change the loaded bytes.
  bool readsConstants = false;
  Class kind = Class::Integer;
};

/// The position of an instruction in the PTX and in its source, for messages.
struct OpLocation {
  int64_t line = 0, sourceFile = 0, sourceLine = 0;
  std::string opcode;
};

/// A register that the machine fills before a kernel runs: a constant, or a
/// special register such as %tid.x.
struct FixedRow {
  uint32_t row = 0;
  int width = 32;
  uint64_t bits = 0;   ///< The value of a constant.
  std::string special; ///< Name of a special register; empty for a constant.
};

/// The offset of the first variable in shared memory. The system reserves the
/// bytes before it, so address 0 is never a variable.
constexpr int64_t sharedBase = 1024;
/// The lowest of the bits in a shared address that say to which block of the
/// cluster the address refers. These bits hold the block's rank plus one, or 0
/// for the executing block.
constexpr int clusterRankShift = 24;
/// The first generic address of shared memory, and that of local memory.
constexpr uint64_t sharedWindow = uint64_t(1) << 56;
constexpr uint64_t localWindow = uint64_t(1) << 57;
/// The first generic address of the kernel's parameters. A tensor map may be a
/// parameter, and instructions refer to a tensor map by a generic address.
constexpr uint64_t parameterWindow = uint64_t(1) << 58;
constexpr uint64_t windowBytes = uint64_t(1) << 32;

struct Parameter {
  int64_t offset = 0, bytes = 0;
};

/// A decoded kernel.
struct Program {
  std::string name;
  std::vector<Op> ops;
  std::vector<OpLocation> locations;
  /// The operands of all ops, as offsets of registers in the memory that holds
  /// a warp's registers. The field `rows` of each op points into this vector.
  std::vector<uint32_t> rows;
  std::vector<FixedRow> fixed;
  /// Offsets, in the memory that holds a warp's registers, of the 64-byte units
  /// that the kernel may read before it writes them. A launch fills them with
  /// NaN.
  std::vector<uint32_t> unwritten;
  /// Offsets of the registers that are operands of wgmma. No other register
  /// shares their memory. Accumulators are written only when the product
  /// completes, and the emulator checks that nothing has changed them until
  /// then.
  std::vector<uint32_t> pinned;
  int64_t registerBytes = 0; ///< Bytes of a warp's registers.
  /// The largest number of 32-bit registers that are live at once.
  int64_t registersPerThread = 0;
  /// Bytes of a block's shared memory, without dynamic shared memory.
  int64_t sharedBytes = 0;
  int64_t localBytes = 0; ///< Bytes of a thread's local memory.
  int64_t parameterBytes = 0;
  std::vector<Parameter> parameters;
  int64_t maxThreads[3] = {0, 0, 0}, requiredThreads[3] = {0, 0, 0};
  int64_t maxRegisters = 0; ///< The value of .maxnreg; 0 if not stated.
  /// The value of .minnctapersm: how many blocks a multiprocessor must be able
  /// to hold.
  int64_t minBlocks = 0;
  bool changesRegisters = false; ///< Whether the kernel has setmaxnreg.
  /// Whether the kernel has cp.async.bulk of global memory. Then the stores to
  /// global memory are recorded, to find missing proxy fences.
  bool copiesBulk = false;
  /// The number of blocks of a cluster in each dimension. 0 if each launch
  /// states it.
  int64_t cluster[3] = {0, 0, 0};
  /// The largest number of blocks of a cluster. 0 if it is the chip's limit.
  int64_t maxClusterRank = 0;
  bool isExplicitCluster = false; ///< Whether each launch must state a cluster.
  /// The lists of branch targets, as indices of ops, from which a brx.idx
  /// chooses.
  std::vector<std::vector<int32_t>> targets;
};

/// Decodes an entry function. `globals` has the addresses of module variables.
/// Throws PtxError.
Program decode(const Syntax &syntax, const Function &function,
               const std::map<std::string, uint64_t> &globals);

/// Sets the op at which divergent lanes converge (`Op::reconverge`) for every
/// branch.
void findReconvergence(Program &program);

/// Assigns memory to the PTX registers, whose widths in bits are `widths`.
/// Registers that are never live at the same time share memory.
void assignRows(Program &program, const std::vector<int> &widths);

/// The basic blocks of a kernel. `starts` has the index of each block's first
/// op, in order. `successors` lists, for each block, the blocks that may run
/// next. A successor that is equal to the number of blocks is the exit.
struct Blocks {
  explicit Blocks(const Program &program);

  std::vector<size_t> starts;
  std::vector<std::vector<size_t>> successors;
  size_t end(size_t block, size_t numOps) const {
    return block + 1 < starts.size() ? starts[block + 1] : numOps;
  }
};

} // namespace heddle::emulator

#endif // HEDDLE_EMULATOR_PTX_PROGRAM_H
