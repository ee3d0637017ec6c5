//===- Library.h - The emulated cuBLASLt ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the files of the emulated cuBLASLt share: the objects that its handles
// point to, a matrix product as one call describes it, and the functions that
// check and compute it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUBLASLT_LIBRARY_H
#define HEDDLE_EMULATOR_CUBLASLT_LIBRARY_H

#include "heddle/runtime/devices/cuda/CublasLtApi.h"

#include <string>

namespace heddle::rt::cublaslt {

/// The bytes of an element.
inline size_t byteSize(DataType type) { return type == F32 ? 4 : 2; }

/// The data of a cublasLtMatrixLayout_t. Matrices are column-major.
struct LayoutData {
  DataType type;
  uint64_t rows, columns;
  int64_t leading; ///< Elements from one column to the next.

  size_t elementBytes() const { return byteSize(type); }
  /// The bytes from the first element to the end of the last.
  size_t bytes() const {
    return ((columns - 1) * leading + rows) * elementBytes();
  }
};

/// The data of a cublasLtMatmulDesc_t.
struct DescData {
  ComputeType compute;
  DataType scale;
  Operation transA = AsIs, transB = AsIs;
  Epilogue epilogue = Default;
  uint64_t bias = 0, aux = 0; ///< Device addresses.
  int64_t auxLeading = 0;

  bool addsBias() const { return epilogue & 4; }
  bool writesSums() const { return epilogue == SumsA || epilogue == SumsB; }
  bool hasBias() const { return addsBias() || writesSums(); }
  bool hasAux() const { return epilogue & 128; }
  bool writesAux() const { return hasAux() && epilogue != GeluGrad; }
};

/// The data of a cublasLtMatmulPreference_t.
struct PreferenceData {
  uint64_t workspaceBytes = 0;
  uint32_t reductions = 7;
  /// Alignments in bytes of a, b, c and d.
  uint32_t alignments[4] = {256, 256, 256, 256};
};

/// A matrix product as one call of cublasLtMatmul describes it.
struct Product {
  DescData desc;
  LayoutData a, b, c, d;

  /// The number of elements of the bias, or of the bias gradient.
  uint64_t biasElements() const {
    return desc.epilogue == SumsB ? d.columns : d.rows;
  }
};

/// What the emulated library stores in a cublasLtMatmulAlgo_t.
struct AlgorithmData {
  uint64_t mark; ///< algorithmMark: the emulated library made it.
  uint64_t workspaceBytes;
  uint32_t alignments[4]; ///< The alignments in bytes that it relies on.
};
constexpr uint64_t algorithmMark = 0x6c65646465486c74;

/// Checks a product by the rules of NVIDIA's documentation. Returns Success,
/// InvalidValue if the description contradicts itself, or NotSupported if no
/// algorithm computes the product. `why` gets the reason.
Status check(const Product &product, std::string &why);

/// Host addresses of the operands; null if the product has no such operand.
struct ProductBuffers {
  const char *a, *b, *c;
  char *bias, *d, *aux;
};
/// Computes d = alpha a b + beta c and the epilogue, in f32.
void multiply(const Product &product, const ProductBuffers &buffers,
              float alpha, float beta);

} // namespace heddle::rt::cublaslt

#endif // HEDDLE_EMULATOR_CUBLASLT_LIBRARY_H
