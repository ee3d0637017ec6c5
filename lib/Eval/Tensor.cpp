//===- Tensor.cpp - A tensor on the host ------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions between a tensor's elements and bytes in memory.
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/Tensor.h"

#include "heddle/runtime/io/Safetensors.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringSwitch.h"
#include <cstring>

using namespace mlir;

namespace heddle::eval {

bool isFloat(ElementKind kind) {
  return kind != ElementKind::I8 && kind != ElementKind::I32 &&
         kind != ElementKind::I64;
}

int64_t byteSize(ElementKind kind) {
  switch (kind) {
  case ElementKind::F64:
  case ElementKind::I64:
    return 8;
  case ElementKind::F32:
  case ElementKind::I32:
    return 4;
  case ElementKind::BF16:
  case ElementKind::F16:
    return 2;
  case ElementKind::I8:
    return 1;
  }
  llvm_unreachable("every kind has a size");
}

llvm::StringRef safetensorsName(ElementKind kind) {
  switch (kind) {
  case ElementKind::F64:
    return "F64";
  case ElementKind::F32:
    return "F32";
  case ElementKind::BF16:
    return "BF16";
  case ElementKind::F16:
    return "F16";
  case ElementKind::I8:
    return "I8";
  case ElementKind::I32:
    return "I32";
  case ElementKind::I64:
    return "I64";
  }
  llvm_unreachable("every kind has a name");
}

std::optional<ElementKind> parseElementKind(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<ElementKind>>(name)
      .Case("F64", ElementKind::F64)
      .Case("F32", ElementKind::F32)
      .Case("BF16", ElementKind::BF16)
      .Case("F16", ElementKind::F16)
      .Case("I8", ElementKind::I8)
      .Case("I32", ElementKind::I32)
      .Case("I64", ElementKind::I64)
      .Default(std::nullopt);
}

std::optional<ElementKind> kindOf(Type elementType) {
  if (elementType.isF64())
    return ElementKind::F64;
  if (elementType.isF32())
    return ElementKind::F32;
  if (elementType.isBF16())
    return ElementKind::BF16;
  if (elementType.isF16())
    return ElementKind::F16;
  if (elementType.isInteger(8))
    return ElementKind::I8;
  if (elementType.isInteger(32))
    return ElementKind::I32;
  if (elementType.isInteger(64) || elementType.isIndex())
    return ElementKind::I64;
  return std::nullopt;
}

double roundTo(ElementKind kind, double value) {
  switch (kind) {
  case ElementKind::F32:
    return static_cast<float>(value);
  case ElementKind::BF16:
    return io::bf16ToFloat(io::floatToBF16(static_cast<float>(value)));
  case ElementKind::F16:
    return io::f16ToFloat(io::floatToF16(static_cast<float>(value)));
  default:
    return value;
  }
}

static int64_t product(llvm::ArrayRef<int64_t> shape) {
  int64_t result = 1;
  for (int64_t dim : shape)
    result *= dim;
  return result;
}

Tensor::Tensor(ElementKind kind, llvm::ArrayRef<int64_t> shape)
    : elementKind(kind), dims(shape.begin(), shape.end()) {
  if (isFloat(kind))
    floatData = std::make_shared<std::vector<double>>(product(shape), 0.0);
  else
    intData = std::make_shared<std::vector<int64_t>>(product(shape), 0);
}

static llvm::ArrayRef<int64_t> shapeOf(Type type) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.getShape();
  return {};
}

Tensor::Tensor(Type type)
    : Tensor(*kindOf(getElementTypeOrSelf(type)), shapeOf(type)) {}

Tensor::Tensor(ElementKind kind, llvm::ArrayRef<int64_t> shape,
               std::vector<double> values)
    : elementKind(kind), dims(shape.begin(), shape.end()),
      floatData(std::make_shared<std::vector<double>>(std::move(values))) {
  assert(isFloat(kind) && product(shape) == (int64_t)floatData->size());
}

Tensor::Tensor(ElementKind kind, llvm::ArrayRef<int64_t> shape,
               std::vector<int64_t> values)
    : elementKind(kind), dims(shape.begin(), shape.end()),
      intData(std::make_shared<std::vector<int64_t>>(std::move(values))) {
  assert(!isFloat(kind) && product(shape) == (int64_t)intData->size());
}

Tensor Tensor::scalar(int64_t value) {
  return Tensor(ElementKind::I64, {}, std::vector<int64_t>{value});
}

template <typename T> static T readAs(const char *bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

static double readFloat(ElementKind kind, const char *bytes, int64_t index) {
  switch (kind) {
  case ElementKind::F64:
    return readAs<double>(bytes, index);
  case ElementKind::F32:
    return readAs<float>(bytes, index);
  case ElementKind::BF16:
    return io::bf16ToFloat(readAs<uint16_t>(bytes, index));
  default:
    return io::f16ToFloat(readAs<uint16_t>(bytes, index));
  }
}

static int64_t readInteger(ElementKind kind, const char *bytes, int64_t index) {
  switch (kind) {
  case ElementKind::I8:
    return readAs<int8_t>(bytes, index);
  case ElementKind::I32:
    return readAs<int32_t>(bytes, index);
  default:
    return readAs<int64_t>(bytes, index);
  }
}

Tensor Tensor::fromBytes(ElementKind kind, llvm::ArrayRef<int64_t> shape,
                         const void *bytes, int64_t leading) {
  Tensor result(kind, shape);
  const char *source = static_cast<const char *>(bytes);
  int64_t count = result.numElements();
  if (isFloat(kind)) {
    for (int64_t i = 0; i < count; ++i)
      (*result.floatData)[i] =
          readFloat(kind, source, result.memoryIndex(i, leading));
    return result;
  }
  for (int64_t i = 0; i < count; ++i)
    (*result.intData)[i] =
        readInteger(kind, source, result.memoryIndex(i, leading));
  return result;
}

int64_t Tensor::numElements() const { return product(dims); }

int64_t Tensor::rows() const {
  return dims.empty() ? 1 : product(llvm::ArrayRef(dims).drop_back());
}

llvm::ArrayRef<double> Tensor::floats() const {
  assert(floatData && "not a float tensor");
  return *floatData;
}

llvm::ArrayRef<int64_t> Tensor::ints() const {
  assert(intData && "not an integer tensor");
  return *intData;
}

llvm::MutableArrayRef<double> Tensor::mutableFloats() {
  assert(floatData && "not a float tensor");
  if (floatData.use_count() > 1)
    floatData = std::make_shared<std::vector<double>>(*floatData);
  return *floatData;
}

llvm::MutableArrayRef<int64_t> Tensor::mutableInts() {
  assert(intData && "not an integer tensor");
  if (intData.use_count() > 1)
    intData = std::make_shared<std::vector<int64_t>>(*intData);
  return *intData;
}

Tensor Tensor::convertTo(ElementKind kind) const {
  assert(isFloat(kind) == isFloat(elementKind));
  Tensor result = withKind(kind);
  if (isFloat(kind))
    for (double &value : result.mutableFloats())
      value = roundTo(kind, value);
  return result;
}

Tensor Tensor::withKind(ElementKind kind) const {
  assert(isFloat(kind) == isFloat(elementKind));
  Tensor result = *this;
  result.elementKind = kind;
  return result;
}

Tensor Tensor::reshaped(llvm::ArrayRef<int64_t> shape) const {
  assert(product(shape) == numElements());
  Tensor result = *this;
  result.dims.assign(shape.begin(), shape.end());
  return result;
}

Tensor Tensor::slice(int64_t first, int64_t count) const {
  assert(!dims.empty() && first + count <= dims.front());
  std::vector<int64_t> shape = dims;
  shape.front() = count;
  int64_t stride = product(llvm::ArrayRef(dims).drop_front());
  Tensor result(elementKind, shape);
  result.copyFrom(*this, first * stride, 0, count * stride);
  return result;
}

void Tensor::copyFrom(const Tensor &source, int64_t from, int64_t to,
                      int64_t count) {
  if (isFloat(elementKind))
    llvm::copy(source.floats().slice(from, count),
               mutableFloats().begin() + to);
  else
    llvm::copy(source.ints().slice(from, count), mutableInts().begin() + to);
}

template <typename T> static void writeAs(char *bytes, int64_t index, T value) {
  std::memcpy(bytes + index * sizeof(T), &value, sizeof(T));
}

static void writeFloat(ElementKind kind, char *bytes, int64_t index,
                       double value) {
  switch (kind) {
  case ElementKind::F64:
    return writeAs<double>(bytes, index, value);
  case ElementKind::F32:
    return writeAs<float>(bytes, index, static_cast<float>(value));
  case ElementKind::BF16:
    return writeAs<uint16_t>(bytes, index,
                             io::floatToBF16(static_cast<float>(value)));
  default:
    return writeAs<uint16_t>(bytes, index,
                             io::floatToF16(static_cast<float>(value)));
  }
}

void Tensor::toBytes(void *bytes, int64_t leading) const {
  char *target = static_cast<char *>(bytes);
  int64_t count = numElements();
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = memoryIndex(i, leading);
    if (isFloat(elementKind))
      writeFloat(elementKind, target, at, (*floatData)[i]);
    else if (elementKind == ElementKind::I8)
      writeAs<int8_t>(target, at, static_cast<int8_t>((*intData)[i]));
    else if (elementKind == ElementKind::I32)
      writeAs<int32_t>(target, at, static_cast<int32_t>((*intData)[i]));
    else
      writeAs<int64_t>(target, at, (*intData)[i]);
  }
}

} // namespace heddle::eval
