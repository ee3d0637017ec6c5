//===- Source.cpp - Weights as expressions over tensors -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Weights/Source.h"
#include <algorithm>

using namespace heddle;
using namespace heddle::weights;
using Kind = Source::Kind;
using Box = std::vector<std::pair<int64_t, int64_t>>;

Source weights::tensor(std::string name, std::vector<int64_t> shape,
                       std::string type) {
  return {Kind::Tensor, std::move(name), std::move(type), std::move(shape), {}};
}
Source weights::transpose(Source of) { return permute({1, 0}, std::move(of)); }
Source weights::permute(std::vector<int64_t> order, Source of) {
  return {Kind::Permute, "", "", std::move(order), {std::move(of)}};
}
Source weights::reshape(std::vector<int64_t> shape, Source of) {
  return {Kind::Reshape, "", "", std::move(shape), {std::move(of)}};
}
Source weights::slice(int64_t dim, int64_t first, int64_t size, Source of) {
  return {Kind::Slice, "", "", {dim, first, size}, {std::move(of)}};
}
Source weights::concat(int64_t dim, std::vector<Source> parts) {
  return {Kind::Concat, "", "", {dim}, std::move(parts)};
}
Source weights::stack(int64_t dim, std::vector<Source> parts) {
  return {Kind::Stack, "", "", {dim}, std::move(parts)};
}

void weights::forEachTensor(Source &source,
                            const std::function<void(Source &)> &visit) {
  if (source.kind == Kind::Tensor)
    visit(source);
  for (Source &part : source.parts)
    forEachTensor(part, visit);
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

namespace {

std::string textOf(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// One loop of a loop nest that visits elements of a tensor. The stride is in
/// elements.
struct Step {
  int64_t extent, stride;
};

/// A block of a value (the result of an expression over tensors): the elements
/// of the value that come from one tensor.
struct TensorBlock {
  std::string tensor;
  std::vector<int64_t> shape;
  int64_t first = 0; ///< The first element in the tensor.
  Box box;           ///< The range of indices in the tensor.
  /// One dimension of the block. `begin` is the index in the value, along this
  /// dimension, at which the block begins. `steps` are the loops over the
  /// tensor that visit the block's elements along the dimension, outermost
  /// first.
  struct Dimension {
    int64_t begin = 0;
    std::vector<Step> steps;
    int64_t extent() const {
      int64_t all = 1;
      for (const Step &step : steps)
        all *= step.extent;
      return all;
    }
  };
  std::vector<Dimension> dimensions;
};

struct ValueOf {
  std::vector<int64_t> shape;
  std::vector<TensorBlock> parts;
};

/// Evaluates an expression over tensors. `error` is not empty when shapes do
/// not fit.
class Evaluator {
public:
  ValueOf evaluate(const Source &source);
  std::string error;

private:
  ValueOf tensor(const Source &source);
  ValueOf permute(const Source &source);
  ValueOf reshape(const Source &source);
  ValueOf slice(const Source &source);
  ValueOf join(const Source &source, bool isNew);
  ValueOf fail(const std::string &text) {
    if (error.empty())
      error = text;
    return {};
  }
  bool isDim(int64_t dim, size_t rank) {
    if (dim >= 0 && dim < int64_t(rank))
      return true;
    fail("there is no dimension " + std::to_string(dim) + " of " +
         std::to_string(rank));
    return false;
  }
};

} // namespace

ValueOf Evaluator::tensor(const Source &source) {
  TensorBlock part;
  part.tensor = source.name;
  part.shape = source.numbers;
  part.dimensions.resize(part.shape.size());
  int64_t stride = 1;
  for (size_t i = part.shape.size(); i-- > 0;) {
    int64_t extent = part.shape[i];
    if (extent < 1)
      return fail("\"" + source.name + "\" has a dimension of " +
                  std::to_string(extent));
    part.dimensions[i].steps = {{extent, stride}};
    part.box.insert(part.box.begin(), {0, extent});
    stride *= extent;
  }
  return {part.shape, {part}};
}

ValueOf Evaluator::permute(const Source &source) {
  ValueOf of = evaluate(source.parts.front());
  std::vector<int64_t> sorted = source.numbers;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < of.shape.size() || i < sorted.size(); ++i)
    if (of.shape.size() != sorted.size() || sorted[i] != int64_t(i))
      return fail(textOf(source.numbers) +
                  " is no order of the dimensions of " + textOf(of.shape));
  ValueOf result = of;
  for (size_t i = 0; i < sorted.size(); ++i) {
    size_t from = source.numbers[i];
    result.shape[i] = of.shape[from];
    for (size_t part = 0; part < of.parts.size(); ++part)
      result.parts[part].dimensions[i] = of.parts[part].dimensions[from];
  }
  return result;
}

ValueOf Evaluator::slice(const Source &source) {
  const Source &inner = source.parts.front();
  int64_t dim = source.numbers[0], first = source.numbers[1],
          size = source.numbers[2];
  if (inner.kind != Kind::Tensor && inner.kind != Kind::Slice)
    return fail("a slice is one of a tensor of the files, or of such a slice");
  ValueOf of = evaluate(inner);
  if (!error.empty() || !isDim(dim, of.shape.size()))
    return {};
  if (first < 0 || size < 1 || first + size > of.shape[dim])
    return fail("a slice of " + std::to_string(size) + " from " +
                std::to_string(first) + " is not in " +
                std::to_string(of.shape[dim]));
  TensorBlock &part = of.parts.front();
  Step &step = part.dimensions[dim].steps.front();
  part.first += first * step.stride;
  part.box[dim].first += first;
  part.box[dim].second = step.extent = of.shape[dim] = size;
  return of;
}

/// Gives a value a new shape. A value is read by a loop nest over its tensor,
/// with loops for each dimension of the value. Joins the loops of all old
/// dimensions, and divides them into loops for the new dimensions.
ValueOf Evaluator::reshape(const Source &source) {
  ValueOf of = evaluate(source.parts.front());
  if (!error.empty())
    return {};
  if (of.parts.size() != 1)
    return fail("only what comes from one tensor can be reshaped");
  std::vector<Step> steps;
  for (const TensorBlock::Dimension &dimension : of.parts[0].dimensions)
    for (const Step &step : dimension.steps) {
      if (step.extent == 1)
        continue;
      if (!steps.empty() && steps.back().stride == step.extent * step.stride)
        steps.back() = {steps.back().extent * step.extent, step.stride};
      else
        steps.push_back(step);
    }
  // The loops were collected from the innermost outwards.
  std::reverse(steps.begin(), steps.end());
  TensorBlock part = of.parts[0];
  part.dimensions.clear();
  for (int64_t extent : source.numbers) {
    TensorBlock::Dimension dimension;
    int64_t left = extent;
    while (left > 1 && !steps.empty()) {
      Step &step = steps.back();
      int64_t taken = std::min(left, step.extent);
      if (left % taken != 0 || step.extent % taken != 0)
        break;
      int64_t rest = step.extent / taken;
      dimension.steps.push_back({taken, step.stride * rest});
      left /= taken;
      step.extent = rest;
      if (rest == 1)
        steps.pop_back();
    }
    if (left != 1)
      return fail(textOf(of.shape) + " cannot be reshaped to " +
                  textOf(source.numbers));
    part.dimensions.push_back(std::move(dimension));
  }
  if (!steps.empty())
    return fail(textOf(of.shape) + " cannot be reshaped to " +
                textOf(source.numbers));
  return {source.numbers, {part}};
}

ValueOf Evaluator::join(const Source &source, bool isNew) {
  int64_t dim = source.numbers[0];
  ValueOf result;
  for (const Source &each : source.parts) {
    ValueOf of = evaluate(each);
    if (!error.empty() || !isDim(dim, of.shape.size() + isNew))
      return {};
    if (isNew) {
      of.shape.insert(of.shape.begin() + dim, 1);
      for (TensorBlock &part : of.parts)
        part.dimensions.insert(part.dimensions.begin() + dim,
                               TensorBlock::Dimension());
    }
    int64_t before = result.shape.empty() ? 0 : result.shape[dim];
    std::vector<int64_t> wanted = of.shape, shape = result.shape;
    if (!shape.empty()) {
      shape[dim] = wanted[dim] = 0;
      if (shape != wanted)
        return fail(textOf(result.shape) + " and " + textOf(of.shape) +
                    " do not fit together along dimension " +
                    std::to_string(dim));
    }
    int64_t grown = before + of.shape[dim];
    if (result.shape.empty())
      result.shape = of.shape;
    result.shape[dim] = grown;
    for (TensorBlock &part : of.parts) {
      part.dimensions[dim].begin += before;
      result.parts.push_back(std::move(part));
    }
  }
  return result;
}

ValueOf Evaluator::evaluate(const Source &source) {
  switch (source.kind) {
  case Kind::Tensor:
    return tensor(source);
  case Kind::Permute:
    return permute(source);
  case Kind::Reshape:
    return reshape(source);
  case Kind::Slice:
    return slice(source);
  case Kind::Concat:
    return join(source, /*isNew=*/false);
  case Kind::Stack:
    return join(source, /*isNew=*/true);
  }
  return {};
}

/// Merges adjacent loops of the nest that copies a state's elements from a
/// tensor, so that fewer and longer loops remain. Two loops become one if an
/// outer step continues where the inner loop ends, both in the state and in the
/// tensor.
static std::vector<plan::WeightSlice::Loop>
merged(const std::vector<plan::WeightSlice::Loop> &loops) {
  std::vector<plan::WeightSlice::Loop> result;
  for (const plan::WeightSlice::Loop &loop : loops) {
    if (loop.extent == 1)
      continue;
    if (!result.empty() && result.back().state == loop.extent * loop.state &&
        result.back().tensor == loop.extent * loop.tensor)
      result.back() = {result.back().extent * loop.extent, loop.state,
                       loop.tensor};
    else
      result.push_back(loop);
  }
  return result;
}

bool weights::layoutOf(const Source &source, Layout &layout,
                       std::string &error) {
  Evaluator evaluator;
  ValueOf value = evaluator.evaluate(source);
  error = evaluator.error;
  if (!error.empty())
    return false;
  layout = {};
  layout.shape = value.shape;
  for (const TensorBlock &part : value.parts) {
    plan::WeightSlice piece;
    piece.tensor = part.tensor;
    piece.shape = part.shape;
    piece.first = part.first;
    std::vector<plan::WeightSlice::Loop> loops;
    int64_t stride = 1;
    for (size_t dim = value.shape.size(); dim-- > 0;) {
      const TensorBlock::Dimension &dimension = part.dimensions[dim];
      piece.state += dimension.begin * stride;
      int64_t inner = stride;
      for (size_t i = dimension.steps.size(); i-- > 0;) {
        const Step &step = dimension.steps[i];
        loops.insert(loops.begin(), {step.extent, inner, step.stride});
        inner *= step.extent;
      }
      stride *= value.shape[dim];
    }
    piece.loops = merged(loops);
    layout.pieces.push_back(std::move(piece));
    layout.boxes.push_back(part.box);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Coverage
//===----------------------------------------------------------------------===//

static bool overlap(const Box &a, const Box &b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].first >= b[i].first + b[i].second ||
        b[i].first >= a[i].first + a[i].second)
      return false;
  return true;
}

bool Coverage::add(const std::string &state, const Layout &layout,
                   std::string &error) {
  for (size_t i = 0; i < layout.pieces.size(); ++i) {
    const plan::WeightSlice &piece = layout.pieces[i];
    std::vector<Use> &known = uses[piece.tensor];
    for (const Use &use : known) {
      if (use.shape != piece.shape)
        error = "the tensor \"" + piece.tensor + "\" has the shape " +
                textOf(piece.shape) + " here, and " + textOf(use.shape) +
                " in the source of " + use.state;
      else if (overlap(use.box, layout.boxes[i]))
        error = "the tensor \"" + piece.tensor + "\" is in " + use.state +
                (use.state == state ? " twice" : " too");
      if (!error.empty())
        return false;
    }
    known.push_back({state, piece.shape, layout.boxes[i]});
  }
  return true;
}

bool Coverage::isWhole(std::string &state, std::string &error) const {
  for (const auto &[tensor, parts] : uses) {
    int64_t covered = 0, all = 1;
    for (int64_t extent : parts.front().shape)
      all *= extent;
    for (const Use &use : parts) {
      int64_t elements = 1;
      for (auto [first, size] : use.box)
        elements *= size;
      covered += elements;
    }
    if (covered == all)
      continue;
    state = parts.front().state;
    error = "of the " + std::to_string(all) + " elements of the tensor \"" +
            tensor + "\" " + std::to_string(covered) + " are in some state";
    return false;
  }
  return true;
}
