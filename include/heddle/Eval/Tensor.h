//===- Tensor.h - A tensor on the host --------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensors, which are the values of the reference interpreter.
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

/// Element types of the IR and of safetensors files.
enum class ElementKind { F64, F32, BF16, F16, I8, I32, I64 };

/// Whether a tensor holds elements of this kind as doubles. Otherwise it holds
/// them as 64-bit integers.
bool isFloat(ElementKind kind);
/// Bytes of one element in memory.
int64_t byteSize(ElementKind kind);
/// The name that safetensors files use: F32, BF16, ...
llvm::StringRef safetensorsName(ElementKind kind);
/// The kind that safetensors files call `name`; nullopt if it is unknown.
std::optional<ElementKind> parseElementKind(llvm::StringRef name);
/// The kind of an MLIR element type. Returns nullopt for types that states,
/// inputs and outputs of programs cannot have.
std::optional<ElementKind> kindOf(mlir::Type elementType);

/// Rounds a value to the kind, to nearest with ties to even.
double roundTo(ElementKind kind, double value);

/// A dense tensor in row-major order. Elements are held as doubles or int64,
/// whatever their kind. Copies share their elements until one is written.
class Tensor {
public:
  Tensor() = default;
  /// A tensor of zeros.
  Tensor(ElementKind kind, llvm::ArrayRef<int64_t> shape);
  /// A tensor of zeros with the shape and element type of `type`. `kindOf` must
  /// know this element type. For `index` it is a tensor of rank 0.
  explicit Tensor(mlir::Type type);
  /// A float tensor with the elements `values`.
  Tensor(ElementKind kind, llvm::ArrayRef<int64_t> shape,
         std::vector<double> values);
  /// An integer tensor with the elements `values`.
  Tensor(ElementKind kind, llvm::ArrayRef<int64_t> shape,
         std::vector<int64_t> values);
  /// An integer tensor of rank 0.
  static Tensor scalar(int64_t value);
  /// Reads a tensor from memory. In memory, the elements have the format of
  /// `kind`. `leading` is the leading dimension in elements; 0: rows have no
  /// padding.
  static Tensor fromBytes(ElementKind kind, llvm::ArrayRef<int64_t> shape,
                          const void *bytes, int64_t leading = 0);

  ElementKind kind() const { return elementKind; }
  llvm::ArrayRef<int64_t> shape() const { return dims; }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t numElements() const;
  int64_t numBytes() const { return numElements() * byteSize(elementKind); }
  /// The size of the last dimension; 1 for rank 0.
  int64_t columns() const { return dims.empty() ? 1 : dims.back(); }
  /// The product of all dimensions except the last.
  int64_t rows() const;

  llvm::ArrayRef<double> floats() const;
  llvm::ArrayRef<int64_t> ints() const;
  llvm::MutableArrayRef<double> mutableFloats();
  llvm::MutableArrayRef<int64_t> mutableInts();

  /// Rounds every element to `kind`. Both kinds are floats, or both integers.
  Tensor convertTo(ElementKind kind) const;
  /// A tensor with the same elements, which are not rounded, and another kind.
  Tensor withKind(ElementKind kind) const;
  /// The same elements with another shape of equal size.
  Tensor reshaped(llvm::ArrayRef<int64_t> shape) const;
  /// Elements [first, first + count) of the outermost dimension.
  Tensor slice(int64_t first, int64_t count) const;
  /// Copies `count` elements of `source`, from index `from` on, to index `to`.
  /// Both tensors hold floats, or both integers.
  void copyFrom(const Tensor &source, int64_t from, int64_t to, int64_t count);
  /// Writes the elements to memory in the format of their kind. `leading` is
  /// the leading dimension in elements; 0: rows have no padding. Padding is not
  /// written.
  void toBytes(void *bytes, int64_t leading = 0) const;

private:
  /// The index of an element in memory with leading dimension `leading`.
  int64_t memoryIndex(int64_t element, int64_t leading) const {
    return leading ? element / columns() * leading + element % columns()
                   : element;
  }

  ElementKind elementKind = ElementKind::F32;
  std::vector<int64_t> dims;
  std::shared_ptr<std::vector<double>> floatData;
  std::shared_ptr<std::vector<int64_t>> intData;
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_TENSOR_H
