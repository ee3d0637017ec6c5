//===- CacheAddresses.h - Addresses in the paged cache ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes addresses in the paged key-value cache, for the kernels of
// nn.cache_write and nn.paged_attention on GPUs. NNCacheOps.td describes the
// operands.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_CACHEADDRESSES_H
#define HEDDLE_LIB_CODEGEN_GPU_CACHEADDRESSES_H

#include "HeadNorms.h"
#include "KernelFrame.h"
#include "ThreadCode.h"
#include "dialects/Dist/ByteSize.h"
#include "heddle/Codegen/Common/IntBuilder.h"

namespace heddle::gpu {

/// The tokens that one launch of a serving program computes, as a matrix [rows,
/// tokens]: each row has tokens of one request. Tokens are numbered row by row.
class TokenAddresses {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;

  template <typename OpT>
  TokenAddresses(KernelFrame &f, ThreadCode &c, OpT op)
      : f(f), c(c), i32(c.builder, c.loc, c.builder.getI32Type()),
        rows(typeOf(op.getPositions()).getDimSize(0)),
        tokens(typeOf(op.getPositions()).getDimSize(1)),
        positions(pointerOf(op.getPositions())),
        lengths(pointerOf(op.getLengths())) {}

  static mlir::RankedTensorType typeOf(Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType());
  }
  /// The address of a tensor. A cache that the kernel writes in place has the
  /// address of the argument that it overwrites. Null if the kernel computes
  /// the tensor.
  Value pointerOf(Value tensor);
  /// `pointer` plus `index` (i32 or i64, not negative) elements.
  Value advance(Value pointer, Type element, Value index) {
    Value wide = index.getType().isInteger(32) ? c.wide(index) : index;
    return c.at(pointer, c.mul(wide, dist::byteSize(element)));
  }
  Value loadInt(Value pointer, Value index) {
    Type type = c.builder.getI32Type();
    return c.load(type, advance(pointer, type, index));
  }
  /// Whether the token exists. A row of the launch may have fewer than `tokens`
  /// tokens.
  Value isThere(Value row, Value tokenOfRow) {
    return c.less(tokenOfRow, loadInt(lengths, row));
  }
  /// The number of keys that a token sees if no window limits them; 0 if the
  /// token does not exist. If `exists` is false, no token is read.
  Value countKeys(Value row, Value tokenOfRow, Value exists);

  KernelFrame &f;
  ThreadCode &c;
  codegen::IntBuilder i32;
  int64_t rows, tokens;
  Value positions, lengths;
};

/// The addresses of the operands of an nn.cache_write or nn.paged_attention.
class CacheAddresses : public TokenAddresses {
public:
  template <typename OpT>
  CacheAddresses(KernelFrame &f, ThreadCode &c, OpT op)
      : TokenAddresses(f, c, op), packed(op.isPacked()),
        heads(op.getHeads().getCount()), kv(op.getHeads().getKv()),
        dims(op.getHeadDim()), pageTokens(op.getPageTokens()),
        rowPages(typeOf(op.getPages()).getDimSize(1)),
        cacheType(typeOf(op.getKeys()).getElementType()),
        type(typeOf(op.getQkv()[0]).getElementType()),
        scaleType(op.getScales() ? typeOf(op.getScales()).getElementType()
                                 : Type()),
        keys(pointerOf(op.getKeys())), values(pointerOf(op.getValues())),
        scales(op.getScales() ? pointerOf(op.getScales()) : Value()),
        pages(pointerOf(op.getPages())) {
    int64_t offsets[] = {0, heads * dims, (heads + kv) * dims};
    int64_t width = (heads + 2 * kv) * dims;
    for (int64_t i = 0; i < 3; ++i) {
      Value tensor = op.getQkv()[packed ? 0 : i];
      qkv[i] = {tensor, pointerOf(tensor), packed ? offsets[i] : 0,
                packed ? width : op.getWidths()[i]};
      norms.emplace_back(f, op->template getParentOfType<planir::KernelOp>(),
                         tensor);
    }
  }

  /// Reads entry `number` of a row's page table: the index of the page that has
  /// the row's positions from `number` * pageTokens on.
  Value pageOf(Value row, Value number) {
    return loadInt(pages, i32.add(i32.mul(row, rowPages), number));
  }
  /// The index (i64) of the first element of a head in a page, among keys or
  /// among values.
  Value headInPage(Value page, Value kvHead) {
    Value head = i32.add(i32.mul(page, kv), kvHead);
    return c.mul(c.wide(head), dims * pageTokens);
  }
  /// The address of the scales of a head's int8 keys in a page. In memory, the
  /// scales of the head's values follow them.
  Value scalesAt(Value page, Value kvHead) {
    Value head = i32.add(i32.mul(page, kv), kvHead);
    return advance(scales, scaleType, c.mul(c.wide(head), 2 * pageTokens));
  }
  /// Whether the kernel computes q, k or v (`which` is 0, 1 or 2). Otherwise it
  /// is in memory.
  bool isComputed(int64_t which) const { return !qkv[which].pointer; }
  /// The address of q, k or v of a token's head, if it is in memory.
  Value headAt(int64_t which, Value row, Value token, Value head);
  /// Norms of the heads of q, k or v. They must be bound to the head before its
  /// features are computed.
  HeadNorms &normsOf(int64_t which) { return norms[which]; }
  /// Emits the results of the norms of a head of q, k or v, by a warp.
  mlir::FailureOr<llvm::SmallVector<Value>>
  reduceHead(int64_t which, Value row, Value token, Value head) {
    Value inTensor = c.add(head, qkv[which].offset / dims);
    return norms[which].reduce(c.toIndex(row), c.toIndex(token),
                               c.toIndex(inTensor));
  }
  /// A feature of q, k or v of a token's head, as f32. Null if the kernel
  /// cannot compute it.
  Value featureOf(int64_t which, Value row, Value token, Value head,
                  Value feature);

  bool packed; ///< Whether one tensor holds q, k and v.
  int64_t heads, kv, dims, pageTokens, rowPages;
  Type cacheType, type;
  Type scaleType; ///< Null, like `scales`, if the cache holds floats.
  Value keys, values, scales, pages;

private:
  /// The rows of q, k or v: one for each token, `stride` elements apart. The
  /// first head begins `offset` elements after the begin of a row.
  struct TokenRows {
    Value tensor, pointer;
    int64_t offset, stride;
  };
  TokenRows qkv[3];
  llvm::SmallVector<HeadNorms, 3> norms;
};

/// The result of mapping a kernel of the cache to no code. Norms of heads give
/// no reason.
inline MappedKernel noCacheKernel(std::string reason) {
  return MappedKernel::no(
      reason.empty() ? "norms of heads that a warp cannot compute" : reason);
}

/// Whether the operation is the only one of its kernel.
inline bool isAlone(mlir::Operation *op) {
  return op == &op->getBlock()->front() &&
         op->getNextNode() == op->getBlock()->getTerminator();
}

/// Maps nn.cache_write: a warp writes the key or the value of one head of one
/// token. The kernel may also have operations that compute elements of k and v.
MappedKernel mapCacheWrite(planir::KernelOp kernel,
                           mlir::gpu::GPUModuleOp module);
/// Maps nn.paged_attention. The kernel may also have the nn.cache_write of the
/// same tokens, and operations that compute elements of q, k and v.
MappedKernel mapPagedAttention(planir::KernelOp kernel,
                               mlir::gpu::GPUModuleOp module,
                               nn::PagedAttentionOp op, const Chip &chip);
/// Maps nn.paged_attention_join.
MappedKernel mapPagedJoin(planir::KernelOp kernel,
                          mlir::gpu::GPUModuleOp module,
                          nn::PagedAttentionJoinOp op);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_CACHEADDRESSES_H
