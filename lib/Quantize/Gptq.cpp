//===- Gptq.cpp - GPTQ: rounding with error correction --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounds a weight matrix: the weights of one input after the other. The GPTQ
// paper takes the corrections from the Cholesky factor of the inverse of the
// moments H. Here they are computed from H itself, without an inverse, which
// gives the same numbers (Chee et al. 2023, "QuIP", theorem 6). Let H = (U + 1)
// D (U + 1)^T, where U is strictly upper triangular and D diagonal. Let w[i] be
// the weights of input i, and q[i] their rounded values. Before w[k] is
// rounded, (w[i] - q[i]) U[i][k] is added to it for each input i that was
// rounded before.
//
//===----------------------------------------------------------------------===//

#include "heddle/Quantize/Gptq.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace heddle;
using namespace heddle::quantize;

/// Block sizes that keep rows in the processor's cache. The errors of
/// `blockInputs` inputs are added to later inputs together. `blockColumns`
/// columns of the matrix R (see `factor`) are computed together.
static constexpr int64_t blockInputs = 128, blockColumns = 64;
/// The number of outputs that are rounded together. The weights of one input
/// for all these outputs fit into the vector registers.
static constexpr int64_t tile = 32;

//===----------------------------------------------------------------------===//
// The factor
//===----------------------------------------------------------------------===//

static double dot(const double *a, const double *b, int64_t count) {
  constexpr int64_t lanes = 8;
  double sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane)
      sums[lane] += a[i + lane] * b[i + lane];
  for (; i < count; ++i)
    sums[0] += a[i] * b[i];
  return std::accumulate(sums, sums + lanes, 0.0);
}

/// Replaces the upper triangle of a symmetric matrix H by the matrix R with H =
/// R R^T. Returns false if H is not positive definite.
static bool factor(std::vector<double> &matrix, int64_t size,
                   rt::ThreadPool &pool) {
  auto row = [&](int64_t i) { return &matrix[i * size]; };
  for (int64_t end = size; end > 0;) {
    int64_t begin = std::max<int64_t>(0, end - blockColumns);
    // The columns of R after this block are final. Subtract what they
    // contribute to R R^T from the block's columns of H.
    forEachShare(pool, end, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        for (int64_t k = std::max(i, begin); k < end; ++k)
          row(i)[k] -= dot(row(i) + end, row(k) + end, size - end);
    });
    auto solve = [&](int64_t i, int64_t k) {
      row(i)[k] =
          (row(i)[k] - dot(row(i) + k + 1, row(k) + k + 1, end - k - 1)) /
          row(k)[k];
    };
    for (int64_t k = end - 1; k >= begin; --k) {
      double rest =
          row(k)[k] - dot(row(k) + k + 1, row(k) + k + 1, end - k - 1);
      if (!(rest > 0))
        return false;
      row(k)[k] = std::sqrt(rest);
      for (int64_t i = begin; i < k; ++i)
        solve(i, k);
    }
    forEachShare(pool, begin, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        for (int64_t k = end - 1; k >= begin; --k)
          solve(i, k);
    });
    end = begin;
  }
  return true;
}

namespace {

/// Rounds one weight matrix. It needs the second moments of the inputs of the
/// product that uses the matrix.
class Gptq {
public:
  Gptq(const CodeShape &shape, const std::vector<float> &weight,
       const Moments &moments, const GptqOptions &options,
       rt::ThreadPool &pool);

  RoundedMatrix run();

private:
  friend class Tile;
  void chooseOrder(const Moments &moments);
  void makeFeedback(const Moments &moments, double dampening);

  const CodeShape &shape;
  const std::vector<float> &weight;
  bool largestFirst;
  rt::ThreadPool &pool;
  /// The inputs, in the order in which they are rounded.
  std::vector<int64_t> order;
  /// The factors by which the error of an input is added to later inputs: the
  /// matrix U of the comment at the top of this file. Its rows and columns are
  /// in the order of `order`.
  std::vector<double> feedback;
  RoundedMatrix result;
};

} // namespace

Gptq::Gptq(const CodeShape &shape, const std::vector<float> &weight,
           const Moments &moments, const GptqOptions &options,
           rt::ThreadPool &pool)
    : shape(shape), weight(weight), largestFirst(options.largestFirst),
      pool(pool), order(shape.inputs), result(shape) {
  chooseOrder(moments);
  makeFeedback(moments, options.dampening);
}

void Gptq::chooseOrder(const Moments &moments) {
  std::iota(order.begin(), order.end(), 0);
  auto momentOf = [&](int64_t input) {
    return moments[input * shape.inputs + input];
  };
  if (largestFirst)
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return momentOf(a) > momentOf(b);
    });
}

void Gptq::makeFeedback(const Moments &moments, double dampening) {
  const int64_t size = shape.inputs;
  double mean = 0;
  for (int64_t i = 0; i < size; ++i)
    mean += moments[i * size + i] / double(size);
  // If the moments come from few tokens, rounding errors can make the matrix
  // not positive definite, although a number is added to its diagonal. A larger
  // number is then added, until the matrix is positive definite.
  for (double added = dampening;; added *= 10) {
    feedback.resize(size * size);
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j)
        feedback[i * size + j] = moments[order[i] * size + order[j]];
    for (int64_t i = 0; i < size; ++i) {
      double &diagonal = feedback[i * size + i];
      // If an input is always zero, its moment is 0 and its error has no
      // effect. Any positive number can take the place of the 0.
      diagonal = (diagonal == 0 ? 1 : diagonal) + added * mean;
    }
    if (factor(feedback, size, pool))
      break;
  }
  for (int64_t i = 0; i < size; ++i)
    for (int64_t k = i + 1; k < size; ++k)
      feedback[i * size + k] /= feedback[k * size + k];
}

/// Adds to the row `to` the sum of `count` rows of `errors`, each multiplied by
/// its factor. The factor of row i is factors[i * stride].
static void addErrors(double *to, const double *errors, const double *factors,
                      int64_t count, int64_t stride) {
  double sums[tile];
  std::copy_n(to, tile, sums);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t o = 0; o < tile; ++o)
      sums[o] += factors[i * stride] * errors[i * tile + o];
  std::copy_n(sums, tile, to);
}

namespace {

/// Rounds the weights of `width` outputs, from output `first` on.
class Tile {
public:
  Tile(Gptq &of, int64_t first, int64_t width);
  void round();

private:
  double weightAt(int64_t turn, int64_t o) const {
    return of.weight[of.order[turn] * of.shape.outputs + first + o];
  }
  void setCodes(int64_t input, const std::vector<double> &group);
  void chooseCodes(int64_t turn);
  void roundInput(int64_t turn, double *error);

  Gptq &of;
  const int64_t first, width, inputs, length;
  /// The weights of the outputs that are rounded together. The inputs are in
  /// the order of rounding. Corrections for the errors of all inputs that were
  /// rounded so far are included.
  std::vector<double> values;
};

} // namespace

Tile::Tile(Gptq &of, int64_t first, int64_t width)
    : of(of), first(first), width(width), inputs(of.shape.inputs),
      length(of.shape.length), values(inputs * tile) {
  for (int64_t turn = 0; turn < inputs; ++turn)
    for (int64_t o = 0; o < width; ++o)
      values[turn * tile + o] = weightAt(turn, o);
}

/// Chooses the scales and zero points of the group of inputs that begins with
/// input `input`. They depend on the group's weights, which are in `group`.
void Tile::setCodes(int64_t input, const std::vector<double> &group) {
  std::vector<float> column(length);
  for (int64_t o = 0; o < width; ++o) {
    for (int64_t i = 0; i < length; ++i)
      column[i] = float(group[i * tile + o]);
    of.result.groupOf(input, first + o) =
        rt::scaleOf(column.data(), length, of.shape.bits, of.shape.even);
  }
}

/// Sets the scales and zero points of a group before its first input is
/// rounded. They are chosen by the values that the group's inputs would have if
/// no input of the group were rounded. Corrections for the errors of earlier
/// groups are included in these values.
void Tile::chooseCodes(int64_t turn) {
  auto begin = values.begin() + turn * tile;
  std::vector<double> group(begin, begin + length * tile);
  double change[tile] = {};
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t o = 0; o < width; ++o)
      change[o] = weightAt(turn + i, o) - group[i * tile + o];
    for (int64_t later = i + 1; later < length; ++later)
      addErrors(&group[later * tile], change,
                &of.feedback[(turn + i) * inputs + turn + later], 1, inputs);
  }
  setCodes(turn, group);
}

void Tile::roundInput(int64_t turn, double *error) {
  int64_t input = of.order[turn];
  for (int64_t o = 0; o < width; ++o) {
    of.result.codes[input * of.shape.outputs + first + o] = int8_t(
        rt::quantize(float(values[turn * tile + o]),
                     of.result.groupOf(input, first + o), of.shape.bits));
    error[o] = weightAt(turn, o) - of.result.at(input, first + o);
  }
}

void Tile::round() {
  for (int64_t group = 0; of.largestFirst && group < inputs; group += length) {
    std::vector<double> plain(length * tile);
    for (int64_t i = 0; i < length; ++i)
      for (int64_t o = 0; o < width; ++o)
        plain[i * tile + o] =
            of.weight[(group + i) * of.shape.outputs + first + o];
    setCodes(group, plain);
  }
  std::vector<double> errors(blockInputs * tile);
  for (int64_t begin = 0, end = 0; begin < inputs; begin = end) {
    // A block of inputs ends where a group of inputs that share scales ends:
    // the next group's scales may only be chosen when that group's values have
    // the corrections for all earlier errors.
    int64_t groupEnd = (begin / length + 1) * length;
    end = std::min({begin + blockInputs, groupEnd, inputs});
    if (!of.largestFirst && begin % length == 0)
      chooseCodes(begin);
    for (int64_t turn = begin; turn < end; ++turn) {
      double *error = &errors[(turn - begin) * tile];
      roundInput(turn, error);
      for (int64_t later = turn + 1; later < end; ++later)
        addErrors(&values[later * tile], error,
                  &of.feedback[turn * inputs + later], 1, inputs);
    }
    for (int64_t later = end; later < inputs; ++later)
      addErrors(&values[later * tile], errors.data(),
                &of.feedback[begin * inputs + later], end - begin, inputs);
  }
}

RoundedMatrix Gptq::run() {
  int64_t tiles = (shape.outputs + tile - 1) / tile;
  forEachShare(pool, tiles, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number)
      Tile(*this, number * tile, std::min(tile, shape.outputs - number * tile))
          .round();
  });
  return std::move(result);
}

RoundedMatrix quantize::roundWithGptq(const CodeShape &shape,
                                      const std::vector<float> &weight,
                                      const Moments &moments,
                                      const GptqOptions &options,
                                      rt::ThreadPool &pool) {
  return Gptq(shape, weight, moments, options, pool).run();
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

/// Returns the sum of m^T H m over the columns m of a matrix, where H are the
/// moments. The matrix is `columns`, as [inputs][tile]. It has one column for
/// each of the outputs that are rounded together.
static double momentOf(const std::vector<double> &columns,
                       const Moments &moments, int64_t inputs) {
  double sum = 0;
  for (int64_t i = 0; i < inputs; ++i) {
    const double *own = &columns[i * tile];
    double half[tile];
    for (int64_t o = 0; o < tile; ++o)
      half[o] = moments[i * inputs + i] * own[o] / 2;
    addErrors(half, &columns[(i + 1) * tile],
              moments.data() + i * inputs + i + 1, inputs - i - 1, 1);
    sum += 2 * dot(half, own, tile);
  }
  return sum;
}

double quantize::outputError(const std::vector<float> &weight,
                             const RoundedMatrix &rounded,
                             const Moments &moments, rt::ThreadPool &pool) {
  const int64_t inputs = rounded.shape.inputs, outputs = rounded.shape.outputs;
  int64_t tiles = (outputs + tile - 1) / tile;
  std::vector<double> errors(tiles), squares(tiles);
  forEachShare(pool, tiles, [&](int64_t begin, int64_t end) {
    // `whole` and `off` have one row more than there are inputs. The additional
    // row is never read, but momentOf takes the address of its first element.
    std::vector<double> whole((inputs + 1) * tile), off(whole.size());
    for (int64_t number = begin; number < end; ++number) {
      int64_t first = number * tile, width = std::min(tile, outputs - first);
      for (int64_t i = 0; i < inputs; ++i)
        for (int64_t o = 0; o < tile; ++o) {
          bool isThere = o < width;
          double value = isThere ? weight[i * outputs + first + o] : 0;
          whole[i * tile + o] = value;
          off[i * tile + o] = isThere ? value - rounded.at(i, first + o) : 0;
        }
      errors[number] = momentOf(off, moments, inputs);
      squares[number] = momentOf(whole, moments, inputs);
    }
  });
  return relativeNorm(std::accumulate(errors.begin(), errors.end(), 0.0),
                      std::accumulate(squares.begin(), squares.end(), 0.0));
}
