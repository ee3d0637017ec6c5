//===- MapCacheWrite.cpp - Writes to the paged cache ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps nn.cache_write: a warp writes the key or the value of one head of one
// token. It computes their features if the kernel has operations for that.
//
//===----------------------------------------------------------------------===//

#include "CacheWriter.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
constexpr int64_t warpsOfBlock = 4;

class CacheWriteMapper {
public:
  CacheWriteMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                   nn::CacheWriteOp op)
      // Operations that compute elements need the dimensions of the buffers.
      : f(kernel, module, FrameOptions{/*flat=*/isAlone(op)}),
        c(f.builder, f.loc), a(f, c, op) {}

  /// Fails if the kernel cannot compute k or v; `reason` says why.
  FailureOr<MappedLaunch> emit();
  std::string reason() const { return f.emitter.reason(); }

private:
  KernelFrame f;
  ThreadCode c;
  CacheAddresses a;
};
} // namespace

FailureOr<MappedLaunch> CacheWriteMapper::emit() {
  int64_t items = a.rows * a.tokens * a.kv * 2;
  Value item =
      a.i32.add(a.i32.mul(c.blockId(mlir::gpu::Dimension::x), warpsOfBlock),
                c.div(c.threadId(), warpSize));
  Value head = c.rem(c.div(item, 2), a.kv), number = c.div(item, 2 * a.kv);
  Value row = c.div(number, a.tokens), token = c.rem(number, a.tokens);
  {
    InsideIf isItem(c, c.less(item, items));
    InsideIf exists(c, a.isThere(row, token));
    CacheWriter writer(a);
    if (failed(writer.writeItem(c.rem(item, 2), row, token, head,
                                a.loadInt(a.positions, number))))
      return failure();
  }
  auto blocks = static_cast<int64_t>(llvm::divideCeil(items, warpsOfBlock));
  f.finish({blocks}, warpsOfBlock * warpSize);
  return f.launch();
}

MappedKernel mapCacheWrite(planir::KernelOp kernel,
                           mlir::gpu::GPUModuleOp module) {
  Block &body = kernel.getBody().front();
  auto write = dyn_cast_if_present<nn::CacheWriteOp>(
      body.getTerminator()->getPrevNode());
  if (!write)
    return MappedKernel::no("operations after a cache write");
  if (!isWrittenInPlace(kernel, write))
    return MappedKernel::no("a cache that is not written in place");
  CacheWriteMapper mapper(kernel, module, write);
  FailureOr<MappedLaunch> launch = mapper.emit();
  if (failed(launch))
    return noCacheKernel(mapper.reason());
  MappedKernel mapped;
  mapped.launches.push_back(*launch);
  return mapped;
}

} // namespace heddle::gpu
