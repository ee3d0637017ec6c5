//===- Program.h - Decoded kernels ------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An instruction is decoded once: a function that executes it for a warp, and
// the places of its operands. A register is a row of 32 lanes. Constants and
// special registers are rows as well, so that all operands are alike.
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

/// One instruction.
struct Op {
  Handler run = nullptr;
  const uint32_t *rows = nullptr; ///< Results first, then operands.
  int64_t imm = 0;                ///< Offset of an address, target, number ...
  uint32_t guard = noRow;
  int32_t targets = -1; ///< Which of Program::targets a branch chooses from.
  int32_t reconverge = noPc; ///< Of a branch: where its paths meet again.
  uint32_t flags = 0;        ///< What `run` makes of them.
  uint8_t results = 0;       ///< How many of the rows are written.
  uint8_t operands = 0;
  bool guardNegated = false;
  bool endsBlock = false; ///< A branch or an exit.
  /// Reads memory of which it says that the launch does not change it.
  bool readsConstants = false;
  Class kind = Class::Integer;
};

/// Where an instruction stands, for messages.
struct OpLocation {
  int64_t line = 0, sourceFile = 0, sourceLine = 0;
  std::string opcode;
};

/// Values that never change in a block, or in a launch.
struct FixedRow {
  uint32_t row = 0;
  int width = 32;
  uint64_t bits = 0;   ///< Of a constant.
  std::string special; ///< Name of a special register, or empty.
};

/// Offset of the window of shared memory in which variables start: what is
/// below belongs to the system, so null is no address.
constexpr int64_t sharedBase = 1024;
/// An address in shared memory has there the number of its block in the
/// cluster, plus one; 0 for the block that uses it.
constexpr int clusterRankShift = 24;
/// Where generic addresses of shared and local memory start.
constexpr uint64_t sharedWindow = uint64_t(1) << 56;
constexpr uint64_t localWindow = uint64_t(1) << 57;
/// Of the kernel's parameters, in which tensor maps may be.
constexpr uint64_t parameterWindow = uint64_t(1) << 58;
constexpr uint64_t windowBytes = uint64_t(1) << 32;

struct Parameter {
  int64_t offset = 0, bytes = 0;
};

/// A kernel that can be executed.
struct Program {
  std::string name;
  std::vector<Op> ops;
  std::vector<OpLocation> locations;
  std::vector<uint32_t> rows; ///< Of all ops.
  std::vector<FixedRow> fixed;
  /// Rows of 64 bytes that may be read before they are written.
  std::vector<uint32_t> unwritten;
  /// Rows that share their memory with none: asynchronous products write them
  /// later, and see whether they changed.
  std::vector<uint32_t> pinned;
  int64_t registerBytes = 0;      ///< Of a warp.
  int64_t registersPerThread = 0; ///< Live at once at most, of 32 bits.
  int64_t sharedBytes = 0;        ///< Without what the launch adds.
  int64_t localBytes = 0;         ///< Of a thread.
  int64_t parameterBytes = 0;
  std::vector<Parameter> parameters;
  int64_t maxThreads[3] = {0, 0, 0}, requiredThreads[3] = {0, 0, 0};
  int64_t maxRegisters = 0; ///< Of a thread, if the text says so.
  int64_t minBlocks = 0;    ///< That a multiprocessor has to have room for.
  bool changesRegisters = false;  ///< By setmaxnreg.
  bool copiesBulk = false;        ///< By cp.async.bulk, of global memory.
  int64_t cluster[3] = {0, 0, 0}; ///< Its blocks; 0: the launch says it.
  int64_t maxClusterRank = 0;     ///< Blocks of a cluster; 0: the chip's.
  bool isExplicitCluster = false; ///< Only for launches that state a cluster.
  /// Of branches by an index: the ops to which they may go.
  std::vector<std::vector<int32_t>> targets;
};

/// Decodes an entry; throws PtxError. `globals` are the addresses of variables
/// outside of functions.
Program decode(const Syntax &syntax, const Function &function,
               const std::map<std::string, uint64_t> &globals);

/// Gives every branch the place where its paths meet again.
void findReconvergence(Program &program);

/// Numbered registers of `widths` bits become rows that share memory when they
/// never live together.
void assignRows(Program &program, const std::vector<int> &widths);

/// Indices of ops that start basic blocks, in order, and for each block its
/// successors; the number of blocks stands for the exit.
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
