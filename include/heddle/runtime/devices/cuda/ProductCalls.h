//===- ProductCalls.h - The calls that compute a product --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_PRODUCTCALLS_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_PRODUCTCALLS_H

#include "heddle/runtime/devices/cuda/Products.h"

#include <array>
#include <vector>

namespace heddle::rt::cuda {

/// A part of a product.
struct ProductPart {
  /// Where an operand of the part begins.
  struct OperandAddress {
    int64_t ref;   ///< Which of the kernel's `refs` it is a part of.
    int64_t bytes; ///< From its beginning.
  };
  static constexpr size_t mostOperands = 8; ///< As many as operands have names.
  plan::LibraryProduct what; ///< Its operands are numbers of `operands`.
  std::vector<OperandAddress> operands;
};

/// The product in parts, one after the other. cuBLASLt multiplies bf16 at a
/// seventh of its speed where rows of a matrix have another number of elements
/// than a multiple of 16 bytes, though each begins at one (an H100 and version
/// 13.1: 4096 x 768 by 768 x 50257 at 98 TFLOP/s, by 768 x 50256 at 709). So
/// what is beyond that multiple is a part of its own, which comes first: the
/// main part adds to its sums where both sum into the same elements. Products
/// of fewer operations than `leastFlops` stay whole: a launch takes longer than
/// what they would gain.
std::vector<ProductPart> partsOf(const plan::LibraryProduct &what,
                                 double leastFlops = 0x1p32);

/// A product by cuBLASLt, in a call for each of its parts.
class ProductCalls {
public:
  /// The parts, or the whole product where the library refuses one of them.
  /// Null where it refuses that too.
  static std::unique_ptr<ProductCalls> prepare(const ProductLibrary &library,
                                               const plan::LibraryProduct &what,
                                               Algorithms &known);
  /// Each of the parts, or null.
  static std::unique_ptr<ProductCalls>
  prepare(const ProductLibrary &library, const std::vector<ProductPart> &parts,
          Algorithms &known);

  /// Gives them to the stream. `refs` are those of the kernel's launch.
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
