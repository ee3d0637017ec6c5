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
#include "PackedTexts.h"
#include "gtest/gtest.h"

using namespace heddle;
using namespace heddle::test;
namespace emu = heddle::emulator;

namespace {

struct Shape {
  PackedForm form;
  double mostSlots; ///< Share of the issue slots, at the full bandwidth.
  /// Sectors for the weight's bytes. Those of short parts of k are shared.
  double mostSectors = 1.01;
};

void PrintTo(const Shape &shape, std::ostream *os) { *os << shape.form.name; }

/// The kernel of a text, mapped to a chip.
struct Mapped {
  Mapped(const PackedText &text, const char *chip)
      : module(parseModule(text.text)) {
    auto kernel = *module->getOps<planir::KernelOp>().begin();
    auto builder = mlir::OpBuilder::atBlockEnd(module->getBody());
    auto target =
        builder.create<mlir::gpu::GPUModuleOp>(kernel.getLoc(), "gpu");
    auto mapped = gpu::mapKernel(kernel, target, *gpu::findChip(chip));
    EXPECT_TRUE(succeeded(mapped) && *mapped);
    launch = mapped->launches.back();
  }
  int64_t blocks() { return launch.func.getKnownGridSize()->front(); }

  mlir::OwningOpRef<mlir::ModuleOp> module;
  gpu::MappedLaunch launch;
};

/// Panels that a block has on an H100.
int64_t panelsOfBlock(const PackedText &text) {
  return llvm::divideCeil(text.panels, Mapped(text, "sm_90").blocks());
}

class GpuPackedCounts : public testing::TestWithParam<Shape> {
protected:
  void checkBlocks();
  void record(const std::string &name, double value) {
    RecordProperty(name, std::to_string(value));
  }
  void checkConflicts(const emu::Counters &counters) {
    EXPECT_LE(double(counters.sharedWavefronts),
              1.05 * double(counters.idealWavefronts));
  }
};

class GpuPackedNormCounts : public GpuPackedCounts {};

void GpuPackedCounts::checkBlocks() {
  // An H100: 3.35 TB/s for 132 multiprocessors at 1.755 GHz, each of which
  // issues four instructions a clock.
  constexpr double bytesPerClock = 3.35e12 / 132 / 1.755e9;
  constexpr double slotsPerByte = 4 / bytesPerClock;
  for (int64_t rows : {1, 8})
    for (double place : {0.0, 0.73}) {
      PackedText text = packedText(GetParam().form, rows);
      emu::Counters counters = countBlocks(text.text, text.bytes, {place});
      int64_t panels = panelsOfBlock(text);
      auto weight = double(panels * text.panelBytes);
      auto ofRows = double(text.rowBytes);
      auto results = double(panels * rows * 32);
      double sectors = double(counters.globalSectors) * 32;
      double all = weight + ofRows + results;
      EXPECT_LE(sectors, weight * GetParam().mostSectors + ofRows + results);
      EXPECT_GE(double(counters.globalBytes), 0.98 * sectors);
      EXPECT_GE(double(counters.globalBytes), all);
      checkConflicts(counters);
      double slots = double(sumOf(counters)) / (weight * slotsPerByte);
      EXPECT_LE(slots, GetParam().mostSlots) << rows << " rows";
      record("slots" + std::to_string(rows), slots);
      record("sectors" + std::to_string(rows), sectors / all);
    }
}

TEST_P(GpuPackedCounts, OfABlock) { checkBlocks(); }

/// The weights are read, and the rows once by each block, as without the norm.
TEST_P(GpuPackedNormCounts, OfABlock) { checkBlocks(); }

/// A prompt: a block multiplies its panels by 64 rows, which it reads once. In
/// one cycle, a multiprocessor issues four instructions and makes one pass over
/// the banks of shared memory. It computes an mma.sync in 2 cycles (A100) or,
/// if mma.sync reaches 63 % of the tensor cores' peak (Luo et al., 2024),
/// in 1.6 (H100). Both limits leave at least half of that rate.
TEST_P(GpuPackedCounts, OfManyRows) {
  constexpr int64_t rows = 512, tileRows = 64;
  PackedText text = packedText(GetParam().form, rows);
  int64_t panels = panelsOfBlock(text);
  emu::Counters counters = countBlocks(text.text, text.bytes, {0.3});
  double products = double(counters.tensorOperations) / 4096;
  double slots = double(sumOf(counters)) / products;
  double sectors = double(counters.globalSectors) * 32;
  double all = double(panels * text.panelBytes) +
               double(text.bytes[0]) * tileRows / rows +
               double(panels * tileRows * 32);
  double passes = double(counters.sharedWavefronts) / products;
  double cycles = std::max(slots / 4, passes);
  EXPECT_GE(1.6 / cycles, 0.5);
  // The two warps that have a panel read its scales each.
  EXPECT_LE(sectors, 1.03 * all);
  EXPECT_GE(double(counters.globalBytes), 0.98 * sectors);
  EXPECT_GE(double(counters.globalBytes), all);
  checkConflicts(counters);
  record("slots", slots);
  record("passes", passes);
  record("share of an A100", 2 / cycles);
  record("share of an H100", 1.6 / cycles);
  record("sectors", sectors / all);
}

/// Every number of rows fits in the shared memory of an A100.
TEST_P(GpuPackedCounts, FitInSharedMemory) {
  for (int64_t rows : {1, 8, 9, 16, 24, 32, 33, 40, 64, 65, 200, 512}) {
    PackedText text = packedText(GetParam().form, rows);
    EXPECT_LE(Mapped(text, "sm_80").launch.sharedBytes, 163 * 1024)
        << rows << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GpuPackedCounts,
    testing::Values(Shape{{"llama bf16", 4096, 4096, 16, 0}, 0.6},
                    Shape{{"llama int8", 4096, 4096, 8, 0}, 0.6},
                    Shape{{"llama int8 groups", 4096, 4096, 8, 128}, 0.6},
                    Shape{{"llama int4", 4096, 4096, 4, 64}, 0.8},
                    Shape{{"llama int4 zeros", 4096, 4096, 4, 128, true}, 0.8},
                    Shape{{"gpt2-xl bf16", 1600, 6400, 16, 0}, 0.6},
                    Shape{{"gpt2-xl int4", 6400, 1600, 4, 64}, 0.8}));

PackedForm normed(const char *name, int64_t in, int64_t out, int64_t bits,
                  int64_t group, const char *norm) {
  return {name, in, out, bits, group, /*hasZeros=*/false, norm};
}

/// Kernels that compute their rows by a norm. GPT-2 XL has short rows, for
/// which a block issues as many instructions before it multiplies as for long
/// ones. Its product with int4 alone takes 0.89 of the slots with one row, and
/// 0.64 with eight.
INSTANTIATE_TEST_SUITE_P(
    Norms, GpuPackedNormCounts,
    testing::Values(
        Shape{normed("llama bf16", 4096, 6144, 16, 0, "rms_norm"), 0.6},
        Shape{normed("llama int8", 4096, 6144, 8, 0, "rms_norm"), 0.6},
        Shape{normed("llama int4", 4096, 6144, 4, 64, "rms_norm"), 0.8},
        Shape{normed("gpt2-xl bf16", 1600, 4800, 16, 0, "layer_norm"), 0.6},
        Shape{normed("gpt2-xl int8", 1600, 4800, 8, 0, "layer_norm"), 0.7},
        Shape{normed("gpt2-xl int4", 1600, 4800, 4, 64, "layer_norm"), 1.2,
              1.02}));

} // namespace
