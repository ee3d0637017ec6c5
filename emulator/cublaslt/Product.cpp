//===- Product.cpp - Matrix products on the CPU ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes a product d = a * b. Sums are in f32, in the order of k. Threads
// compute ranges of the result's columns. In one step a thread multiplies a
// panel (some rows of `a`) with some columns of `b`. The panel is a copy in
// which elements with the same k are contiguous.
//
//===----------------------------------------------------------------------===//

#include "heddle/emulator/cublaslt/Library.h"
#include "heddle/runtime/io/Float.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

using namespace heddle;
using namespace heddle::rt::cublaslt;

namespace {
constexpr int64_t panelRows = 32, blockColumns = 4;

/// A column-major matrix in memory.
struct Matrix {
  const char *data;
  DataType type;
  int64_t leading;

  float at(int64_t row, int64_t column) const {
    const char *element = data + (column * leading + row) * byteSize(type);
    if (type == F32) {
      float value;
      std::memcpy(&value, element, sizeof value);
      return value;
    }
    uint16_t bits;
    std::memcpy(&bits, element, sizeof bits);
    return type == F16 ? io::f16ToFloat(bits) : io::bf16ToFloat(bits);
  }
};
} // namespace

static void store(char *data, DataType type, int64_t index, float value) {
  if (type == F32) {
    std::memcpy(data + index * 4, &value, 4);
    return;
  }
  uint16_t half = type == F16 ? io::floatToF16(value) : io::floatToBF16(value);
  std::memcpy(data + index * 2, &half, 2);
}

/// Rounds to 10 bits of mantissa, to nearest, ties away from zero.
static float toTf32(float value) {
  if (!std::isfinite(value))
    return value;
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x1000) & ~0x1fffu;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

static float geluTanh(float x) {
  double u = 0.7978845608028654 * (x + 0.044715 * double(x) * x * x);
  return float(0.5 * x * (1 + std::tanh(u)));
}

static float geluTanhGrad(float x) {
  double square = double(x) * x;
  double u = 0.7978845608028654 * (x + 0.044715 * square * x);
  double t = std::tanh(u);
  double du = 0.7978845608028654 * (1 + 3 * 0.044715 * square);
  return float(0.5 * (1 + t) + 0.5 * x * (1 - t * t) * du);
}

/// Multiplies a panel (some rows of `a`) with some columns of `b`: sums[j][i]
/// is the sum over k of panel[k][i] * columns[j][k].
__attribute__((target_clones("avx512f", "arch=haswell", "default"))) static void
multiplyBlock(const float *panel, const float *columns, int64_t k,
              float (*sums)[panelRows]) {
  float s[blockColumns][panelRows] = {};
  for (int64_t step = 0; step < k; ++step)
    for (int64_t j = 0; j < blockColumns; ++j)
      for (int64_t i = 0; i < panelRows; ++i)
        s[j][i] += panel[step * panelRows + i] * columns[j * k + step];
  std::memcpy(sums, s, sizeof s);
}

namespace {
class Multiplication {
public:
  Multiplication(const Product &product, const ProductBuffers &buffers,
                 float alpha, float beta)
      : product(product), buffers(buffers), alpha(alpha), beta(beta),
        m(int64_t(product.d.rows)), n(int64_t(product.d.columns)),
        k(int64_t(product.desc.transA == AsIs ? product.a.columns
                                              : product.a.rows)) {}

  void run() {
    packed.resize(panels() * k * panelRows);
    spread(panels(), [&](int64_t panel) { packPanel(panel); });
    int64_t blocks = (n + blockColumns - 1) / blockColumns;
    spread(blocks, [&](int64_t block) { computeColumns(block); });
    if (product.desc.writesSums())
      spread(int64_t(product.biasElements()),
             [&](int64_t number) { sumFactor(number); });
  }

private:
  int64_t panels() const { return (m + panelRows - 1) / panelRows; }

  /// Calls `work` with each number below `count`: on all cores, or on one
  /// thread if the product is small.
  template <typename Work> void spread(int64_t count, const Work &work) const {
    std::atomic<int64_t> next{0};
    auto take = [&] {
      for (int64_t i = next++; i < count; i = next++)
        work(i);
    };
    unsigned threads = double(m) * n * k < 4e6
                           ? 1
                           : std::max(std::thread::hardware_concurrency(), 1u);
    std::vector<std::thread> others;
    while (others.size() + 1 < threads)
      others.emplace_back(take);
    take();
    for (std::thread &other : others)
      other.join();
  }

  float factor(const LayoutData &layout, const char *data, Operation how,
               int64_t row, int64_t column) const {
    Matrix matrix{data, layout.type, layout.leading};
    float value = how == AsIs ? matrix.at(row, column) : matrix.at(column, row);
    return product.desc.compute == Compute32FFastTf32 ? toTf32(value) : value;
  }

  /// Copies a panel (some rows of `a`), so that its elements with the same k
  /// are contiguous.
  void packPanel(int64_t panel) {
    float *target = packed.data() + panel * k * panelRows;
    int64_t first = panel * panelRows;
    for (int64_t step = 0; step < k; ++step)
      for (int64_t i = 0; i < panelRows; ++i)
        target[step * panelRows + i] =
            first + i < m ? factor(product.a, buffers.a, product.desc.transA,
                                   first + i, step)
                          : 0;
  }

  void computeColumns(int64_t block) const {
    std::vector<float> columns(blockColumns * k);
    int64_t first = block * blockColumns;
    int64_t width = std::min(blockColumns, n - first);
    for (int64_t j = 0; j < width; ++j)
      for (int64_t step = 0; step < k; ++step)
        columns[j * k + step] =
            factor(product.b, buffers.b, product.desc.transB, step, first + j);
    for (int64_t panel = 0; panel < panels(); ++panel) {
      float sums[blockColumns][panelRows];
      multiplyBlock(packed.data() + panel * k * panelRows, columns.data(), k,
                    sums);
      for (int64_t j = 0; j < width; ++j)
        for (int64_t i = 0; i < std::min(panelRows, m - panel * panelRows); ++i)
          finish(panel * panelRows + i, first + j, sums[j][i]);
    }
  }

  /// Sums row `number` of `a`, or column `number` of `b`, over k. The epilogues
  /// for the gradient of a bias store these sums.
  void sumFactor(int64_t number) const {
    const DescData &desc = product.desc;
    float sum = 0;
    for (int64_t step = 0; step < k; ++step)
      sum += desc.epilogue == SumsA
                 ? factor(product.a, buffers.a, desc.transA, number, step)
                 : factor(product.b, buffers.b, desc.transB, step, number);
    store(buffers.bias, product.d.type, number, sum);
  }

  /// Applies the epilogue to an element, and stores it.
  void finish(int64_t row, int64_t column, float sum) const {
    const DescData &desc = product.desc;
    DataType type = product.d.type;
    float value = alpha * sum;
    if (beta != 0)
      value +=
          beta * Matrix{buffers.c, type, product.c.leading}.at(row, column);
    if (desc.addsBias())
      value += Matrix{buffers.bias, type, 0}.at(row, 0);
    if (desc.writesAux())
      store(buffers.aux, type, column * desc.auxLeading + row, value);
    if (desc.epilogue == GeluGrad)
      value *= geluTanhGrad(
          Matrix{buffers.aux, type, desc.auxLeading}.at(row, column));
    else if (desc.epilogue & Gelu)
      value = geluTanh(value);
    store(buffers.d, type, column * product.d.leading + row, value);
  }

  const Product &product;
  const ProductBuffers &buffers;
  float alpha, beta;
  int64_t m, n, k;
  std::vector<float> packed; ///< The panels of rows of a, after packing.
};
} // namespace

void heddle::rt::cublaslt::multiply(const Product &product,
                                    const ProductBuffers &buffers, float alpha,
                                    float beta) {
  Multiplication(product, buffers, alpha, beta).run();
}
