//===- SourceTest.cpp - States made of tensors of files -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Weights/Source.h"
#include "heddle/runtime/core/WeightSlices.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::weights;
using Kind = Source::Kind;
using Shape = std::vector<int64_t>;

namespace {

/// A tensor of what its elements are called: `name` and row-major index.
struct Array {
  Shape shape;
  std::vector<std::string> elements;
};

int64_t sizeOf(const Shape &shape) {
  int64_t size = 1;
  for (int64_t extent : shape)
    size *= extent;
  return size;
}

/// Calls `visit` with every index of a shape, in row-major order.
template <typename Visit> void forEachIndex(const Shape &shape, Visit visit) {
  Shape index(shape.size());
  for (int64_t i = 0; i < sizeOf(shape); ++i) {
    int64_t rest = i;
    for (size_t dim = shape.size(); dim-- > 0; rest /= shape[dim])
      index[dim] = rest % shape[dim];
    visit(index);
  }
}

const std::string &at(const Array &array, const Shape &index) {
  int64_t flat = 0;
  for (size_t dim = 0; dim < index.size(); ++dim)
    flat = flat * array.shape[dim] + index[dim];
  return array.elements[flat];
}

/// What an expression means, element by element.
Array meaning(const Source &source) {
  const Shape &numbers = source.numbers;
  std::vector<Array> parts;
  for (const Source &part : source.parts)
    parts.push_back(meaning(part));
  Array result;
  auto make = [&](auto element) {
    forEachIndex(result.shape, [&](const Shape &index) {
      result.elements.push_back(element(index));
    });
  };
  switch (source.kind) {
  case Kind::Tensor:
    result.shape = numbers;
    make([&](const Shape &) {
      return source.name + std::to_string(result.elements.size());
    });
    break;
  case Kind::Reshape:
    result = {numbers, parts[0].elements};
    break;
  case Kind::Permute:
    for (int64_t dim : numbers)
      result.shape.push_back(parts[0].shape[dim]);
    make([&](const Shape &index) {
      Shape from(index.size());
      for (size_t i = 0; i < index.size(); ++i)
        from[numbers[i]] = index[i];
      return at(parts[0], from);
    });
    break;
  case Kind::Slice:
    result.shape = parts[0].shape;
    result.shape[numbers[0]] = numbers[2];
    make([&](Shape index) {
      index[numbers[0]] += numbers[1];
      return at(parts[0], index);
    });
    break;
  case Kind::Concat:
  case Kind::Stack:
    for (Array &part : parts) {
      if (source.kind == Kind::Stack)
        part.shape.insert(part.shape.begin() + numbers[0], 1);
      if (result.shape.empty()) {
        result.shape = part.shape;
        result.shape[numbers[0]] = 0;
      }
      result.shape[numbers[0]] += part.shape[numbers[0]];
    }
    make([&](Shape index) {
      for (const Array &part : parts) {
        if (index[numbers[0]] < part.shape[numbers[0]])
          return at(part, index);
        index[numbers[0]] -= part.shape[numbers[0]];
      }
      return std::string("nowhere");
    });
    break;
  }
  return result;
}

/// Reads the state piece by piece, from every first element and in every
/// length: always what the expression means.
void expectMeaning(const Source &source) {
  Layout layout;
  std::string error;
  ASSERT_TRUE(layoutOf(source, layout, error)) << error;
  Array wanted = meaning(source);
  EXPECT_EQ(layout.shape, wanted.shape);
  rt::checkWeightSlices(layout.pieces);
  int64_t size = sizeOf(layout.shape);
  for (int64_t first = 0; first < size; ++first)
    for (int64_t count : {int64_t(1), (size - first + 1) / 2, size - first}) {
      int64_t next = first;
      rt::forEachRun(
          layout.pieces, first, count, [&](const rt::WeightRange &run) {
            EXPECT_EQ(run.state, next);
            for (int64_t i = 0; i < run.count; ++i)
              EXPECT_EQ(run.piece->tensor +
                            std::to_string(run.tensor + i * run.stride),
                        wanted.elements[next++]);
          });
      EXPECT_EQ(next, first + count);
    }
}

std::string errorOf(const Source &source) {
  Layout layout;
  std::string error;
  EXPECT_FALSE(layoutOf(source, layout, error));
  return error;
}

} // namespace

TEST(Source, EachExpressionMeansWhatItSays) {
  Source a = tensor("a", {3, 4}), b = tensor("b", {3, 2}),
         c = tensor("c", {4, 3});
  expectMeaning(a);
  expectMeaning(transpose(a));
  expectMeaning(permute({2, 0, 1}, tensor("d", {2, 3, 4})));
  expectMeaning(permute({1, 2, 0}, tensor("d", {2, 3, 4})));
  expectMeaning(reshape({2, 6}, a));
  expectMeaning(reshape({12}, transpose(a)));
  expectMeaning(slice(0, 1, 2, a));
  expectMeaning(slice(1, 1, 2, slice(0, 1, 2, a)));
  expectMeaning(concat(1, {a, b}));
  expectMeaning(concat(0, {a, transpose(c), tensor("e", {2, 4})}));
  for (int64_t dim : {0, 1, 2})
    expectMeaning(stack(dim, {a, transpose(c)}));
  expectMeaning(tensor("s", {}));
  expectMeaning(stack(0, {tensor("s", {}), tensor("t", {})}));
}

TEST(Source, ExpressionsNest) {
  // q, k and v of each head side by side become three, as GPT-NeoX's do.
  Source heads = reshape({2, 3, 4, 5}, tensor("qkv", {24, 5}));
  expectMeaning(reshape({24, 5}, heads));
  expectMeaning(permute({1, 0, 2, 3}, heads));
  // Interleaved rotary pairs become halves.
  Source pairs = reshape({2, 3, 2, 5}, tensor("q", {12, 5}));
  expectMeaning(transpose(reshape({12, 5}, pairs)));
  expectMeaning(permute({0, 2, 1, 3}, pairs));
  expectMeaning(concat(1, {transpose(tensor("q", {4, 6})),
                           transpose(slice(0, 0, 2, tensor("kv", {4, 6}))),
                           transpose(slice(0, 2, 2, tensor("kv", {4, 6})))}));
  expectMeaning(stack(0, {concat(1, {tensor("a", {2, 3}), tensor("b", {2, 1})}),
                          transpose(tensor("c", {4, 2}))}));
}

TEST(Source, WhatDoesNotFitIsNamed) {
  Source a = tensor("a", {3, 4});
  EXPECT_EQ(errorOf(concat(0, {a, tensor("b", {3, 3})})),
            "[3, 4] and [3, 3] do not fit together along dimension 0");
  EXPECT_EQ(errorOf(reshape({5, 2}, a)), "[3, 4] cannot be reshaped to [5, 2]");
  EXPECT_EQ(errorOf(reshape({5}, transpose(a))),
            "[4, 3] cannot be reshaped to [5]");
  EXPECT_EQ(errorOf(slice(1, 3, 2, a)), "a slice of 2 from 3 is not in 4");
  EXPECT_EQ(errorOf(slice(2, 0, 1, a)), "there is no dimension 2 of 2");
  EXPECT_EQ(errorOf(permute({0, 0}, a)),
            "[0, 0] is no order of the dimensions of [3, 4]");
  EXPECT_NE(errorOf(slice(0, 0, 1, transpose(a))).find("slice is one of"),
            std::string::npos);
  EXPECT_NE(errorOf(reshape({24}, concat(0, {a, a}))).find("one tensor"),
            std::string::npos);
}

TEST(Source, EachElementIsInOneState) {
  auto layout = [](const Source &source) {
    Layout made;
    std::string error;
    EXPECT_TRUE(layoutOf(source, made, error)) << error;
    return made;
  };
  Source a = tensor("a", {3, 4});
  Coverage coverage;
  std::string state, error;
  EXPECT_TRUE(coverage.add("x", layout(slice(0, 0, 2, a)), error));
  EXPECT_FALSE(coverage.isWhole(state, error));
  EXPECT_EQ(error,
            "of the 12 elements of the tensor \"a\" 8 are in some state");
  EXPECT_EQ(state, "x");
  error.clear();
  EXPECT_FALSE(coverage.add("y", layout(slice(0, 1, 2, a)), error));
  EXPECT_EQ(error, "the tensor \"a\" is in x too");
  error.clear();
  EXPECT_FALSE(coverage.add("y", layout(tensor("a", {12})), error));
  EXPECT_EQ(error,
            "the tensor \"a\" has the shape [12] here, and [3, 4] in the "
            "source of x");
  error.clear();
  EXPECT_TRUE(coverage.add("y", layout(slice(0, 2, 1, a)), error));
  EXPECT_TRUE(coverage.isWhole(state, error));
  EXPECT_FALSE(coverage.add(
      "z", layout(stack(0, {tensor("b", {2}), tensor("b", {2})})), error));
  EXPECT_EQ(error, "the tensor \"b\" is in z twice");
}
