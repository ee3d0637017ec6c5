//===- Source.h - Weights as expressions over tensors -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expressions over tensors of the weight files. A model family describes by
// such an expression how each state is read, for example as a transposed slice
// of a fused tensor. Every element of a state is one element of a tensor, so
// the same expression serves for reading and for writing. This header includes
// no LLVM headers, because the dialects share it with the readers of weight
// files.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_WEIGHTS_SOURCE_H
#define HEDDLE_WEIGHTS_SOURCE_H

#include "heddle/PlanFormat/WeightSlice.h"
#include <functional>
#include <map>

namespace heddle::weights {

struct Source {
  enum class Kind { Tensor, Permute, Reshape, Slice, Concat, Stack };
  Kind kind = Kind::Tensor;
  std::string name; ///< Tensor: its name in the weight files.
  std::string type; ///< Tensor: its type, such as `F32`.
  /// The integers of the expression. For a Tensor they are its shape, for
  /// Permute the old dimension of each new dimension, for Reshape the new
  /// shape, for Slice the dimension, the first index and the size, for Concat
  /// and Stack the dimension.
  std::vector<int64_t> numbers;
  std::vector<Source> parts; ///< The operands.
};

Source tensor(std::string name, std::vector<int64_t> shape,
              std::string type = "F32");
/// The transpose of a matrix.
Source transpose(Source of);
Source permute(std::vector<int64_t> order, Source of);
Source reshape(std::vector<int64_t> shape, Source of);
/// Elements [first, first + size) of dimension `dim`. `of` must be a tensor or
/// a slice of one.
Source slice(int64_t dim, int64_t first, int64_t size, Source of);
Source concat(int64_t dim, std::vector<Source> parts);
/// Joins the operands along a new dimension.
Source stack(int64_t dim, std::vector<Source> parts);

/// Calls `visit` for every tensor in the expression, from left to right.
void forEachTensor(Source &source, const std::function<void(Source &)> &visit);

/// The result of an expression as a list of strided copies, with which the
/// runtime reads and writes weight files.
struct Layout {
  std::vector<int64_t> shape;
  std::vector<plan::WeightSlice> pieces;
  /// For each strided copy in `pieces`, the range of the tensor that it reads:
  /// first index and size in each dimension.
  std::vector<std::vector<std::pair<int64_t, int64_t>>> boxes;
};

/// Computes the layout of an expression. Returns false and sets `error` if
/// shapes do not fit.
bool layoutOf(const Source &source, Layout &layout, std::string &error);

/// Checks that the states of a model together read each element of each tensor
/// in the weight files exactly once.
class Coverage {
public:
  /// Adds a state whose elements are read from the weight files by `layout`.
  /// Returns false and sets `error` if one of these elements is read twice,
  /// or if another state reads one of these tensors with another shape.
  bool add(const std::string &state, const Layout &layout, std::string &error);
  /// Whether every tensor that states read is read completely. If not, sets
  /// `error`, and sets `state` to a state that reads the incomplete tensor.
  bool isWhole(std::string &state, std::string &error) const;

private:
  struct Use {
    std::string state;
    std::vector<int64_t> shape;
    std::vector<std::pair<int64_t, int64_t>> box;
  };
  std::map<std::string, std::vector<Use>> uses; ///< By the tensor's name.
};

} // namespace heddle::weights

#endif // HEDDLE_WEIGHTS_SOURCE_H
