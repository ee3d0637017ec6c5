//===- AttentionTest.h - Checks of attention --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_ATTENTION_ATTENTIONTEST_H
#define HEDDLE_TEST_UNIT_ATTENTION_ATTENTIONTEST_H

#include "../Support/AttentionRunner.h"
#include "../Support/GemmRunner.h"
#include "../Support/IsLong.h"
#include "heddle/runtime/io/Float.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"
#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace heddle::test {

enum class Kind { F32, BF16, F16 };
inline int64_t bytesOf(Kind kind) { return kind == Kind::F32 ? 4 : 2; }

struct Case {
  int64_t batch, seq, heads, kvHeads, headDim;
  bool causal = true;
  bool packed = true;
  Kind kind = Kind::F32;
  double p = 0;
  double scale = 0; ///< 0: 1 / sqrt(headDim).
  double tolerance = 3e-6;
  int64_t parts = 1, part = 0;       ///< Of the heads.
  std::vector<int32_t> lengths = {}; ///< Of the rows; empty: all are whole.
  int64_t window = 0;
  double softcap = 0;
  int64_t block = 0;   ///< Of a drawn layout; 0: none.
  int64_t layouts = 1; ///< 1, or one for each head of all parts.
  double density = 0.4;

  /// Whether a key or value of the reference exists.
  bool exists(int64_t index) const {
    int64_t row = index / (kvHeads * headDim);
    return lengths.empty() || row % seq < lengths[row / seq];
  }
};

/// A tensor that begins as NaN everywhere.
struct Tensor {
  Tensor(int64_t size, Kind kind)
      : kind(kind), bytes(size * bytesOf(kind), '\xff') {}

  double get(int64_t index) const {
    if (kind == Kind::F32) {
      float value;
      std::memcpy(&value, &bytes[index * 4], 4);
      return value;
    }
    uint16_t half;
    std::memcpy(&half, &bytes[index * 2], 2);
    return kind == Kind::F16 ? io::f16ToFloat(half) : io::bf16ToFloat(half);
  }
  void set(int64_t index, float value) {
    if (kind == Kind::F32) {
      std::memcpy(&bytes[index * 4], &value, 4);
      return;
    }
    uint16_t half =
        kind == Kind::F16 ? io::floatToF16(value) : io::floatToBF16(value);
    std::memcpy(&bytes[index * 2], &half, 2);
  }
  void *data() { return bytes.data(); }

  Kind kind;
  std::vector<char> bytes;
};

/// q, k and v, or their gradients, as the kernel takes them.
struct PackedTensors {
  PackedTensors(const Case &test) : test(test) {
    int64_t rows = test.batch * test.seq;
    int64_t q = test.heads * test.headDim, kv = test.kvHeads * test.headDim;
    widths = {q, kv, kv};
    if (test.packed)
      tensors.emplace_back(rows * (q + 2 * kv), test.kind);
    else
      for (int64_t width : widths)
        tensors.emplace_back(rows * width, test.kind);
  }

  /// Element `index` of q, k or v (`part`) as the reference counts it.
  std::pair<Tensor *, int64_t> locate(int part, int64_t index) {
    if (!test.packed)
      return {&tensors[part], index};
    int64_t row = index / widths[part], column = index % widths[part];
    for (int i = 0; i < part; ++i)
      column += widths[i];
    int64_t total = widths[0] + widths[1] + widths[2];
    return {&tensors[0], row * total + column};
  }
  int64_t size(int part) const { return test.batch * test.seq * widths[part]; }
  void appendTo(std::vector<void *> &arguments) {
    for (Tensor &tensor : tensors)
      arguments.push_back(tensor.data());
  }
  bool operator==(const PackedTensors &other) const {
    for (size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].bytes != other.tensors[i].bytes)
        return false;
    return true;
  }

  const Case &test;
  std::array<int64_t, 3> widths;
  std::vector<Tensor> tensors;
};

/// Compares attention's kernels with a reference in double, for the target that
/// is the parameter.
class AttentionTest : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    context = createCodegenContext();
    std::optional<cpu::CpuTarget> host = cpu::CpuTarget::parse("native");
    std::optional<cpu::CpuTarget> wanted = cpu::CpuTarget::parse(GetParam());
    if (!host || !wanted || (wanted->hasAvx512 && !host->hasAvx512))
      GTEST_SKIP() << "this machine cannot run " << GetParam();
    target = *wanted;
  }

  cpu::AttentionSpec makeSpec(const Case &test);
  void check(const Case &test);

  std::unique_ptr<mlir::MLIRContext> context;
  cpu::CpuTarget target;
};

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_ATTENTION_ATTENTIONTEST_H
