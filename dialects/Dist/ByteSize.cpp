//===- ByteSize.cpp - Bytes of elements and tensors -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/ByteSize.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

bool heddle::dist::hasByteSize(Type type) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.hasStaticShape() && hasByteSize(shaped.getElementType());
  if (!type.isIntOrFloat())
    return false;
  unsigned bits = type.getIntOrFloatBitWidth();
  return bits == 8 || bits == 16 || bits == 32 || bits == 64;
}

bool heddle::dist::isStorable(Type element) {
  return element.isF64() || element.isF32() || element.isBF16() ||
         element.isF16() ||
         element.isSignlessInteger(8) || element.isSignlessInteger(32) ||
         element.isSignlessInteger(64);
}

int64_t heddle::dist::byteSize(Type type) {
  if (!hasByteSize(type))
    llvm::report_fatal_error("asked for the bytes of a type that has no size");
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.getNumElements() * byteSize(shaped.getElementType());
  return type.getIntOrFloatBitWidth() / 8;
}
