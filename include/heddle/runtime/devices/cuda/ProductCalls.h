//===- ProductCalls.h - The cuBLASLt calls of a product ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes a matrix product by cuBLASLt. A product whose sizes are not aligned
// would be slow, and is computed in several calls.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_PRODUCTCALLS_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_PRODUCTCALLS_H

#include "heddle/runtime/devices/cuda/Products.h"

#include <array>
#include <vector>

namespace heddle::rt::cuda {

/// A part of a matrix product, which one call of cuBLASLt computes. It may have
/// fewer rows, columns or terms of the sums than the whole product.
struct ProductPart {
  /// Where an operand of this call begins: within the tensor that is the
  /// operand of the whole product.
  struct OperandAddress {
    int64_t ref;   ///< Index in `refs` of the tensor with the operand.
    int64_t bytes; ///< Offset from the beginning of that tensor.
  };
  static constexpr size_t mostOperands = 8; ///< As many as a product has
                                            ///< operands.
  plan::LibraryProduct what; ///< Its operands are indices into `operands`.
  std::vector<OperandAddress> operands;
};

/// Splits a product into parts, which must run in the returned order. The
/// reason is speed: cuBLASLt multiplies bf16 at a seventh of its speed if the
/// size of a row is no multiple of 16 bytes, even if each row is aligned. (On
/// an H100 with version 13.1, 4096 x 768 by 768 x 50257 runs at 98 TFLOP/s, and
/// 768 x 50256 at 709.) The main part therefore covers the largest multiple of
/// 16 bytes, and the remainder is a second part. The remainder runs first:
/// after a split of k both parts contribute to the same elements, and the main
/// part adds to the sums of the remainder. Products of fewer than `leastFlops`
/// operations are not split, since the second launch would take more time than
/// the split saves.
std::vector<ProductPart> partsOf(const plan::LibraryProduct &what,
                                 double leastFlops = 0x1p32);

/// A product by cuBLASLt, as one call for each of its parts.
class ProductCalls {
public:
  /// Prepares one call for each part of a product. If cuBLASLt rejects a part,
  /// prepares a single call for the whole product. Returns null if cuBLASLt
  /// also rejects the single call.
  static std::unique_ptr<ProductCalls> prepare(const ProductLibrary &library,
                                               const plan::LibraryProduct &what,
                                               Algorithms &known);
  /// Prepares one call of cuBLASLt for each of `parts`, the parts into which
  /// one product is split. Returns null if cuBLASLt rejects one of them.
  static std::unique_ptr<ProductCalls>
  prepare(const ProductLibrary &library, const std::vector<ProductPart> &parts,
          Algorithms &known);

  /// Submits all calls to the stream. `refs` are the addresses of the kernel's
  /// operands, which its launch passes.
  cublaslt::Status submit(StreamHandle stream, void *const *refs,
                          void *workspace) const;

private:
  struct Call {
    std::unique_ptr<ProductCall> product;
    std::vector<ProductPart::OperandAddress> operands;
  };
  std::vector<Call> calls;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_PRODUCTCALLS_H
