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

#include "GpuKernel.h"
#include "OptimizerTexts.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"

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
  heddle::rt::emulator::Counters counters = countBlocks(text, bytes, places);
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
  constexpr int64_t pitch = 50272, logits = rows * pitch * 2;
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
/// whose bf16 are 8 bytes; 4096 blocks take turns.
TEST(GpuWidth, AdamW) {
  constexpr int64_t parameters = 124439808, perTurn = warpsPerBlock * 32 * 4;
  static_assert((parameters + perTurn - 1) / perTurn == 29 * 4096 + 2740);
  // Two of the four blocks have a thirtieth turn.
  constexpr double accesses = 29.5 * warpsPerBlock;
  std::string state = "tensor<124439808xf32>";
  std::string types =
      state + ", " + state + ", " + state + ", tensor<124439808xbf16>";
  checkWidth(
      "AdamW",
      kernelText("rows",
                 "%p: " + state + ", %g: " + state + ", %m: " + state +
                     ", %v: " + state + ", %lr: tensor<f32>, %c: tensor<f32>",
                 types,
                 R"(
      %0, %1, %2, %3 = nn.update "adamw" %p, %g states(%m, %v) with(%lr, %c) : ()" +
                     state + ", " + state + ", " + state + ", " + state +
                     ", tensor<f32>, tensor<f32>) -> (" + types + R"() {
      ^bb0(%a: f64, %b: f64, %d: f64, %e: f64, %f: f64, %i: f64):
        %clipped = arith.mulf %b, %i : f64
        %beta = arith.constant 0.9 : f64
        %rest = arith.constant 0.1 : f64
        %old = arith.mulf %beta, %d : f64
        %add = arith.mulf %rest, %clipped : f64
        %avg = arith.addf %old, %add : f64
        %kept = arith.mulf %beta, %e : f64
        %square = arith.mulf %clipped, %add : f64
        %sq = arith.addf %kept, %square : f64
        %root = math.sqrt %sq : f64
        %eps = arith.constant 1.0e-8 : f64
        %denominator = arith.addf %root, %eps : f64
        %direction = arith.divf %avg, %denominator : f64
        %decay = arith.mulf %a, %rest : f64
        %sum = arith.addf %direction, %decay : f64
        %move = arith.mulf %f, %sum : f64
        %next = arith.subf %a, %move : f64
        nn.return %next, %avg, %sq : f64, f64, f64
      })",
                 "%0, %1, %2, %3"),
      {parameters * 4, parameters * 4, parameters * 4, parameters * 4, 4, 4,
       parameters * 4, parameters * 4, parameters * 4, parameters * 2},
      7 * accesses, accesses + 2 * warpsPerBlock);
}

/// The same of Lion, which has one state, and of LAMB, which reads what its
/// ratios scaled.
TEST(GpuWidth, LionAndLamb) {
  constexpr int64_t parameters = 124439808;
  constexpr double accesses = 29.5 * warpsPerBlock;
  for (auto [textOf, wide] :
       {std::pair(&lionText, 5), std::pair(&lambText, 8)}) {
    UpdateText text = textOf(parameters, "f32", "");
    checkWidth(wide == 5 ? "Lion" : "LAMB",
               kernelText("rows", text.arguments,
                          llvm::join(text.results, ", "), text.body,
                          wide == 5 ? "%0, %1, %2" : "%0, %1, %2, %3"),
               text.bytes, wide * accesses, accesses + 4 * warpsPerBlock);
  }
}

} // namespace
