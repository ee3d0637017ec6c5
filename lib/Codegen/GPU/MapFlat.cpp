//===- MapFlat.cpp - Element by element -----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps element-wise kernels to a grid of threads over flat tensors. The results
// of a kernel may have different numbers of elements (lengths), for example the
// gradients of a layer's biases. Each length then has its own range of blocks,
// which compute all results of this length.
//
//===----------------------------------------------------------------------===//

#include "KernelFrame.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
/// `threads` is the number of threads of a block. `maxBlocks` is the largest
/// number of blocks for results with the same number of elements, which is more
/// than any chip runs at once.
constexpr int64_t threads = 256;
constexpr int64_t maxBlocks = 4096;

/// All results of the kernel with the same number of elements (`elements`). The
/// same loop computes them.
struct FlatVector {
  int64_t elements;
  SmallVector<unsigned> results;

  int64_t blocks(int64_t width) const {
    return std::clamp<int64_t>(llvm::divideCeil(elements, threads * width), 1,
                               maxBlocks);
  }
};
} // namespace

static SmallVector<FlatVector> vectorsOf(planir::KernelOp kernel) {
  SmallVector<FlatVector> vectors;
  for (auto [number, type] : llvm::enumerate(kernel.getResultTypes())) {
    int64_t elements = cast<RankedTensorType>(type).getNumElements();
    auto *found = llvm::find_if(vectors, [&](const FlatVector &vector) {
      return vector.elements == elements;
    });
    if (found == vectors.end())
      found = &vectors.emplace_back(FlatVector{elements, {}});
    found->results.push_back(number);
  }
  return vectors;
}

/// Computes a chunk (adjacent elements) of all results before it stores any,
/// since a result may overwrite an argument that another result needs.
static LogicalResult emitChunk(KernelFrame &f, ArrayRef<unsigned> results,
                               Chunk chunk) {
  ElementEmitter::Scope scope(f.emitter, chunk);
  SmallVector<Value> elements;
  for (unsigned result : results) {
    FailureOr<Value> value = f.emitter.elements(f.yielded(result), {});
    if (failed(value))
      return failure();
    elements.push_back(*value);
  }
  for (auto [result, element] : llvm::zip(results, elements))
    f.store(element, f.outputBuffer(result), chunk.base);
  return success();
}

/// Emits the code of the blocks that compute the results in `vector`. `block`
/// is the index of the running block among these blocks.
static LogicalResult emitVector(KernelFrame &f, const FlatVector &vector,
                                Value block, int64_t width) {
  OpBuilder &b = f.builder;
  int64_t elements = vector.elements, whole = elements / width * width;
  Value global = f.add(f.mul(block, threads), f.threadId());
  if (whole > 0) {
    auto loop = b.create<scf::ForOp>(
        f.loc, f.mul(global, width), f.constant(whole),
        f.constant(vector.blocks(width) * threads * width));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    if (failed(emitChunk(f, vector.results,
                         f.chunk(loop.getInductionVar(), width))))
      return failure();
  }
  if (whole == elements)
    return success();
  InsideIf rest(f,
                f.compare(arith::CmpIPredicate::ult, global, elements - whole));
  return emitChunk(f, vector.results, f.chunk(f.add(global, whole), 1));
}

/// Emits the code of all results. An entry of `vectors` is a group of results
/// that have the same number of elements. Each group has its own range of
/// blocks.
static LogicalResult emitVectors(KernelFrame &f, ArrayRef<FlatVector> vectors,
                                 int64_t width) {
  Value block = f.blockId(mlir::gpu::Dimension::x);
  if (vectors.size() == 1)
    return emitVector(f, vectors[0], block, width);
  int64_t first = 0;
  for (const FlatVector &vector : vectors) {
    // `own` is this block's index in the range of blocks of `vector`. The
    // comparison is unsigned: for blocks before the range, the difference is
    // negative, which as an unsigned number is larger than any number of
    // blocks.
    Value own = f.add(block, -first);
    InsideIf isOwn(
        f, f.compare(arith::CmpIPredicate::ult, own, vector.blocks(width)));
    ElementEmitter::Scope scope(f.emitter);
    if (failed(emitVector(f, vector, own, width)))
      return failure();
    first += vector.blocks(width);
  }
  return success();
}

MappedKernel mapFlat(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module) {
  // A thread handles `width` adjacent elements together. The lengths of the
  // results need not be multiples of the width, since the last elements of a
  // result are then computed one by one.
  int64_t width = widestChunk(kernel), blocks = 0;
  SmallVector<FlatVector> vectors = vectorsOf(kernel);
  for (const FlatVector &vector : vectors)
    blocks += vector.blocks(width);
  FrameOptions options;
  options.flat = true;
  MappedKernel mapped;
  if (failed(addLaunch(mapped, kernel, module, options, blocks, threads,
                       [&](KernelFrame &f) {
                         for (unsigned i : f.allOutputs())
                           f.emitter.hoistConstants(f.yielded(i));
                         return emitVectors(f, vectors, width);
                       })))
    return MappedKernel::no(mapped.reason);
  return mapped;
}

} // namespace heddle::gpu
