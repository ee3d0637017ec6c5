//===- RowLayout.cpp - How rows are divided among threads -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowLayout.h"
#include "RowChunks.h"
#include "RowMemory.h"
#include "RowSums.h"

using namespace mlir;

namespace heddle::gpu {

using codegen::RowRound;

/// Threads of a block at most: enough to hide latency, few enough that a
/// reduction crosses eight warps.
static constexpr int64_t maxThreads = 256;
/// Blocks at most: more than any chip holds at once; the rest is grid-stride.
static constexpr int64_t maxBlocks = 4096;
/// Registers of a thread for elements that are kept from round to round: a
/// quarter of what a block of the most threads leaves it, and as many for sums
/// over rows. Teams have twice as many of both. The rest has to do for
/// addresses and whatever else is made of them.
static constexpr int64_t keptRegisters = 32;
/// Threads of a block that needs them to keep its row.
static constexpr int64_t mostThreads = 512;
static_assert(mostElementsOfSums == mostThreads * keptRegisters &&
              mostSumsInRows * (accessBytes / 2) == keptRegisters);
/// Workgroup memory for longer rows: what sm_80 gives a block, but for what
/// reductions take. There is room for one block of the most threads.
static constexpr int64_t keptBytes = 160 << 10;
static constexpr int64_t threadsWithMemory = 1024;
/// Weights of columns stay in registers while a block goes from row to row:
/// then it has several, but not so many that fewer blocks than this are left,
/// about five for each multiprocessor of a large chip.
static constexpr int64_t enoughBlocks = 640;
static constexpr int64_t mostRows = 8;

/// Rows that a block has at once where each is a warp's, and the accesses that
/// a lane has of each tensor at most. No warp waits for another, and what is
/// kept may take more registers, as there are few threads. There have to be
/// blocks for the multiprocessors of a large chip.
static constexpr int64_t rowsAtOnce = 8, mostAccesses = 8;
static constexpr int64_t registersOfTeams = 2 * keptRegisters;
static constexpr int64_t leastTeamBlocks = 128;
/// Workgroup memory that all blocks have, for what these rows share.
static constexpr int64_t sharedColumnBytes = 32 << 10;

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

RowLayout::RowLayout(planir::KernelOp kernel, const codegen::RowsForm &form,
                     bool mayDivide)
    : kernel(kernel), form(form), hasPadding(kernel.getPitches()) {
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

/// A thread that sums rows has chunks alone.
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

/// What a thread needs for elements of rows.
int64_t RowLayout::keptBytesOf(const Walk &walk, ArrayRef<Value> kept) const {
  int64_t extent = form.rounds().front()->extent, bytes = 0;
  for (Value tensor : kept)
    bytes += RowChunks::countOf(walk, extent) * walk.width *
             dist::byteSize(tensorOf(tensor).getElementType());
  return bytes;
}

/// What a thread has of sums over rows, where there are some.
int64_t RowLayout::elementsOfSums(const Walk &walk) const {
  auto sums = static_cast<int64_t>(form.columnSums().reductions.size());
  return RowChunks::countOf(walk, form.rounds().front()->extent) * walk.width *
         sums;
}

/// Rows that a block has at least where it sums them: so many that they make up
/// five sixths of what is moved. The rest is what all rows share, and its part
/// of the sums, which is written and read.
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

/// Whether there are registers for the tensors' elements, and for the sums over
/// rows, in a block of more threads if need be. Every round has the same
/// columns.
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

/// The same for workgroup memory. Sums over rows need the columns of a thread
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

/// What may be kept: tensors with rows that several rounds read, and tensors
/// with one row for all. Not where rounds have rows of different lengths.
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

/// Rows that are short enough go to the lanes of a warp each: many rows, or
/// rows that a block has many of because it sums them.
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

/// Leaves out what there is no room for, or, where a block has one row, what is
/// not of that row.
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
