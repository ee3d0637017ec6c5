//===- PortBatch.cpp - Ports of programs that see a part of the batch *- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/PortBatch.h"

namespace heddle::eval {

Tensor concatenate(const Tensor &first, const Tensor &second) {
  std::vector<int64_t> shape = first.shape().vec();
  shape.front() += second.shape().front();
  Tensor result(first.kind(), shape);
  if (isFloat(first.kind())) {
    auto *next = llvm::copy(first.floats(), result.mutableFloats().begin());
    llvm::copy(second.floats(), next);
  } else {
    auto *next = llvm::copy(first.ints(), result.mutableInts().begin());
    llvm::copy(second.ints(), next);
  }
  return result;
}

Tensor meanOf(const Tensor &tensor) {
  double sum = 0;
  for (double value : tensor.floats())
    sum += value;
  return Tensor(tensor.kind(), {},
                std::vector<double>{sum / tensor.numElements()});
}

std::optional<Tensor> partOfInput(const Tensor &value,
                                  llvm::ArrayRef<int64_t> shape, int64_t part,
                                  int64_t parts) {
  int64_t wanted = 1;
  for (int64_t dim : shape)
    wanted *= dim;
  if (value.numElements() == wanted)
    return value.reshaped(shape);
  if (value.numElements() != wanted * parts)
    return std::nullopt;
  return value.reshaped({parts, wanted}).slice(part, 1).reshaped(shape);
}

void addOutput(const std::string &name, const Tensor &value, int64_t parts,
               TensorMap &outputs) {
  auto [position, isNew] = outputs.try_emplace(name, value);
  Tensor &sum = position->second;
  if (value.rank() > 0) {
    if (!isNew)
      sum = concatenate(sum, value);
    return;
  }
  double before = isNew ? 0 : sum.floats().front();
  sum.mutableFloats().front() = before + value.floats().front() / parts;
}

std::string portOfKept(llvm::StringRef path) {
  return path == "logits" ? "logits" : ("value." + path).str();
}

} // namespace heddle::eval
