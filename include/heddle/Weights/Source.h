//===- Source.h - How a state is made of tensors of files -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A row of the table of weights: an expression over tensors of the weight
// files. Every element of the state is one of a tensor, so reading and writing
// are one table. No LLVM: dialects and the readers of files share it.
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
  std::string name; ///< Tensor: in the weight files.
  std::string type; ///< Tensor: as `F32`.
  /// Tensor: its shape. Permute: the dimension that each is. Reshape: the
  /// shape. Slice: dimension, first index, size. Concat, Stack: the dimension.
  std::vector<int64_t> numbers;
  std::vector<Source> parts; ///< What it is made of.
};

Source tensor(std::string name, std::vector<int64_t> shape,
              std::string type = "F32");
/// Of a matrix.
Source transpose(Source of);
Source permute(std::vector<int64_t> order, Source of);
Source reshape(std::vector<int64_t> shape, Source of);
/// Of a tensor, or of a slice of one.
Source slice(int64_t dim, int64_t first, int64_t size, Source of);
Source concat(int64_t dim, std::vector<Source> parts);
/// Along a new dimension.
Source stack(int64_t dim, std::vector<Source> parts);

/// Calls `visit` for every tensor, from left to right.
void forEachTensor(Source &source, const std::function<void(Source &)> &visit);

/// A source as the runtime reads and writes it.
struct Layout {
  std::vector<int64_t> shape;
  std::vector<plan::WeightSlice> pieces;
  /// Of each piece, the part of its tensor: first index and size of each
  /// dimension.
  std::vector<std::vector<std::pair<int64_t, int64_t>>> boxes;
};

/// False, with `error`, for an expression whose shapes do not fit.
bool layoutOf(const Source &source, Layout &layout, std::string &error);

/// Holds the rows of a table together: each element of a tensor is in one
/// state.
class Coverage {
public:
  /// False, with `error`, when an element of a tensor is in another state too,
  /// or the tensor has another shape there.
  bool add(const std::string &state, const Layout &layout, std::string &error);
  /// False, with `error` and the state that reads it, when some tensor is read
  /// in part.
  bool isWhole(std::string &state, std::string &error) const;

private:
  struct Use {
    std::string state;
    std::vector<int64_t> shape;
    std::vector<std::pair<int64_t, int64_t>> box;
  };
  std::map<std::string, std::vector<Use>> uses; ///< By tensor.
};

} // namespace heddle::weights

#endif // HEDDLE_WEIGHTS_SOURCE_H
