//===- Check.cpp - Products that cuBLASLt refuses -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/emulator/cublaslt/Library.h"

using namespace heddle::rt::cublaslt;

/// Whether NVIDIA documents this combination of types for products whose sums
/// are in f32.
static bool areTypesKnown(const Product &product) {
  const DescData &desc = product.desc;
  DataType factors = product.a.type, sums = product.d.type;
  if (desc.scale != F32 || product.b.type != factors || product.c.type != sums)
    return false;
  if (desc.compute == Compute32FFastTf32)
    return factors == F32 && sums == F32;
  return sums == F32 || sums == factors;
}

static bool isEpilogueKnown(Epilogue epilogue) {
  for (Epilogue known : {Default, Bias, Gelu, GeluBias, GeluAux, GeluAuxBias,
                         GeluGrad, SumsA, SumsB})
    if (epilogue == known)
      return true;
  return false;
}

/// Returns an error message if the sizes of the matrices do not fit each other
/// or a leading dimension is too small. Returns null otherwise.
static const char *findWrongSize(const Product &product) {
  for (const LayoutData *layout :
       {&product.a, &product.b, &product.c, &product.d})
    if (layout->rows < 1 || layout->columns < 1 ||
        layout->leading < int64_t(layout->rows))
      return "a leading dimension is less than the rows";
  auto rowsOf = [](const LayoutData &layout, Operation how) {
    return how == AsIs ? layout.rows : layout.columns;
  };
  auto columnsOf = [](const LayoutData &layout, Operation how) {
    return how == AsIs ? layout.columns : layout.rows;
  };
  const DescData &desc = product.desc;
  if (rowsOf(product.a, desc.transA) != product.d.rows ||
      columnsOf(product.b, desc.transB) != product.d.columns ||
      columnsOf(product.a, desc.transA) != rowsOf(product.b, desc.transB) ||
      product.c.rows != product.d.rows ||
      product.c.columns != product.d.columns)
    return "sizes do not fit together";
  return nullptr;
}

/// Returns an error message for wrong operands of the epilogue, or null.
static const char *findWrongEpilogue(const Product &product) {
  const DescData &desc = product.desc;
  if (desc.hasBias() && (!desc.bias || desc.bias % product.d.elementBytes()))
    return "the bias has no address, or one that is not aligned";
  if (!desc.hasAux())
    return nullptr;
  if (!desc.aux || desc.aux % 16)
    return "the auxiliary matrix has no address at a multiple of 16";
  if (desc.auxLeading < int64_t(product.d.rows) || desc.auxLeading % 8)
    return "the leading dimension of the auxiliary matrix is less than the "
           "rows, or no multiple of 8";
  return nullptr;
}

Status heddle::rt::cublaslt::check(const Product &product, std::string &why) {
  if (const char *wrong = findWrongSize(product)) {
    why = wrong;
    return InvalidValue;
  }
  if (!areTypesKnown(product)) {
    why = "there is no algorithm for these types";
    return NotSupported;
  }
  if (!isEpilogueKnown(product.desc.epilogue)) {
    why = "there is no algorithm for this epilogue";
    return NotSupported;
  }
  if (const char *wrong = findWrongEpilogue(product)) {
    why = wrong;
    return NotSupported;
  }
  return Success;
}
