//===- ByteSize.cpp - Bytes of elements and tensors -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/ByteSize.h"
#include "dialects/Dist/ComputeType.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

bool heddle::dist::hasByteSize(Type type) {
  if (auto memory = dyn_cast<MemRefType>(type);
      memory && !leadingDimension(memory))
    return false;
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.hasStaticShape() && hasByteSize(shaped.getElementType());
  if (!type.isIntOrFloat())
    return false;
  unsigned bits = type.getIntOrFloatBitWidth();
  return bits == 8 || bits == 16 || bits == 32 || bits == 64;
}

bool heddle::dist::isStorable(Type element) {
  return findComputeType(element) || element.isF64() ||
         element.isSignlessInteger(8) || element.isSignlessInteger(32) ||
         element.isSignlessInteger(64);
}

/// The product of all dimensions but the last.
static int64_t rowsOf(ArrayRef<int64_t> shape) {
  int64_t rows = 1;
  for (int64_t size : shape.drop_back())
    rows *= size;
  return rows;
}

MemRefType heddle::dist::memoryOf(RankedTensorType tensor, int64_t leading) {
  ArrayRef<int64_t> shape = tensor.getShape();
  if (leading == 0)
    return MemRefType::get(shape, tensor.getElementType());
  SmallVector<int64_t> strides(shape.size(), 1);
  int64_t stride = leading;
  for (size_t dim = shape.size() - 1; dim-- > 0; stride *= shape[dim])
    strides[dim] = stride;
  return MemRefType::get(
      shape, tensor.getElementType(),
      StridedLayoutAttr::get(tensor.getContext(), /*offset=*/0, strides));
}

std::optional<int64_t> heddle::dist::leadingDimension(MemRefType type) {
  if (!type.hasStaticShape())
    return std::nullopt;
  ArrayRef<int64_t> shape = type.getShape();
  if (type.getLayout().isIdentity())
    return shape.empty() ? 1 : shape.back();
  auto layout = dyn_cast<StridedLayoutAttr>(type.getLayout());
  if (!layout || layout.getOffset() != 0 || shape.size() < 2)
    return std::nullopt;
  ArrayRef<int64_t> strides = layout.getStrides();
  int64_t leading = strides[shape.size() - 2], stride = leading;
  if (strides.back() != 1 || leading < shape.back())
    return std::nullopt;
  for (size_t dim = shape.size() - 1; dim-- > 0;)
    if (strides[dim] != stride || llvm::MulOverflow(stride, shape[dim], stride))
      return std::nullopt;
  return leading;
}

int64_t heddle::dist::byteSize(Type type) {
  if (!hasByteSize(type))
    llvm::report_fatal_error("asked for the bytes of a type that has no size");
  if (auto memory = dyn_cast<MemRefType>(type); memory && memory.getRank() > 0)
    return rowsOf(memory.getShape()) * *leadingDimension(memory) *
           byteSize(memory.getElementType());
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.getNumElements() * byteSize(shaped.getElementType());
  return type.getIntOrFloatBitWidth() / 8;
}
