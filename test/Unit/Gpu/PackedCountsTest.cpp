//===- PackedCountsTest.cpp - What a packed product costs -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocks of products of decoding run in the machine, which counts: bytes that
// are requested against those of the weight, and instructions against the time
// in which memory delivers the weight.
//
//===----------------------------------------------------------------------===//

#include "GpuKernel.h"
#include "heddle/PlanFormat/PackedWeight.h"
#include "gtest/gtest.h"

using namespace heddle;
using namespace heddle::test;
namespace emu = heddle::emulator;

namespace {

struct Shape {
  const char *name;
  int64_t in, out, bits, group;
  double mostSlots; ///< Share of the issue slots, at the full bandwidth.
  bool hasZeros = false;
};

void PrintTo(const Shape &shape, std::ostream *os) { *os << shape.name; }

std::string tensor(const std::vector<int64_t> &sizes, const char *type) {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + type + ">";
}

int64_t bytesOf(const std::vector<int64_t> &sizes, int64_t element) {
  for (int64_t size : sizes)
    element *= size;
  return element;
}

/// Bytes that a block must read of the weight, of its rows, and write.
struct Needed {
  double weight, rows, results;
};

emu::Counters count(const Shape &shape, int64_t rows, double place,
                    Needed &needed) {
  plan::PackedWeight packed;
  packed.shape = {shape.in, shape.out};
  packed.bits = shape.bits;
  packed.group = shape.group;
  packed.layout = plan::PackedLayout::Fragments;
  bool hasCodes = packed.isQuantized();
  std::vector<int64_t> words = packed.stateShape();
  std::string x = tensor({rows, shape.in}, "bf16");
  std::string y = tensor({rows, shape.out}, "bf16");
  std::string w = tensor(words, hasCodes ? "i32" : "bf16");
  std::string arguments = "%x: " + x + ", %w: " + w, types = x + ", " + w;
  std::string operands = "%x, %w";
  std::vector<int64_t> bytes = {rows * shape.in * 2,
                                packed.panels() * packed.panelWords() * 4};
  packed.part = plan::PackedPart::Scales;
  std::string table = tensor(packed.stateShape(), "f16");
  int64_t tableBytes = bytesOf(packed.stateShape(), 2), tables = 0;
  if (hasCodes) {
    arguments += ", %s: " + table;
    operands += " scales %s";
    types += ", " + table;
    ++tables;
  }
  if (shape.hasZeros) {
    arguments += ", %z: " + table;
    operands += " zeros %z";
    types += ", " + table;
    ++tables;
  }
  bytes.insert(bytes.end(), tables, tableBytes);
  bytes.push_back(rows * shape.out * 2);
  if (hasCodes)
    operands += " bits " + std::to_string(shape.bits);
  needed.weight =
      double(bytes[1] + tables * tableBytes) / double(packed.panels());
  needed.rows = double(bytes[0]);
  needed.results = double(rows) * 32;
  return countBlocks(kernelText("gemm", arguments, y,
                                "%y = nn.packed_linear " + operands +
                                    " layout fragments : (" + types + ") -> " +
                                    y,
                                "%y"),
                     bytes, {place});
}

class GpuPackedCounts : public testing::TestWithParam<Shape> {};

TEST_P(GpuPackedCounts, OfABlock) {
  // An H100: 3.35 TB/s for 132 multiprocessors at 1.755 GHz, each of which
  // issues four instructions a clock.
  constexpr double bytesPerClock = 3.35e12 / 132 / 1.755e9;
  constexpr double slotsPerByte = 4 / bytesPerClock;
  for (int64_t rows : {1, 8})
    for (double place : {0.0, 0.73}) {
      Needed needed;
      emu::Counters counters = count(GetParam(), rows, place, needed);
      double sectors = double(counters.globalSectors) * 32;
      double all = needed.weight + needed.rows + needed.results;
      EXPECT_LE(sectors, needed.weight * 1.01 + needed.rows + needed.results);
      EXPECT_GE(double(counters.globalBytes), 0.98 * sectors);
      EXPECT_GE(double(counters.globalBytes), all);
      EXPECT_LE(double(counters.sharedWavefronts),
                1.05 * double(counters.idealWavefronts));
      double slots = double(sumOf(counters)) / (needed.weight * slotsPerByte);
      EXPECT_LE(slots, GetParam().mostSlots) << rows << " rows";
      RecordProperty("slots" + std::to_string(rows), std::to_string(slots));
      RecordProperty("sectors" + std::to_string(rows),
                     std::to_string(sectors / all));
    }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GpuPackedCounts,
    testing::Values(Shape{"llama bf16", 4096, 4096, 16, 0, 0.6},
                    Shape{"llama int8", 4096, 4096, 8, 0, 0.65},
                    Shape{"llama int8 groups", 4096, 4096, 8, 128, 0.7},
                    Shape{"llama int4", 4096, 4096, 4, 64, 1.05},
                    Shape{"llama int4 zeros", 4096, 4096, 4, 128, 1.15, true},
                    Shape{"gpt2-xl bf16", 1600, 6400, 16, 0, 0.6},
                    Shape{"gpt2-xl int4", 6400, 1600, 4, 64, 1.05}));

} // namespace
