//===- TrafficTest.cpp - What kernels ask of global memory ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The machine counts bytes and sectors of 32 bytes. Kernels that are limited by
// memory use what they fetch, and fetch little more than they must.
//
//===----------------------------------------------------------------------===//

#include "../Kernels/OptimizerTexts.h"
#include "GpuKernel.h"
#include "SignTexts.h"
#include "gtest/gtest.h"
#include <cstring>
#include <numeric>
#include <set>

using namespace heddle::test;

namespace {

/// Runs a kernel and compares what it asked for with the `least` bytes that it
/// has to move.
void check(const std::string &name, const std::string &text,
           std::vector<Buffer> buffers, int64_t least, double factor = 1.2,
           const std::vector<int64_t> &scalars = {}) {
  SCOPED_TRACE(name);
  std::vector<Buffer *> pointers;
  for (auto [number, buffer] : llvm::enumerate(buffers)) {
    buffer.fill(number + 1);
    pointers.push_back(&buffer);
  }
  heddle::emulator::Counters counters;
  ASSERT_EQ(emulateKernel(text, pointers, scalars, &counters), "");
  auto bytes = static_cast<double>(counters.globalBytes);
  EXPECT_GE(bytes, 0.95 * 32 * static_cast<double>(counters.globalSectors));
  EXPECT_LE(bytes, factor * static_cast<double>(least));
  EXPECT_GE(bytes, least);
}

TEST(GpuTraffic, Elementwise) {
  std::string type = "tensor<64x768xbf16>";
  constexpr int64_t size = 64 * 768;
  check("gelu gradient",
        kernelText("rows", "%x: " + type + ", %g: " + type, type,
                   "%y = nn.map gelu_tanh_grad(%x, %g) : " + type, "%y"),
        {{size, true}, {size, true}, {size, true}}, 3 * size * 2);
}

TEST(GpuTraffic, Update) {
  std::string f32 = "tensor<10007xf32>", bf16 = "tensor<10007xbf16>";
  std::string results = f32 + ", " + f32 + ", " + bf16;
  constexpr int64_t size = 10007;
  check("update",
        kernelText("rows", "%p: " + f32 + ", %g: " + f32 + ", %m: " + f32,
                   results,
                   "%p1, %m1, %c = nn.update \"sum\" %p, %g states(%m) : (" +
                       f32 + ", " + f32 + ", " + f32 + ") -> (" + results +
                       ") {\n^bb0(%a: f64, %b: f64, %c: f64):\n"
                       "%0 = arith.addf %a, %b : f64\n"
                       "%1 = arith.addf %b, %c : f64\n"
                       "nn.return %0, %1 : f64, f64\n}",
                   "%p1, %m1, %c"),
        {{size, false},
         {size, false},
         {size, false},
         {size, false},
         {size, false},
         {size, true}},
        size * (5 * 4 + 2));
}

TEST(GpuTraffic, Optimizers) {
  for (const UpdateText &text : {adamText(10007, "f32"), lionText(10007, "f32"),
                                 lambText(10007, "f32")}) {
    std::vector<Buffer> buffers;
    for (int64_t bytes : text.bytes)
      buffers.emplace_back(bytes == 4 ? 1 : 10007, bytes == 2 * 10007);
    check("update",
          kernelText("rows", text.arguments, text.types(), text.body,
                     text.values()),
          buffers, std::accumulate(text.bytes.begin(), text.bytes.end(), 0));
  }
}

/// What segments have in common is looked up once for many of their elements.
TEST(GpuTraffic, Segments) {
  constexpr int64_t size = 768 * 768 + 768 + 3072 * 64;
  std::string type = "tensor<" + std::to_string(size) + "xf32>";
  std::string segments = "{segments = array<i64: 589824, 768, 196608>}";
  check("scale",
        kernelText("segments", "%x: " + type + ", %f: tensor<3xf32>", type,
                   "%y = nn.scale_segments %x by %f " + segments + " : (" +
                       type + ", tensor<3xf32>) -> " + type,
                   "%y"),
        {{size, false}, {3, false}, {size, false}}, (2 * size + 3) * 4);
  check("sums of squares",
        kernelText("segments", "%x: " + type, "tensor<3xf32>",
                   "%y = nn.segment_sums %x " + segments + " : (" + type +
                       ") -> tensor<3xf32>",
                   "%y"),
        {{size, false}, {3, false}}, (size + 3) * 4);
  check("maxima",
        kernelText("segments", "%x: " + type, "tensor<2x3xf32>",
                   "%y = nn.segment_maxima %x {counts = array<i64: 589824, "
                   "768, 196600>} : (" +
                       type + ") -> tensor<2x3xf32>",
                   "%y"),
        {{size, false}, {6, false}}, (size + 6) * 4);
}

/// A warp looks up the tensors of 32 words at once.
TEST(GpuTraffic, Signs) {
  SignSizes sizes{{589824, 768, 196608, 70}, 2};
  auto buffer = [](int64_t size) { return Buffer(size, Element::F32); };
  int64_t size = sizes.bucket(), chunks = sizes.chunks();
  int64_t words = chunks / 32, tensors = 4;
  check("scales", sizes.textOf(signs::scales, 1),
        {buffer(size), buffer(1), buffer(tensors)}, (size + 1 + tensors) * 4);
  check("packing", sizes.textOf(signs::packed, 1),
        {buffer(size), buffer(tensors), buffer(2 * words)},
        (2 * size + tensors + 2 * words) * 4);
  check("mean", sizes.textOf(signs::mean, 1),
        {buffer(2 * words), buffer(2 * tensors), buffer(chunks)},
        (2 * words + 2 * tensors + 2 * chunks) * 4, /*factor=*/1.2, {0});
  check("unpacking", sizes.textOf(signs::unpackedInto("2"), 1),
        {buffer(2 * words), buffer(2 * tensors), buffer(size), buffer(1)},
        (2 * words + 2 * tensors + size + 1) * 4);
}

/// An H200 executes about 50 instructions of a warp in the time in which its
/// memory moves the 260 bytes of a word and its elements.
TEST(GpuTraffic, InstructionsOfPacking) {
  SignSizes sizes{{589824, 768, 196608}, 2};
  int64_t size = sizes.bucket() * 4, words = 2 * sizes.chunks() / 32;
  auto counters =
      countFirstBlock(sizes.textOf(signs::packed, 1), {size, 3 * 4, words * 4});
  constexpr uint64_t wordsOfBlock = 256;
  EXPECT_LE(sumOf(counters), 30 * wordsOfBlock);
}

/// Threads draw from the four words of a step, which are one access.
TEST(GpuTraffic, Dropout) {
  std::string type = "tensor<64x768xbf16>";
  constexpr int64_t size = 64 * 768;
  std::vector<Buffer> buffers = {{size, true}, {4, false}, {size, true}};
  for (Buffer &buffer : buffers)
    buffer.fill(1);
  heddle::emulator::Counters counters;
  ASSERT_EQ(
      emulateKernel(kernelText("rows",
                               "%x: " + type +
                                   ", %rng: tensor<4xi32>, %layer: index, "
                                   "%micro: index",
                               type,
                               "%y = nn.dropout %x rng %rng layer %layer "
                               "micro_batch %micro {p = 0.1, site = 9 : i32} : "
                               "(" +
                                   type + ", tensor<4xi32>, index, index) -> " +
                                   type,
                               "%y"),
                    {&buffers[0], &buffers[1], &buffers[2]}, {3, 1}, &counters),
      "");
  auto bytes = static_cast<double>(counters.globalBytes);
  EXPECT_GE(bytes, 0.95 * 32 * static_cast<double>(counters.globalSectors));
  EXPECT_LE(bytes, 1.2 * 2 * size * 2);
}

/// Rows of an odd length begin anywhere in a sector.
TEST(GpuTraffic, OddRows) {
  std::string type = "tensor<3x50257xbf16>", row = "tensor<3xf32>";
  constexpr int64_t size = 3 * 50257;
  check("cross-entropy gradient",
        kernelText("rows",
                   "%x: " + type + ", %l: tensor<3xi32>, %s: " + row +
                       ", %d: " + row,
                   type,
                   "%g = nn.cross_entropy_grad %x, %l, %s, %d : (" + type +
                       ", tensor<3xi32>, " + row + ", " + row + ") -> " + type,
                   "%g"),
        {{size, true}, {3, false}, {3, false}, {3, false}, {size, true}},
        2 * size * 2);
}

/// Compares what the first block asks for with its share of the `least` bytes,
/// which are of `rows` rows; its blocks have `rowsPerBlock`. Returns the
/// former.
double checkBlock(const std::string &text, const std::vector<int64_t> &bytes,
                  int64_t least, int64_t rows, int64_t rowsPerBlock) {
  heddle::emulator::Counters counters = countFirstBlock(text, bytes);
  auto asked = static_cast<double>(counters.globalBytes);
  double needed = static_cast<double>(least) * rowsPerBlock / rows;
  EXPECT_GE(asked, 0.95 * 32 * static_cast<double>(counters.globalSectors));
  EXPECT_LE(asked, 1.2 * needed);
  EXPECT_GE(asked, needed);
  return asked;
}

/// At GPT-2 124M's shapes, of four texts and of one. A block has eight rows, a
/// warp each, and loads weights once.
class GpuRowTraffic : public testing::TestWithParam<int64_t> {};

TEST_P(GpuRowTraffic, LayerNorm) {
  const int64_t rows = GetParam();
  std::string type = "tensor<" + std::to_string(rows) + "x768xbf16>";
  std::string row = "tensor<" + std::to_string(rows) + "xf32>";
  std::string vector = "tensor<768xbf16>";
  std::string types = type + ", " + row + ", " + row;
  const int64_t size = rows * 768 * 2, columns = 768 * 2, stats = rows * 4;
  checkBlock(
      kernelText(
          "rows", "%x: " + type + ", %w: " + vector + ", %b: " + vector, types,
          "%y, %m, %s = nn.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : (" +
              type + ", " + vector + ", " + vector + ") -> (" + types + ")",
          "%y, %m, %s"),
      {size, columns, columns, size, stats, stats},
      2 * size + 2 * columns + 2 * stats, rows, 8);
  checkBlock(
      kernelText("rows",
                 "%x: " + type + ", %r: " + type + ", %w: " + vector +
                     ", %b: " + vector,
                 type + ", " + types,
                 "%a = nn.add %x, %r : " + type +
                     "\n%y, %m, %s = nn.layer_norm %a, %w, %b {eps = 1.0e-5 : "
                     "f64} : (" +
                     type + ", " + vector + ", " + vector + ") -> (" + types +
                     ")",
                 "%a, %y, %m, %s"),
      {size, size, columns, columns, size, size, stats, stats},
      4 * size + 2 * columns + 2 * stats, rows, 8);
}

TEST_P(GpuRowTraffic, NormGradients) {
  const int64_t rows = GetParam();
  std::string type = "tensor<" + std::to_string(rows) + "x768xbf16>";
  std::string row = "tensor<" + std::to_string(rows) + "xf32>";
  std::string vector = "tensor<768xbf16>";
  const int64_t size = rows * 768 * 2, columns = 768 * 2, stats = rows * 4;
  checkBlock(kernelText("rows",
                        "%g: " + type + ", %x: " + type + ", %w: " + vector +
                            ", %m: " + row + ", %s: " + row,
                        type,
                        "%d = nn.layer_norm_grad_input %g, %x, %w, %m, %s : (" +
                            type + ", " + type + ", " + vector + ", " + row +
                            ", " + row + ") -> " + type,
                        "%d"),
             {size, size, columns, stats, stats, size},
             3 * size + columns + 2 * stats, rows, 8);
  checkBlock(
      kernelText("rows",
                 "%g: " + type + ", %x: " + type + ", %w: " + vector +
                     ", %s: " + row,
                 type,
                 "%d = nn.rms_norm_grad_input %g, %x, %w, %s : (" + type +
                     ", " + type + ", " + vector + ", " + row + ") -> " + type,
                 "%d"),
      {size, size, columns, stats, size}, 3 * size + columns + stats, rows, 8);
}

/// The sums over rows are made of what the block has loaded; a block has
/// sixteen rows, two for each warp. It also writes a part of the sums, which
/// the second launch reads: each byte of the parts once. Both launches together
/// are held to what operands and results have.
TEST_P(GpuRowTraffic, NormGradientsAndSums) {
  const int64_t rows = GetParam();
  std::string type = "tensor<" + std::to_string(rows) + "x768xbf16>";
  std::string row = "tensor<" + std::to_string(rows) + "xf32>";
  std::string vector = "tensor<768xbf16>", sum = "tensor<768xf32>";
  const int64_t size = rows * 768 * 2, columns = 768 * 2, stats = rows * 4;
  constexpr int64_t sums = 768 * 4, rowsPerBlock = 16;
  std::string text = kernelText(
      "rows",
      "%g: " + type + ", %x: " + type + ", %w: " + vector + ", %m: " + row +
          ", %s: " + row,
      type + ", " + sum + ", " + sum,
      "%d = nn.layer_norm_grad_input %g, %x, %w, %m, %s : (" + type + ", " +
          type + ", " + vector + ", " + row + ", " + row + ") -> " + type +
          "\n%dw, %db = nn.layer_norm_grad_weight %g, %x, %m, %s : (" + type +
          ", " + type + ", " + row + ", " + row + ") -> (" + sum + ", " + sum +
          ")",
      "%d, %dw, %db");
  std::vector<int64_t> bytes = {size,  size, columns, stats,
                                stats, size, sums,    sums};
  const int64_t least = 3 * size + columns + 2 * stats;
  const int64_t blocks = rows / rowsPerBlock;
  double first = checkBlock(text, bytes, least, rows, rowsPerBlock);
  heddle::emulator::Counters second = countFirstBlock(text, bytes, 1);
  EXPECT_GE(second.globalBytes, uint64_t(0.95 * 32 * second.globalSectors));
  constexpr int64_t columnsPerBlock = 8;
  EXPECT_EQ(second.globalBytes,
            uint64_t(2 * (blocks + 1) * columnsPerBlock * 4));
  auto adding = static_cast<double>(second.globalBytes * 768 / columnsPerBlock);
  EXPECT_LE(first * blocks + adding, 1.2 * (least + 2 * sums));
}

INSTANTIATE_TEST_SUITE_P(Rows, GpuRowTraffic, testing::Values(1024, 4096));

/// Tokens and positions: a row of a table counts as often as it is looked up.
TEST(GpuTraffic, Embeddings) {
  std::string type = "tensor<4096x768xbf16>", ids = "tensor<4096xi32>";
  std::string words = "tensor<997x768xbf16>", places = "tensor<1024x768xbf16>";
  constexpr int64_t size = 4096 * 768 * 2, row = 768 * 2;
  checkBlock(kernelText("rows",
                        "%w: " + words + ", %p: " + places + ", %i: " + ids +
                            ", %j: " + ids,
                        type,
                        "%a = nn.embedding %w[%i] : (" + words + ", " + ids +
                            ") -> " + type + "\n%b = nn.embedding %p[%j] : (" +
                            places + ", " + ids + ") -> " + type +
                            "\n%y = nn.add %a, %b : " + type,
                        "%y"),
             {997 * row, 1024 * row, 4096 * 4, 4096 * 4, size},
             3 * size + 2 * 4096 * 4, 4096, 1);
}

/// Rows for whose registers a block has more threads, and rows that it keeps in
/// memory.
TEST(GpuTraffic, CrossEntropy) {
  for (auto [vocabulary, leading] :
       {std::pair<int64_t, int64_t>(32003, 0), {50257, 0}, {50257, 50272}}) {
    std::string type = "tensor<4096x" + std::to_string(vocabulary) + "xbf16>";
    std::string gap = std::to_string(leading);
    std::string row = "tensor<4096xf32>", labels = "tensor<4096xi32>";
    int64_t size = vocabulary * 2, stats = 4;
    std::string loss = "%y, %lse = nn.cross_entropy %x, %l : (" + type + ", " +
                       labels + ") -> (" + row + ", " + row + ")";
    // No more than one row is touched: the block's.
    checkBlock(kernelText("rows", "%x: " + type + ", %l: " + labels,
                          row + ", " + row, loss, "%y, %lse",
                          leading ? gap + ", 0, 0, 0" : ""),
               {size, stats, stats, stats}, size + 3 * stats, 1, 1);
    checkBlock(kernelText("rows",
                          "%x: " + type + ", %l: " + labels + ", %d: " + row,
                          row + ", " + type,
                          loss +
                              "\n%g = nn.cross_entropy_grad %x, %l, %lse, %d : "
                              "(" +
                              type + ", " + labels + ", " + row + ", " + row +
                              ") -> " + type,
                          "%y, %g", leading ? gap + ", 0, 0, 0, " + gap : ""),
               {size, stats, stats, stats, size}, 2 * size + 3 * stats, 1, 1);
  }
}

/// The products of a vocabulary head whose rows of logits have gaps: logits,
/// and the gradients of what they are of. The first block reads a tile of rows
/// of each factor, by 16 bytes.
TEST(GpuTraffic, VocabularyHead) {
  struct Head {
    const char *arguments, *result, *body, *leading;
    std::vector<int64_t> bytes;
    int64_t k, resultBytes;
  };
  constexpr int64_t tokens = 4096, vocabulary = 50257, leading = 50272;
  constexpr int64_t width = 768, tile = 128;
  constexpr int64_t hidden = tokens * width * 2, table = vocabulary * width * 2;
  const Head heads[] = {
      {"%a: tensor<4096x768xbf16>, %b: tensor<50257x768xbf16>",
       "tensor<4096x50257xbf16>",
       "%y = nn.linear %a, %b {transposed} : (tensor<4096x768xbf16>, "
       "tensor<50257x768xbf16>) -> tensor<4096x50257xbf16>",
       "0, 0, 50272",
       {hidden, table, tokens * leading * 2},
       width,
       2},
      {"%a: tensor<4096x50257xbf16>, %b: tensor<50257x768xbf16>",
       "tensor<4096x768xbf16>",
       "%y = nn.linear %a, %b : (tensor<4096x50257xbf16>, "
       "tensor<50257x768xbf16>) -> tensor<4096x768xbf16>",
       "50272, 0, 0",
       {tokens * leading * 2, table, hidden},
       vocabulary,
       2},
      {"%a: tensor<4096x768xbf16>, %b: tensor<4096x50257xbf16>",
       "tensor<50257x768xf32>",
       "%y = nn.linear_grad_weight %a, %b {transposed} : "
       "(tensor<4096x768xbf16>, tensor<4096x50257xbf16>) -> "
       "tensor<50257x768xf32>",
       "0, 50272, 0",
       {hidden, tokens * leading * 2, table * 2},
       tokens,
       4}};
  for (const Head &head : heads) {
    SCOPED_TRACE(head.body);
    heddle::emulator::Counters counters =
        countFirstBlock(kernelText("gemm", head.arguments, head.result,
                                   head.body, "%y", head.leading),
                        head.bytes);
    auto asked = static_cast<double>(counters.globalBytes);
    double needed = 2 * tile * head.k * 2 + tile * tile * head.resultBytes;
    EXPECT_GE(asked, 0.95 * 32 * static_cast<double>(counters.globalSectors));
    EXPECT_LE(asked, 1.2 * needed);
  }
}

/// All positions add to one row, to rows that hardly repeat, and to some often
/// and to others never. The table is written once as it is without positions.
TEST(GpuTraffic, Scatter) {
  constexpr int64_t positions = 2048, columns = 768, rows = 1009;
  for (int64_t used : {int64_t(1), int64_t(40), rows}) {
    SCOPED_TRACE(std::to_string(used) + " rows");
    Buffer grads(positions * columns, true), ids(positions, false);
    Buffer table(rows * columns, false);
    grads.fill(1);
    for (int64_t i = 0; i < positions; ++i) {
      auto id = static_cast<int32_t>(i * i * 7 % used);
      std::memcpy(static_cast<char *>(ids.data()) + i * 4, &id, 4);
    }
    std::set<int64_t> written;
    for (int64_t i = 0; i < positions; ++i)
      written.insert(i * i * 7 % used);
    heddle::emulator::Counters counters;
    ASSERT_EQ(emulateKernel(
                  kernelText("scatter",
                             "%g: tensor<2048x768xbf16>, %i: tensor<2048xi32>",
                             "tensor<1009x768xf32>",
                             "%t = nn.embedding_grad %g[%i] : "
                             "(tensor<2048x768xbf16>, tensor<2048xi32>) -> "
                             "tensor<1009x768xf32>",
                             "%t"),
                  {&grads, &ids, &table}, {}, &counters),
              "");
    auto bytes = static_cast<double>(counters.globalBytes);
    auto least = static_cast<double>(
        positions * (columns * 2 + 4) +
        (rows + static_cast<int64_t>(written.size())) * columns * 4);
    EXPECT_GE(bytes, 0.95 * 32 * static_cast<double>(counters.globalSectors));
    EXPECT_LE(bytes, 1.2 * least);
    EXPECT_GE(bytes, least);
  }
}

/// Sums of parts of k are added by 16 bytes.
TEST(GpuTraffic, SumsOfParts) {
  constexpr int64_t k = 3072, size = 768 * 768;
  heddle::emulator::Counters counters = countFirstBlock(
      kernelText("gemm", "%x: tensor<768x3072xbf16>, %w: tensor<3072x768xbf16>",
                 "tensor<768x768xbf16>",
                 "%y = nn.linear %x, %w : (tensor<768x3072xbf16>, "
                 "tensor<3072x768xbf16>) -> tensor<768x768xbf16>",
                 "%y"),
      {768 * k * 2, 768 * k * 2, size * 2}, 1);
  EXPECT_EQ(counters.globalBytes, 32 * counters.globalSectors);
}

TEST(GpuTraffic, Sums) {
  std::string rows = "tensor<200x768xbf16>", sums = "tensor<768xf32>";
  constexpr int64_t size = 200 * 768;
  check("sums over rows",
        kernelText("columns", "%x: " + rows, sums,
                   "%y = nn.sum_rows %x : (" + rows + ") -> " + sums, "%y"),
        {{size, true}, {768, false}}, size * 2 + 768 * 4);
  std::string many = "tensor<70001xbf16>", two = "tensor<2xf32>";
  check("sums of squares",
        kernelText("block_sums", "%x: " + many, two,
                   "%y = nn.square_sums %x : (" + many + ") -> " + two, "%y"),
        {{70001, true}, {2, false}}, 70001 * 2);
}

} // namespace
