//===- RowLayout.cpp - How rows are divided among threads -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Limits and choices of a row-wise kernel's layout: how many threads handle a
// row, what is kept in registers or workgroup memory, and how many rows a block
// handles.
//
//===----------------------------------------------------------------------===//

#include "RowLayout.h"
#include "RowChunks.h"
#include "RowMemory.h"
#include "RowSums.h"

using namespace mlir;

namespace heddle::gpu {

using codegen::RowRound;
using nn::tensorOf;

/// The usual limit of a block's threads: enough to hide latency, and few enough
/// that a reduction combines only eight warps.
static constexpr int64_t maxThreads = 256;
/// The largest number of blocks, which is more than any chip runs at once. If
/// there are more rows, each block handles several, in a grid-stride loop.
static constexpr int64_t maxBlocks = 4096;
/// The most registers of a thread for elements that are kept between passes
/// over a row. A thread may use 32 more registers for sums over rows. In a
/// block of `mostThreads` threads, a thread has 128 registers; the other 64 are
/// for addresses and intermediate values. A block with teams (warps that each
/// handle a row) has fewer threads, so that both limits are 64 registers.
static constexpr int64_t keptRegisters = 32;
/// The most threads of a block that keeps rows in registers. A block may exceed
/// `maxThreads`, the usual limit, only if its row does not fit into the
/// registers of fewer threads.
static constexpr int64_t mostThreads = 512;
static_assert(mostElementsOfSums == mostThreads * keptRegisters &&
              mostSumsInRows * (accessBytes / 2) == keptRegisters);
/// The workgroup memory for rows that are too long for registers. It is the
/// limit of a block on sm_80, minus the memory of reductions. A multiprocessor
/// then has memory for only one block, so that this block gets the largest
/// number of threads.
static constexpr int64_t keptBytes = 160 << 10;
static constexpr int64_t threadsWithMemory = 1024;
/// A block that handles several rows loads values that all rows share, for
/// example a norm's weights, only once. The number of rows of a block is
/// limited so that there are at least this many blocks: about five for each
/// multiprocessor of a large chip.
static constexpr int64_t enoughBlocks = 640;
static constexpr int64_t mostRows = 8;

/// Limits of teams: warps that each handle a row alone. `rowsAtOnce` is the
/// number of teams of a block. `mostAccesses` is how often a lane may access
/// each tensor in a row. Teams are fast for two reasons: no warp waits for
/// another, and a block has few threads, which leaves more registers for kept
/// values. A kernel without sums over rows has teams only if there are rows for
/// at least `leastTeamBlocks` such blocks, about one for each multiprocessor of
/// a large chip.
static constexpr int64_t rowsAtOnce = 8, mostAccesses = 8;
static constexpr int64_t registersOfTeams = 2 * keptRegisters;
static constexpr int64_t leastTeamBlocks = 128;
/// The most workgroup memory for values that all rows of a block share. So
/// little memory does not limit how many blocks a multiprocessor runs at once.
static constexpr int64_t sharedColumnBytes = 32 << 10;

RowLayout::RowLayout(planir::KernelOp kernel, const codegen::RowsForm &form,
                     bool mayDivide)
    : kernel(kernel), form(form), hasPadding(kernel.getLeadingDimensions()) {
  chooseThreads();
  if (findKept() && !(mayDivide && chooseTeams()))
    chooseKept();
  if (form.hasColumnSums() && numTeams == 1 && !fits(keptRowsAndResults()))
    why = "sums over rows of more columns than registers hold";
  numBlocks = countBlocks();
}

SmallVector<Value> RowLayout::keptRowsAndResults() const {
  SmallVector<Value> kept(rows);
  kept.append(results);
  return kept;
}

/// Whether the number of adjacent columns that a thread handles together does
/// not divide the length of a row. Returns false for kernels with sums over
/// rows and for short rows without padding: there the number is halved until it
/// divides the length.
bool RowLayout::isOdd(const RowRound &round) const {
  int64_t widest = widestChunk(kernel);
  return !form.hasColumnSums() && round.extent % widest &&
         (hasPadding || round.extent >= warpSize * widest);
}

bool RowLayout::isShifted(const RowRound &round) const {
  return isOdd(round) && !hasPadding;
}

int64_t RowLayout::chunkOf(const RowRound &round) const {
  return widestChunk(kernel, isOdd(round) ? 0 : round.extent);
}

void RowLayout::chooseThreads() {
  numThreads = warpSize;
  for (const RowRound *round : form.rounds()) {
    int64_t needed = llvm::divideCeil(round->extent, chunkOf(*round));
    numThreads =
        std::max(numThreads, std::min<int64_t>(llvm::alignTo(needed, warpSize),
                                               maxThreads));
  }
}

/// The bytes of registers that a thread needs to keep its elements of the
/// tensors `kept`.
int64_t RowLayout::keptBytesOf(const Walk &walk, ArrayRef<Value> kept) const {
  int64_t extent = form.rounds().front()->extent, bytes = 0;
  for (Value tensor : kept)
    bytes += RowChunks::countOf(walk, extent) * walk.width *
             dist::byteSize(tensorOf(tensor).getElementType());
  return bytes;
}

/// Number of f32 registers that a thread needs for sums over rows; 0 without
/// such sums.
int64_t RowLayout::elementsOfSums(const Walk &walk) const {
  auto sums = static_cast<int64_t>(form.columnSums().reductions.size());
  return RowChunks::countOf(walk, form.rounds().front()->extent) * walk.width *
         sums;
}

/// Returns the least number of rows that a block must have if it computes sums
/// over rows. Its rows must make up five sixths of the block's memory traffic.
/// The remaining sixth is the traffic of the values that all rows share, and of
/// the block's partial sums, which are written and read again.
int64_t RowLayout::leastRowsOfSums() const {
  constexpr int64_t share = 5;
  int64_t extent = form.rounds().front()->extent, ofRow = 0;
  auto sums = static_cast<int64_t>(form.columnSums().reductions.size());
  int64_t ofBlock = 2 * sums * extent * static_cast<int64_t>(sizeof(float));
  for (Value tensor : columns)
    ofBlock += dist::byteSize(tensorOf(tensor));
  planir::KernelOp op = kernel;
  for (Type type :
       llvm::concat<const Type>(op.getArgumentTypes(), op.getResultTypes()))
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      if (tensor.getNumElements() == form.rows() * extent)
        ofRow += dist::byteSize(tensor) / form.rows();
  return ofRow ? llvm::divideCeil(share * ofBlock, ofRow) : 1;
}

/// Whether a thread's elements of `kept` and its sums over rows fit into
/// registers. If they do not, tries more threads per block. Examines only the
/// first pass over a row. This suffices only if all passes have the same
/// columns, which `findKept` checks.
bool RowLayout::fits(ArrayRef<Value> kept) {
  const RowRound &round = *form.rounds().front();
  for (int64_t count = numThreads; count <= mostThreads; count *= 2) {
    Walk walk = {chunkOf(round), count};
    if (keptBytesOf(walk, kept) > keptRegisters * 4 ||
        elementsOfSums(walk) > keptRegisters)
      continue;
    numThreads = count;
    return true;
  }
  return false;
}

/// Whether a row of each tensor in `kept` fits into workgroup memory. Returns
/// false for kernels with sums over rows, since these need a thread's columns
/// in registers.
bool RowLayout::fitsMemory(ArrayRef<Value> kept) {
  const RowRound &round = *form.rounds().front();
  Walk any = {chunkOf(round), threadsWithMemory};
  int64_t bytes = RowMemory::bytesOf(any, round.extent, kept);
  if (bytes > keptBytes || form.hasColumnSums())
    return false;
  numThreads = any.threads;
  memoryBytes = bytes;
  return true;
}

int64_t RowLayout::rowsPerBlock() const {
  if (form.hasColumnSums())
    return llvm::alignTo(
        std::max(leastRowsOfSums(), static_cast<int64_t>(llvm::divideCeil(
                                        form.rows(), RowSums::mostParts))),
        numTeams);
  return std::clamp<int64_t>(form.rows() / enoughBlocks, 1, mostRows);
}

int64_t RowLayout::countBlocks() const {
  if (numTeams > 1 && !form.hasColumnSums())
    return std::min<int64_t>(llvm::divideCeil(form.rows(), numTeams),
                             maxBlocks);
  int64_t all = form.rows(), shared = llvm::divideCeil(all, rowsPerBlock());
  bool areShared = !columns.empty() || form.hasColumnSums();
  return std::min(areShared ? shared : all, maxBlocks);
}

/// Finds the tensors that may be kept: tensors whose rows are read in several
/// rounds (passes over a row's columns), and tensors with a single row that all
/// rows share. Finds none and returns false if the rows of different rounds
/// have different lengths.
bool RowLayout::findKept() {
  const RowRound &first = *form.rounds().front();
  if (llvm::any_of(form.rounds(), [&](const RowRound *round) {
        return round->extent != first.extent;
      })) {
    if (form.hasColumnSums())
      why = "sums over rows beside rows of other lengths";
    return false;
  }
  SmallVector<int64_t> rowShape(form.rowDims());
  rowShape.push_back(first.extent);
  for (auto [tensor, reads] : form.columnReads()) {
    ArrayRef<int64_t> shape = tensorOf(tensor).getShape();
    bool isResult = !isa<BlockArgument>(tensor);
    if (shape == ArrayRef(rowShape)) {
      if (isResult || reads > 1)
        (isResult ? results : rows).push_back(tensor);
    } else if (shape == ArrayRef(first.extent) && !isShifted(first)) {
      columns.push_back(tensor);
    }
  }
  return true;
}

/// Gives each row to one warp (a team), if rows are short and there are many
/// rows, or if the kernel computes sums over rows, so that each block has many
/// rows. Returns whether blocks have teams.
bool RowLayout::chooseTeams() {
  const RowRound &round = *form.rounds().front();
  Walk walk = {chunkOf(round), warpSize};
  int64_t shared = 0;
  for (Value tensor : columns)
    shared += dist::byteSize(tensorOf(tensor));
  bool isEnough = form.hasColumnSums()
                      ? round.extent >= walk.threads * walk.width
                      : form.rows() >= rowsAtOnce * leastTeamBlocks;
  if (form.reductionRounds().empty() || isShifted(round) || !isEnough ||
      elementsOfSums(walk) > registersOfTeams ||
      RowChunks::countOf(walk, round.extent) > mostAccesses ||
      keptBytesOf(walk, keptRowsAndResults()) > registersOfTeams * 4 ||
      shared > sharedColumnBytes)
    return false;
  numThreads = walk.threads;
  numTeams = rowsAtOnce;
  return true;
}

/// Decides which tensors are kept in registers or in workgroup memory for later
/// passes or rows. Drops tensors that fit into neither. If each block has only
/// one row, also drops the tensors that all rows share, since no later row
/// would use them.
void RowLayout::chooseKept() {
  if (rowsPerBlock() == 1)
    columns.clear();
  SmallVector<Value> all = keptRowsAndResults();
  all.append(columns);
  if (fits(all))
    return;
  columns.clear();
  SmallVector<Value> ofRows = keptRowsAndResults();
  if (fits(ofRows) || fitsMemory(ofRows))
    return;
  rows.clear();
  results.clear();
}

} // namespace heddle::gpu
