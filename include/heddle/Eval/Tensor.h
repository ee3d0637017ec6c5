//===- Tensor.h - A tensor on the host --------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_TENSOR_H
#define HEDDLE_EVAL_TENSOR_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace heddle::eval {

/// Element types, as the IR and safetensors files have them.
enum class ElementKind { F64, F32, BF16, F16, I8, I32, I64 };

/// Whether the kind is held as doubles (else as 64-bit integers).
bool isFloat(ElementKind kind);
/// Bytes of one element in memory.
int64_t byteSize(ElementKind kind);
/// The name that safetensors files use: F32, BF16, ...
llvm::StringRef safetensorsName(ElementKind kind);
/// The kind of that name, if it is one of ours.
std::optional<ElementKind> parseElementKind(llvm::StringRef name);
/// The kind of an MLIR element type; none for types that no port or state has.
std::optional<ElementKind> kindOf(mlir::Type elementType);

/// The nearest value of the kind, ties to even.
double roundTo(ElementKind kind, double value);

/// A dense tensor in row-major order. Floats are held as doubles, whatever
/// their kind; integers as int64. Copies share their elements until one of them
/// is written.
class Tensor {
public:
  Tensor() = default;
  /// A tensor of zeros.
  Tensor(ElementKind kind, llvm::ArrayRef<int64_t> shape);
  /// A tensor of zeros of a static type with an element type that `kindOf`
  /// knows, or a rank-0 tensor for `index`.
  explicit Tensor(mlir::Type type);
  /// A float tensor of these elements.
  Tensor(ElementKind kind, llvm::ArrayRef<int64_t> shape,
         std::vector<double> values);
  /// An integer tensor of these elements.
  Tensor(ElementKind kind, llvm::ArrayRef<int64_t> shape,
         std::vector<int64_t> values);
  /// A rank-0 integer.
  static Tensor scalar(int64_t value);
  /// A tensor read from memory that holds its elements in the kind's format.
  /// Rows begin `pitch` elements apart; 0: without gaps.
  static Tensor fromBytes(ElementKind kind, llvm::ArrayRef<int64_t> shape,
                          const void *bytes, int64_t pitch = 0);

  ElementKind kind() const { return elementKind; }
  llvm::ArrayRef<int64_t> shape() const { return dims; }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t numElements() const;
  int64_t numBytes() const { return numElements() * byteSize(elementKind); }
  /// The size of the last dimension; 1 for rank 0.
  int64_t columns() const { return dims.empty() ? 1 : dims.back(); }
  /// The product of all other dimensions.
  int64_t rows() const;

  llvm::ArrayRef<double> floats() const;
  llvm::ArrayRef<int64_t> ints() const;
  llvm::MutableArrayRef<double> mutableFloats();
  llvm::MutableArrayRef<int64_t> mutableInts();

  /// The tensor with every element rounded to `kind`, and of that kind; between
  /// floats and between integers only.
  Tensor convertTo(ElementKind kind) const;
  /// The same elements under another kind, without rounding.
  Tensor withKind(ElementKind kind) const;
  /// The same elements in another shape of equal size.
  Tensor reshaped(llvm::ArrayRef<int64_t> shape) const;
  /// Elements [first, first + count) of the outermost dimension.
  Tensor slice(int64_t first, int64_t count) const;
  /// Makes elements [to, to + count) those of `source` from `from` on; either
  /// both hold floats or none does.
  void copyFrom(const Tensor &source, int64_t from, int64_t to, int64_t count);
  /// Writes the elements in the format of their kind, rows `pitch` elements
  /// apart, and nothing between them; 0: without gaps.
  void toBytes(void *bytes, int64_t pitch = 0) const;

private:
  /// Where an element stands in memory whose rows begin `pitch` apart.
  int64_t placeOf(int64_t element, int64_t pitch) const {
    return pitch ? element / columns() * pitch + element % columns() : element;
  }

  ElementKind elementKind = ElementKind::F32;
  std::vector<int64_t> dims;
  std::shared_ptr<std::vector<double>> floatData;
  std::shared_ptr<std::vector<int64_t>> intData;
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_TENSOR_H
