//===- WidthTest.cpp - How wide accesses of global memory are -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lanes of row kernels, norms, the loss and optimizers ask for 16 bytes each,
// at GPT-2 124M's shapes with 4 x 1024 tokens. The machine counts requests of
// warps: 32 lanes that ask for 16 bytes each are one of 512 bytes. Rows of 768
// elements in bf16 are three of them.
//
//===----------------------------------------------------------------------===//

#include "../Kernels/OptimizerTexts.h"
#include "GpuKernel.h"
#include "gtest/gtest.h"
#include <tuple>

using namespace heddle::test;

namespace {

constexpr int64_t rows = 4096, columns = 768;
constexpr int64_t size = rows * columns * 2, vectorSize = columns * 2;
constexpr int64_t stats = rows * 4;
const std::string type = "tensor<4096x768xbf16>", row = "tensor<4096xf32>";
const std::string vector = "tensor<768xbf16>";

constexpr int64_t rowsPerBlock = 8, warpsPerBlock = 8;

/// Compares the requests of the first, the last and two other blocks with the
/// `wide` ones that such a block needs, where each lane asks for 16 bytes, and
/// the `others`: of single values, and of ends of rows.
void checkWidth(const std::string &name, const std::string &text,
                const std::vector<int64_t> &bytes, double wide, double others) {
  SCOPED_TRACE(name);
  const std::vector<double> places = {0, 0.31, 0.7, 1};
  heddle::emulator::Counters counters = countBlocks(text, bytes, places);
  auto requests = static_cast<double>(counters.globalRequests) /
                  static_cast<double>(places.size());
  EXPECT_GE(requests, wide);
  EXPECT_LE(requests, wide + others);
}

TEST(GpuWidth, Elementwise) {
  checkWidth("gelu",
             kernelText("rows", "%x: " + type, type,
                        "%y = nn.map gelu_tanh(%x) : " + type, "%y"),
             {size, size}, 2 * warpsPerBlock, 0);
  checkWidth("gelu gradient",
             kernelText("rows", "%x: " + type + ", %g: " + type, type,
                        "%y = nn.map gelu_tanh_grad(%x, %g) : " + type, "%y"),
             {size, size, size}, 3 * warpsPerBlock, 0);
  checkWidth("residual",
             kernelText("rows", "%x: " + type + ", %r: " + type, type,
                        "%y = nn.add %x, %r : " + type, "%y"),
             {size, size, size}, 3 * warpsPerBlock, 0);
}

/// A block has a row for each warp, and loads weights once. Statistics are one
/// value of a row each.
TEST(GpuWidth, Norms) {
  constexpr int64_t weights = columns * 2 / 512;
  constexpr int64_t matrix = rowsPerBlock * weights;
  std::string types = type + ", " + row + ", " + row;
  std::string norm = "%y, %m, %s = nn.layer_norm %x, %w, %b {eps = 1.0e-5 : "
                     "f64} : (" +
                     type + ", " + vector + ", " + vector + ") -> (" + types +
                     ")";
  checkWidth("layer norm",
             kernelText("rows",
                        "%x: " + type + ", %w: " + vector + ", %b: " + vector,
                        types, norm, "%y, %m, %s"),
             {size, vectorSize, vectorSize, size, stats, stats},
             2 * matrix + 2 * weights, 2 * rowsPerBlock);
  checkWidth("layer norm gradient",
             kernelText("rows",
                        "%g: " + type + ", %x: " + type + ", %w: " + vector +
                            ", %m: " + row + ", %s: " + row,
                        type,
                        "%d = nn.layer_norm_grad_input %g, %x, %w, %m, %s : (" +
                            type + ", " + type + ", " + vector + ", " + row +
                            ", " + row + ") -> " + type,
                        "%d"),
             {size, size, vectorSize, stats, stats, size}, 3 * matrix + weights,
             2 * rowsPerBlock);
  checkWidth(
      "RMS norm",
      kernelText("rows", "%x: " + type + ", %w: " + vector, type + ", " + row,
                 "%y, %s = nn.rms_norm %x, %w {eps = 1.0e-5 : f64} : (" + type +
                     ", " + vector + ") -> (" + type + ", " + row + ")",
                 "%y, %s"),
      {size, vectorSize, size, stats}, 2 * matrix + weights, rowsPerBlock);
  checkWidth("RMS norm gradient",
             kernelText("rows",
                        "%g: " + type + ", %x: " + type + ", %w: " + vector +
                            ", %s: " + row,
                        type,
                        "%d = nn.rms_norm_grad_input %g, %x, %w, %s : (" +
                            type + ", " + type + ", " + vector + ", " + row +
                            ") -> " + type,
                        "%d"),
             {size, size, vectorSize, stats, size}, 3 * matrix + weights,
             rowsPerBlock);
}

/// Of rows as they are padded for their products. A block has one; the last
/// element is apart. Where gradients are stored, all 32 warps look at the label
/// and two other values of the row.
TEST(GpuWidth, CrossEntropy) {
  constexpr int64_t leading = 50272, logits = rows * leading * 2;
  constexpr int64_t row16 = (50257 * 2 + 511) / 512;
  std::string type = "tensor<4096x50257xbf16>", labels = "tensor<4096xi32>";
  std::string loss = "%y, %lse = nn.cross_entropy %x, %l : (" + type + ", " +
                     labels + ") -> (" + row + ", " + row + ")";
  checkWidth("loss",
             kernelText("rows", "%x: " + type + ", %l: " + labels,
                        row + ", " + row, loss, "%y, %lse", "50272, 0, 0, 0"),
             {logits, stats, stats, stats}, row16, 5);
  checkWidth(
      "loss and gradient",
      kernelText("rows", "%x: " + type + ", %l: " + labels + ", %d: " + row,
                 row + ", " + type,
                 loss + "\n%g = nn.cross_entropy_grad %x, %l, %lse, %d : (" +
                     type + ", " + labels + ", " + row + ", " + row + ") -> " +
                     type,
                 "%y, %g", "50272, 0, 0, 0, 50272"),
      {logits, stats, stats, stats, logits}, 2 * row16, 2 + 32 * 3 + 1);
}

/// Of as many parameters as the model has. A lane has four of them at a time,
/// whose bf16 are 8 bytes; 4096 blocks take turns. Lion has one state, and LAMB
/// reads what its ratios scaled.
TEST(GpuWidth, Optimizers) {
  constexpr int64_t parameters = 124439808, perTurn = warpsPerBlock * 32 * 4;
  static_assert((parameters + perTurn - 1) / perTurn == 29 * 4096 + 2740);
  // Two of the four blocks have a thirtieth turn.
  constexpr double accesses = 29.5 * warpsPerBlock;
  const std::tuple<const char *, UpdateText, int> optimizers[] = {
      {"AdamW", adamText(parameters, "f32"), 7},
      {"Lion", lionText(parameters, "f32"), 5},
      {"LAMB", lambText(parameters, "f32"), 8}};
  for (const auto &[name, text, wide] : optimizers)
    checkWidth(name,
               kernelText("rows", text.arguments, text.types(), text.body,
                          text.values()),
               text.bytes, wide * accesses, accesses + 4 * warpsPerBlock);
}

} // namespace
