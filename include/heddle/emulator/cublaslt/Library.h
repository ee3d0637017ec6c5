//===- Library.h - The emulated cuBLASLt ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUBLASLT_LIBRARY_H
#define HEDDLE_EMULATOR_CUBLASLT_LIBRARY_H

#include "heddle/runtime/devices/cuda/CublasLtApi.h"

#include <string>

namespace heddle::rt::cublaslt {

/// A cublasLtMatrixLayout_t: by columns.
struct LayoutData {
  DataType type;
  uint64_t rows, columns;
  int64_t leading; ///< Elements from a column to the next.

  size_t elementBytes() const { return type == BF16 ? 2 : 4; }
  /// From its first element to behind its last.
  size_t bytes() const {
    return ((columns - 1) * leading + rows) * elementBytes();
  }
};

/// A cublasLtMatmulDesc_t.
struct DescData {
  ComputeType compute;
  DataType scale;
  Operation transA = AsIs, transB = AsIs;
  Epilogue epilogue = Default;
  uint64_t bias = 0, aux = 0; ///< Addresses.
  int64_t auxLeading = 0;

  bool addsBias() const { return epilogue & 4; }
  bool writesSums() const { return epilogue == SumsA || epilogue == SumsB; }
  bool hasBias() const { return addsBias() || writesSums(); }
  bool hasAux() const { return epilogue & 128; }
  bool writesAux() const { return hasAux() && epilogue != GeluGrad; }
};

/// A cublasLtMatmulPreference_t.
struct PreferenceData {
  uint64_t workspaceBytes = 0;
  uint32_t reductions = 7;
  uint32_t alignments[4] = {256, 256, 256, 256}; ///< Of a, b, c, d.
};

/// An operation on matrices, as one call names them.
struct Product {
  DescData desc;
  LayoutData a, b, c, d;

  /// Of the bias, or of the gradient of one.
  uint64_t biasElements() const {
    return desc.epilogue == SumsB ? d.columns : d.rows;
  }
};

/// What the emulated library puts into an Algorithm.
struct Choice {
  uint64_t mark; ///< That it is one of ours.
  uint64_t workspaceBytes;
  uint32_t alignments[4]; ///< That it relies on.
};
constexpr uint64_t choiceMark = 0x6c65646465486c74;

/// What the documentation says of the operation: Success, InvalidValue where
/// the description contradicts itself, NotSupported where no algorithm does it.
/// `why` gets the reason.
Status check(const Product &product, std::string &why);

/// Where the operands stand. Null: there is none.
struct ProductBuffers {
  const char *a, *b, *c;
  char *bias, *d, *aux;
};
/// Computes d = alpha a b + beta c, with the epilogue, in f32.
void multiply(const Product &product, const ProductBuffers &buffers,
              float alpha, float beta);

} // namespace heddle::rt::cublaslt

#endif // HEDDLE_EMULATOR_CUBLASLT_LIBRARY_H
