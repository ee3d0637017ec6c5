//===- Products.h - One matrix product by cuBLASLt --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls cuBLASLt for single matrix products. ProductCalls.h uses it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CUDA_PRODUCTS_H
#define HEDDLE_RUNTIME_DEVICES_CUDA_PRODUCTS_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/devices/cuda/Algorithms.h"

#include <memory>
#include <string>

namespace heddle::rt::cublaslt {

/// The functions of libcublasLt.so.13 or .12.
struct Functions {
#define HEDDLE_MEMBER(RETURN, NAME, SYMBOL, PARAMETERS)                        \
  RETURN(*NAME) PARAMETERS = nullptr;
  HEDDLE_CUBLASLT_CALLS(HEDDLE_MEMBER)
#undef HEDDLE_MEMBER
};

} // namespace heddle::rt::cublaslt

namespace heddle::rt::cuda {

/// The library cuBLASLt, loaded at run time and initialized for the current
/// CUDA context.
class ProductLibrary {
public:
  /// Loads and initializes cuBLASLt. If this fails, returns null and sets
  /// `reason`.
  static std::unique_ptr<ProductLibrary> open(std::string &reason);
  ProductLibrary(const ProductLibrary &) = delete;
  ProductLibrary &operator=(const ProductLibrary &) = delete;
  ~ProductLibrary();

  /// Returns the version of cuBLASLt, for example "13.1.0".
  std::string version() const;

  const cublaslt::Functions calls;
  const cublaslt::Handle handle;

private:
  ProductLibrary(const cublaslt::Functions &calls, cublaslt::Handle handle)
      : calls(calls), handle(handle) {}
};

/// One matrix product, and the algorithm with which cuBLASLt computes it.
class ProductCall {
public:
  /// Prepares a product. The product uses the algorithm that `known` has for it
  /// if cuBLASLt still accepts this algorithm. Otherwise cuBLASLt chooses an
  /// algorithm, which is added to `known`. Returns null if cuBLASLt rejects the
  /// product.
  static std::unique_ptr<ProductCall> prepare(const ProductLibrary &library,
                                              const plan::LibraryProduct &what,
                                              Algorithms &known);
  ProductCall(const ProductCall &) = delete;
  ProductCall &operator=(const ProductCall &) = delete;
  ~ProductCall();

  /// Submits the product to the stream. `refs` are the addresses of the
  /// kernel's operands, which its launch passes.
  cublaslt::Status submit(StreamHandle stream, void *const *refs,
                          void *workspace) const;

private:
  /// The alignment in bytes that every address in a plan has.
  static constexpr uintptr_t alignment = 16;

  ProductCall(const ProductLibrary &library, const plan::LibraryProduct &what)
      : library(library), calls(library.calls), what(what) {}
  bool describe();
  bool recall(const Algorithms &known);
  bool choose();

  const ProductLibrary &library;
  const cublaslt::Functions &calls;
  const plan::LibraryProduct what;
  cublaslt::Desc desc = nullptr;
  cublaslt::Layout left = nullptr, right = nullptr, addend = nullptr,
                   sums = nullptr;
  cublaslt::HeuristicResult chosen = {};
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICES_CUDA_PRODUCTS_H
