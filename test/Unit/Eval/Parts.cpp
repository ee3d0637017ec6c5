//===- Parts.cpp - Parts of an operation's inputs -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Parts.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::test;
using eval::Tensor;
using eval::TensorMap;

Tensor heddle::test::cut(const Tensor &whole, int64_t dim, int64_t first,
                         int64_t count) {
  SmallVector<int64_t> shape(whole.shape());
  int64_t size = shape[dim], inner = 1;
  shape[dim] = count;
  for (int64_t d = dim + 1; d < whole.rank(); ++d)
    inner *= shape[d];
  Tensor part(whole.kind(), shape);
  for (int64_t i = 0; i < part.numElements(); ++i) {
    int64_t at = first + i / inner % count;
    int64_t from = (i / inner / count * size + at) * inner + i % inner;
    if (at < size && eval::isFloat(whole.kind()))
      part.mutableFloats()[i] = whole.floats()[from];
    else if (at < size)
      part.mutableInts()[i] = whole.ints()[from];
  }
  return part;
}

Tensor heddle::test::cutSegments(const Tensor &whole,
                                 ArrayRef<int64_t> segments, int64_t parts,
                                 int64_t index) {
  int64_t dim = whole.rank() - 1, total = 0, width = 0;
  for (int64_t segment : segments)
    width += segment / parts;
  SmallVector<int64_t> shape(whole.shape());
  shape.back() = width;
  Tensor result(whole.kind(), shape);
  int64_t to = 0;
  for (int64_t segment : segments) {
    int64_t count = segment / parts;
    Tensor part = cut(whole, dim, total + index * count, count);
    for (int64_t i = 0; i < part.numElements(); ++i)
      result.mutableFloats()[i / count * width + to + i % count] =
          part.floats()[i];
    total += segment;
    to += count;
  }
  return result;
}

void heddle::test::expectEqual(const Tensor &actual, const Tensor &expected,
                               const std::string &what, double tolerance) {
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  for (int64_t i = 0; i < expected.numElements(); ++i)
    EXPECT_NEAR(actual.floats()[i], expected.floats()[i], tolerance)
        << what << ", element " << i;
}

TensorMap heddle::test::run(const std::string &arguments,
                            const std::string &body, const TensorMap &inputs) {
  CaseModule module = parseCase({"", arguments, body});
  TensorMap outputs;
  if (!module.operation)
    return outputs;
  auto ports = module.function.getInputsAttr().getAsRange<nn::PortAttr>();
  llvm::DenseMap<Value, std::string> nameOf;
  for (auto [argument, port] : llvm::zip(module.function.getArguments(), ports))
    nameOf[argument] = port.getKey().str();
  SmallVector<Tensor> operands, results;
  for (Value operand : module.operation->getOperands())
    operands.push_back(inputs.at(nameOf[operand]));
  EXPECT_TRUE(succeeded(cast<nn::ReferenceEvalOpInterface>(module.operation)
                            .evaluate(operands, results)));
  for (auto [index, result] : llvm::enumerate(results))
    outputs["r" + std::to_string(index)] = result;
  return outputs;
}

TensorMap heddle::test::inputsFor(const std::string &arguments,
                                  const std::string &body, int64_t limit) {
  CaseModule module = parseCase({"", arguments, body});
  return module.operation ? inputsOf(module.function, limit) : TensorMap();
}

std::string heddle::test::shapeText(ArrayRef<int64_t> shape,
                                    const std::string &type) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + type + ">";
}
