//===- ProductCalls.h - The cuBLASLt calls of a product ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes a matrix product by cuBLASLt, in several calls where unaligned sizes
// would be slow.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_PRODUCTCALLS_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_PRODUCTCALLS_H

#include "heddle/runtime/devices/cuda/Products.h"

#include <array>
#include <vector>

namespace heddle::rt::cuda {

/// One of the parts into which a product is split.
struct ProductPart {
  /// The address of an operand of the part.
  struct OperandAddress {
    int64_t ref;   ///< The number of the kernel's `refs` that contains it.
    int64_t bytes; ///< Offset from the beginning of that.
  };
  static constexpr size_t mostOperands = 8; ///< As many as a product has
                                            ///< operands.
  plan::LibraryProduct what; ///< Its operands are indices into `operands`.
  std::vector<OperandAddress> operands;
};

/// Splits a product into parts, which must run in this order. cuBLASLt
/// multiplies bf16 at a seventh of its speed where the number of elements of a
/// row is no multiple of 16 bytes, even if each row is aligned (H100, version
/// 13.1: 4096 x 768 by 768 x 50257 at 98 TFLOP/s, by 768 x 50256 at 709). The
/// rest after that multiple therefore is a part of its own. It comes first:
/// where both parts sum into the same elements, the main part adds to its sums.
/// Products of fewer than `leastFlops` operations are not split, since another
/// launch would cost more than the split saves.
std::vector<ProductPart> partsOf(const plan::LibraryProduct &what,
                                 double leastFlops = 0x1p32);

/// A product by cuBLASLt, as one call for each of its parts.
class ProductCalls {
public:
  /// Prepares the parts of a product; if the library rejects one of them, a
  /// single call for the whole product. Returns null if the library rejects
  /// that, too.
  static std::unique_ptr<ProductCalls> prepare(const ProductLibrary &library,
                                               const plan::LibraryProduct &what,
                                               Algorithms &known);
  /// Prepares the given parts. Null if the library rejects one.
  static std::unique_ptr<ProductCalls>
  prepare(const ProductLibrary &library, const std::vector<ProductPart> &parts,
          Algorithms &known);

  /// Submits all calls to the stream. `refs` are the addresses that the launch
  /// of the kernel passes.
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
