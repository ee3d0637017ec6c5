//===- PackedTest.cpp - Products with packed weights ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Support/AmxEmulation.h"
#include "KernelHarness.h"
#include "llvm/ADT/STLExtras.h"
#include <array>
#include <gtest/gtest.h>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;

namespace {

/// Sizes of one product, and how its weight is packed.
struct Packed {
  int64_t rows, in, out;
  int64_t bits, groups = 0;
  const char *scale = "f32";
  bool hasZeros = false;
  int64_t inputBlock = 0;
};

std::string shape(std::initializer_list<int64_t> sizes, const char *type) {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + type + ">";
}

std::string weightType(const Packed &p, StringRef type) {
  int64_t perWord = 32 / p.bits, panels = (p.out + 31) / 32;
  int64_t words = (p.in + perWord - 1) / perWord;
  if (p.bits < 16)
    return shape({panels, words, 32}, "i32");
  const char *narrow = type == "f16" ? "f16" : "bf16";
  return shape({panels, words, 32, perWord}, p.bits == 32 ? "f32" : narrow);
}

std::string bitsOf(const Packed &p) {
  std::string text = " bits " + std::to_string(p.bits);
  if (p.inputBlock > 0)
    text += " input_block " + std::to_string(p.inputBlock);
  return text;
}

/// A kernel of the product alone, of `type`; with a bias and more behind it if
/// it `ends`.
std::string textOf(const Packed &p, const char *type, bool ends) {
  std::string scales = shape({(p.out + 31) / 32, p.groups, 32}, p.scale);
  std::string x = shape({1, p.rows, p.in}, type), w = weightType(p, type);
  std::string y = shape({1, p.rows, p.out}, type);
  std::string bias = shape({p.out}, type),
              arguments = "%x: " + x + ", %w: " + w;
  std::string operands = "%x, %w", types = x + ", " + w;
  if (p.groups > 0) {
    arguments += ", %s: " + scales;
    operands += " scales %s";
    types += ", " + scales;
  }
  if (p.hasZeros) {
    arguments += ", %z: " + scales;
    operands += " zeros %z";
    types += ", " + scales;
  }
  if (ends) {
    arguments += ", %b: " + bias + ", %r: " + y;
    operands += " bias %b";
    types += ", " + bias;
  }
  if (p.groups > 0)
    operands += bitsOf(p);
  return "plan.kernel @k(" + arguments + ") -> " + y +
         " attributes {generator = #plan.generator<gemm>, ties = array<i64: "
         "-1>} {\n  %p = nn.packed_linear " +
         operands + " : (" + types + ") -> " + y + "\n" +
         (ends ? "  %g = nn.map gelu_tanh(%p) : " + y +
                     "\n  %y = nn.add %g, "
                     "%r : " +
                     y + "\n  plan.yield %y : " + y
               : "  plan.yield %p : " + y) +
         "\n}";
}

/// The target whose tiles multiply elements of this type.
const char *tilesOf(StringRef type) {
  return type == "f16" ? "amx-fp16" : "amx";
}

/// In one of the element types, which the sizes draw; in all in a long run.
void check(const Packed &p, bool ends = false) {
  for (const char *type : typesOf(textOf(p, "", ends), 0)) {
    KernelCheck check{textOf(p, type, ends), 5e-6};
    check.least = -(int64_t(1) << 31);
    check.limit = int64_t(1) << 31;
    check.marches.push_back(tilesOf(type));
    check.run();
  }
}

TEST(PackedProducts, Floats) {
  for (int64_t bits : {32, 16}) {
    check({1, 7, 33, bits});
    check({3, 40, 70, bits});
    check({17, 66, 129, bits});
    check({77, 20, 300, bits});
    check({2, 135, 64, bits}, /*ends=*/true);
  }
}

TEST(PackedProducts, CodesWithOneScale) {
  for (int64_t bits : {8, 4}) {
    check({1, 7, 33, bits, 1});
    check({5, 43, 290, bits, 1, "f16"});
    check({13, 129, 40, bits, 1, "bf16", /*hasZeros=*/true});
  }
}

/// Groups that are cut into blocks, the last one shorter.
TEST(PackedProducts, CodesInLongGroups) {
  for (int64_t bits : {8, 4}) {
    check({2, 300, 40, bits, 1, "f16", /*hasZeros=*/true});
    check({7, 1034, 33, bits, 1});
    check({1, 800, 33, bits, 2, "f16", /*hasZeros=*/true});
  }
}

TEST(PackedProducts, CodesInGroups) {
  for (int64_t bits : {8, 4}) {
    check({1, 64, 65, bits, 2, "f16"});
    check({4, 96, 34, bits, 3, "f16", /*hasZeros=*/true});
    check({9, 120, 200, bits, 5, "f32", /*hasZeros=*/true});
    check({65, 64, 31, bits, 8, "bf16"}, /*ends=*/true);
  }
}

/// Rows as codes too: blocks that are groups, that cut them, and shorter last
/// ones.
TEST(PackedProducts, CodesOfRows) {
  for (int64_t bits : {8, 4}) {
    check({1, 7, 33, bits, 1, "f32", false, 8});
    check({5, 64, 70, bits, 2, "f16", false, 32});
    check({8, 300, 290, bits, 1, "f16", true, 128});
    check({13, 192, 40, bits, 3, "bf16", true, 24});
    check({70, 160, 129, bits, 5, "f16", true, 32}, /*ends=*/true);
  }
}

/// Products of `outs` columns of the same rows in one kernel, each a result
/// with a bias; or, with `joint`, one result that is computed of an element of
/// each.
std::string textOfSeveral(Packed p, const std::vector<int64_t> &outs,
                          const char *type, bool joint) {
  std::string x = shape({1, p.rows, p.in}, type), arguments = "%x: " + x;
  std::string body, results, yields, comma;
  for (size_t i = 0; i < outs.size(); ++i, comma = ", ") {
    p.out = outs[i];
    std::string number = std::to_string(i), w = weightType(p, type);
    std::string scales = shape({(p.out + 31) / 32, p.groups, 32}, p.scale);
    std::string y = shape({1, p.rows, p.out}, type), b = shape({p.out}, type);
    bool hasCodes = p.groups > 0;
    arguments += ", %w" + number + ": " + w + ", %b" + number + ": " + b;
    body += "  %p" + number + " = nn.packed_linear %x, %w" + number;
    std::string types = x + ", " + w;
    for (const char *part : {"scales", "zeros"})
      if (hasCodes && (p.hasZeros || part[0] == 's')) {
        std::string name = std::string("%") + part[0] + number;
        arguments += ", " + name + ": " + scales;
        body += std::string(" ") + part + " " + name;
        types += ", " + scales;
      }
    body += " bias %b" + number + (hasCodes ? bitsOf(p) : "") + " : (" + types +
            ", " + b + ") -> " + y + "\n";
    results += comma + y;
    yields += comma + "%p" + number;
  }
  if (joint) {
    results = shape({1, p.rows, p.out}, type);
    body += "  %g = nn.map silu(%p0) : " + results +
            "\n  %y = nn.mul %g, %p1 : " + results + "\n";
    yields = "%y";
  }
  bool several = !joint && outs.size() > 1;
  return "plan.kernel @k(" + arguments + ") -> " +
         (several ? "(" + results + ")" : results) +
         " attributes {generator = #plan.generator<gemm>, ties = array<i64: " +
         (several ? "-1, -1, -1" : "-1") + ">} {\n" + body + "  plan.yield " +
         yields + " : " + results + "\n}";
}

void checkSeveral(const Packed &p, const std::vector<int64_t> &outs,
                  bool joint = false) {
  for (const char *type : typesOf(textOfSeveral(p, outs, "", joint), 0)) {
    KernelCheck check{textOfSeveral(p, outs, type, joint), 5e-6};
    check.least = -(int64_t(1) << 31);
    check.limit = int64_t(1) << 31;
    check.marches.push_back(tilesOf(type));
    check.run();
  }
}

/// As queries, keys and values: panels of one, of the other, of both for a
/// thread.
TEST(PackedProducts, SeveralOfTheSameRows) {
  checkSeveral({1, 40, 0, 32}, {70, 33, 7});
  checkSeveral({3, 66, 0, 16}, {160, 32, 32});
  checkSeveral({17, 64, 0, 8, 2, "f16"}, {33, 1, 65});
  checkSeveral({70, 48, 0, 4, 3, "f16", /*hasZeros=*/true}, {64, 5, 5});
  checkSeveral({8, 64, 0, 4, 1, "f16", false, 32}, {64, 5, 33});
}

/// As a gate and what it lets through: a tile has both.
TEST(PackedProducts, ElementsOfTwoInOneTile) {
  checkSeveral({1, 41, 0, 32}, {290, 290}, /*joint=*/true);
  checkSeveral({7, 64, 0, 16}, {65, 65}, /*joint=*/true);
  checkSeveral({8, 300, 0, 8, 1, "f16"}, {40, 40}, /*joint=*/true);
  checkSeveral({13, 64, 0, 8, 4, "bf16", /*hasZeros=*/true}, {97, 97},
               /*joint=*/true);
  checkSeveral({67, 96, 0, 4, 3, "f16", /*hasZeros=*/true}, {31, 31},
               /*joint=*/true);
  checkSeveral({8, 96, 0, 4, 3, "f16", false, 32}, {97, 97}, /*joint=*/true);
}

void checkOnTiles(const std::string &text, const char *type = "bf16") {
  KernelCheck check{text, 5e-6};
  check.least = -(int64_t(1) << 31);
  check.limit = int64_t(1) << 31;
  check.marches = {tilesOf(type)};
  check.run();
}

/// All numbers of rows, in tiles and beyond; the widths of a tile and others;
/// lengths that whole tiles have, that shorter ones have, and that none have.
TEST(PackedProducts, OnTiles) {
  auto alone = [&](const Packed &p, bool ends = false) {
    checkOnTiles(textOf(p, "bf16", ends));
    if (p.bits == 16)
      checkOnTiles(textOf(p, "f16", ends), "f16");
  };
  auto several = [&](const Packed &p, const std::vector<int64_t> &outs,
                     bool joint) {
    checkOnTiles(textOfSeveral(p, outs, "bf16", joint));
  };
  for (int64_t bits : {16, 8, 4}) {
    int64_t groups = bits < 16 ? 1 : 0;
    for (int64_t rows : casesOf({1, 15, 17, 130}, {5, 16, 33}))
      alone({rows, 128, 33, bits, groups, "f16"});
    for (int64_t out : casesOf({16, 97}, {1, 31}))
      alone({18, 64, out, bits, groups, "f16"});
    for (int64_t in : casesOf({16, 104, 1120}, {40, 288, 544}))
      alone({6, in, 70, bits, groups, "f16", /*hasZeros=*/groups > 0});
    alone({20, 256, 129, bits, 4 * groups, "bf16"}, /*ends=*/true);
    alone({7, 192, 65, bits, 3 * groups, "f16", false, 64 * groups});
    alone({37, 1152, 65, bits, groups, "f16", /*hasZeros=*/groups > 0,
           128 * groups});
    several({21, 96, 0, bits, groups, "f16"}, {70, 33, 7}, /*joint=*/false);
    several({9, 64, 0, bits, groups, "f16"}, {97, 97}, /*joint=*/true);
    several({49, 128, 0, bits, 2 * groups, "f16"}, {65, 65}, /*joint=*/true);
  }
}

/// More rows than are kept at once, whose inputs are more than the second cache
/// has room for; panels whose sums are kept together, and more of them.
TEST(PackedProducts, OnTilesInCutsOfTheInputs) {
  checkOnTiles(textOf({257, 2304, 33, 16}, "bf16", /*ends=*/true));
  checkOnTiles(textOf({129, 2304, 33, 16}, "f16", false), "f16");
  checkOnTiles(textOf({129, 8448, 33, 8, 11, "f16", false, 64}, "bf16", false));
  if (isLong()) {
    checkOnTiles(textOf({130, 4608, 33, 8, 1, "f16"}, "bf16", false));
    checkOnTiles(textOf({130, 4608, 33, 4, 36, "f16", true}, "bf16", false));
    checkOnTiles(
        textOfSeveral({256, 2304, 0, 16}, {520, 520}, "bf16", /*joint=*/true));
  }
  checkOnTiles(textOfSeveral({130, 4608, 0, 8, 36, "f16"}, {33, 33}, "bf16",
                             /*joint=*/true));
}

/// Norms that make the rows of two products of 70 and 33 columns.
void checkPrologue(const Packed &p, const std::string &norm) {
  for (const char *type : typesOf(norm + textOf(p, "", false), 0)) {
    std::string text = R"(
    plan.kernel @k(%x: $X, %g: $G, %b: $G, %w0: $W, %s0: $S, %w1: $V, %s1: $U) -> ($Y, $Z)
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
      $NORM
      %y = nn.packed_linear %h, %w0 $C %s0 $B : ($X, $W, $S) -> $Y
      %z = nn.packed_linear %h, %w1 $C %s1 $B : ($X, $V, $U) -> $Z
      plan.yield %y, %z : $Y, $Z
    })";
    Packed second = p;
    second.out = 33;
    bool hasCodes = p.groups > 0;
    KernelCheck check{
        instantiate(text,
                    {{"NORM", norm},
                     {"X", shape({1, p.rows, p.in}, type)},
                     {"G", shape({p.in}, type)},
                     {"W", weightType(p, type)},
                     {"V", weightType(second, type)},
                     {"S", hasCodes ? shape({3, p.groups, 32}, p.scale)
                                    : shape({p.out}, type)},
                     {"U", hasCodes ? shape({2, p.groups, 32}, p.scale)
                                    : shape({33}, type)},
                     {"R", shape({1, p.rows}, "f32")},
                     {"C", hasCodes ? "scales" : "bias"},
                     {"B", hasCodes ? "bits " + std::to_string(p.bits) : ""},
                     {"Y", shape({1, p.rows, p.out}, type)},
                     {"Z", shape({1, p.rows, 33}, type)}}),
        2e-5};
    check.least = -(int64_t(1) << 31);
    check.limit = int64_t(1) << 31;
    check.marches.push_back(tilesOf(type));
    check.run();
  }
}

/// Every thread makes all rows, in more than one block of them too.
TEST(PackedProducts, RowsThatANormMakes) {
  std::string layerNorm = "%h, %m, %r = nn.layer_norm %x, %g, %b {eps = "
                          "1.0e-5} : ($X, $G, $G) -> ($X, $R, $R)";
  std::string rmsNorm = "%h, %r = nn.rms_norm %x, %g {eps = 1.0e-5} : ($X, "
                        "$G) -> ($X, $R)";
  std::string sum = "%h = nn.add %x, %x : $X";
  const Packed sizes[] = {{1, 7, 70, 32},      {3, 40, 70, 16},
                          {70, 66, 70, 16},    {5, 64, 70, 8, 2, "f16"},
                          {16, 300, 70, 8, 1}, {2, 96, 70, 4, 3, "bf16"}};
  for (auto [number, norm] :
       llvm::enumerate(std::array{layerNorm, rmsNorm, sum}))
    for (auto [size, p] : llvm::enumerate(sizes))
      if (isLong() || (number + size) % 2 == 0)
        checkPrologue(p, norm);
}

/// Heads of `columns` columns, of which `dims` are turned: those of two
/// products, of which one is a result before they are turned too.
void checkHeads(int64_t rows, int64_t columns, int64_t dims, int64_t heads,
                int64_t bits = 32) {
  Packed p{rows, 24, columns * heads, bits};
  Packed second{rows, 24, columns, bits};
  for (const char *type : typesOf("", rows / 2 + bits / 16)) {
    std::string text = R"(
    plan.kernel @k(%x: $X, %w0: $W, %b: $B, %w1: $V, %at: $P) -> ($Y, $Z, $Z)
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1, -1>} {
      %y = nn.packed_linear %x, %w0 bias %b : ($X, $W, $B) -> $Y
      %z = nn.packed_linear %x, %w1 : ($X, $V) -> $Z
      %u = nn.rotary %y at %at {dims = $D, heads = $H, theta = 1.0e2} : ($Y, $P) -> $Y
      %v = nn.rotary %z at %at {dims = $D, heads = 1, theta = 1.0e2} : ($Z, $P) -> $Z
      plan.yield %u, %v, %z : $Y, $Z, $Z
    })";
    KernelCheck check{instantiate(text, {{"X", shape({1, rows, 24}, type)},
                                         {"W", weightType(p, type)},
                                         {"V", weightType(second, type)},
                                         {"B", shape({p.out}, type)},
                                         {"P", shape({1, rows}, "i32")},
                                         {"Y", shape({1, rows, p.out}, type)},
                                         {"Z", shape({1, rows, columns}, type)},
                                         {"D", std::to_string(dims)},
                                         {"H", std::to_string(heads)}}),
                      2e-5};
    check.limit = 30;
    check.marches.push_back(tilesOf(type));
    check.run();
  }
}

/// Norms of heads of two products, the first of which are turned then; `weight`
/// makes the norms' weights of `g`.
void checkHeadNorms(int64_t rows, int64_t columns, int64_t heads,
                    const std::string &weight) {
  Packed p{rows, 24, columns * heads, 32};
  Packed second{rows, 24, columns, 32};
  for (const char *type : typesOf("", rows / 2)) {
    std::string text = R"(
    plan.kernel @k(%x: $X, %w0: $W, %b: $B, %w1: $V, %g: $G, %at: $P) -> ($Y, $Z)
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
      $WEIGHT
      %y = nn.packed_linear %x, %w0 bias %b : ($X, $W, $B) -> $Y
      %z = nn.packed_linear %x, %w1 : ($X, $V) -> $Z
      %y1 = nn.reshape %y : ($Y) -> $H
      %y2, %y3 = nn.rms_norm %y1, %h {eps = 1.0e-5} : ($H, $G) -> ($H, $R)
      %y4 = nn.reshape %y2 : ($H) -> $Y
      %z1 = nn.reshape %z : ($Z) -> $K
      %z2, %z3 = nn.rms_norm %z1, %h {eps = 1.0e-5} : ($K, $G) -> ($K, $S)
      %z4 = nn.reshape %z2 : ($K) -> $Z
      %u = nn.rotary %y4 at %at {dims = $D, heads = $N, theta = 1.0e2} : ($Y, $P) -> $Y
      plan.yield %u, %z4 : $Y, $Z
    })";
    KernelCheck check{
        instantiate(text, {{"WEIGHT", weight},
                           {"X", shape({1, rows, 24}, type)},
                           {"W", weightType(p, type)},
                           {"V", weightType(second, type)},
                           {"B", shape({p.out}, type)},
                           {"G", shape({columns}, type)},
                           {"P", shape({1, rows}, "i32")},
                           {"Y", shape({1, rows, p.out}, type)},
                           {"Z", shape({1, rows, columns}, type)},
                           {"H", shape({1, rows, heads, columns}, type)},
                           {"K", shape({1, rows, 1, columns}, type)},
                           {"R", shape({1, rows, heads}, "f32")},
                           {"S", shape({1, rows, 1}, "f32")},
                           {"D", std::to_string(columns / 2 * 2)},
                           {"N", std::to_string(heads)}}),
        2e-5};
    check.limit = 30;
    check.run();
  }
}

/// In place, and of odd widths.
TEST(PackedProducts, HeadsWithNorms) {
  std::string same = "%h = nn.map silu(%g) : $G";
  checkHeadNorms(1, 64, 3, same);
  checkHeadNorms(3, 7, 5, same);
  checkHeadNorms(5, 20, 1, same);
  checkHeadNorms(16, 128, 2, same);
  checkHeadNorms(70, 33, 4, same);
}

/// A residual before the norm is a result too, and so are the norm's rows.
TEST(PackedProducts, RowsThatAreKept) {
  for (const char *type : {"f32", "bf16"})
    for (auto [rows, in, out] :
         {std::tuple<int64_t, int64_t, int64_t>{1, 7, 70},
          {3, 40, 33},
          {16, 65, 64},
          {70, 66, 66}}) {
      std::string text = R"(
    plan.kernel @k(%x: $X, %r: $X, %g: $G, %w: $W) -> ($X, $X, $Y)
        attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1, -1>} {
      %n, %s = nn.rms_norm %x, %g {eps = 1.0e-5} : ($X, $G) -> ($X, $R)
      %a = nn.add %n, %r : $X
      %h, %t = nn.rms_norm %a, %g {eps = 1.0e-5} : ($X, $G) -> ($X, $R)
      %y = nn.packed_linear %h, %w : ($X, $W) -> $Y
      plan.yield %a, %h, %y : $X, $X, $Y
    })";
      KernelCheck check{
          instantiate(text, {{"X", shape({1, rows, in}, type)},
                             {"G", shape({in}, type)},
                             {"R", shape({1, rows}, "f32")},
                             {"W", weightType({rows, in, out, 32}, type)},
                             {"Y", shape({1, rows, out}, type)}}),
          2e-5};
      check.run();
    }
}

/// Narrower than a panel, of several, and such that panels end within a head;
/// more than one block of rows.
TEST(PackedProducts, HeadsThatAreTurned) {
  checkHeads(1, 64, 64, 3);
  checkHeads(3, 6, 4, 7);
  checkHeads(5, 20, 20, 5);
  checkHeads(2, 80, 32, 3);
  checkHeads(16, 128, 128, 2);
  checkHeads(70, 10, 10, 4);
  checkHeads(3, 20, 20, 5, /*bits=*/16);
  checkHeads(35, 64, 64, 3, /*bits=*/16);
}

/// Whoever makes which part of the result, and in whatever order: one thread
/// does all that is taken, or as many as there are.
void checkShares(const Packed &p, const std::string &march) {
  KernelCheck check{textOf(p, "bf16", /*ends=*/true)};
  check.least = -(int64_t(1) << 31);
  check.limit = int64_t(1) << 31;
  ParsedKernel parsed(check.text);
  planir::KernelOp kernel = parsed.kernel;
  LoadedKernel loaded(kernel, *cpu::CpuTarget::parse(march));
  std::vector<eval::Tensor> arguments = randomArguments(kernel, check);
  auto run = [&](RunKernel launch) {
    return execute(kernel, arguments, launch)[0];
  };
  eval::Tensor alone =
      run([&](const std::vector<void *> &refs) { loaded.run(refs, {}, 1); });
  for (int64_t threads : {2, 3, 7}) {
    expectSameBits(run([&](const std::vector<void *> &refs) {
                     loaded.run(refs, {}, threads);
                   }),
                   alone, check.text);
    expectSameBits(run([&](const std::vector<void *> &refs) {
                     loaded.runParallel(refs, {}, threads);
                   }),
                   alone, check.text);
  }
}

/// Weights that are large enough for pieces that anyone takes: of one row, of
/// several, and of more than a block of rows.
TEST(PackedProducts, AnyThreadTakesWhatIsLeft) {
  const Packed sizes[] = {{1, 520, 1700, 16},
                          {5, 1024, 1700, 8, 16, "f16"},
                          {70, 64, 1700, 16},
                          {300, 64, 3300, 4, 2, "f16", true}};
  for (auto [number, p] : llvm::enumerate(sizes))
    for (bool isNative : {true, false})
      if (isLong() || isNative == (number == 1 || number == 2))
        checkShares(p, isNative ? "native" : "x86-64-v3");
  // Tiles, whose rows are cut along K.
  if (isLong() || targetOf("native")->hasAmx)
    checkShares({70, 8192, 2100, 16}, "native");
}

constexpr int64_t largestCodes = 0x7f7f7f7f;

void checkRowsAlone(const cpu::CpuTarget &target, bool isLargest = false,
                    const char *type = "bf16") {
  auto load = [&](const std::string &text) {
    auto parsed = std::make_unique<ParsedKernel>(text);
    return std::pair(std::make_unique<LoadedKernel>(parsed->kernel, target),
                     std::move(parsed));
  };
  auto checkForm = [&](const Packed &p,
                       llvm::function_ref<std::string(const Packed &)> text) {
    auto [single, parsed] = load(text(p));
    for (int64_t rows : casesOf({3, 16, 70}, {2, 8, 130})) {
      Packed many = p;
      many.rows = rows;
      auto [batch, parsedBatch] = load(text(many));
      KernelCheck check{text(p)};
      check.least = isLargest ? largestCodes : -(int64_t(1) << 31);
      check.limit = isLargest ? largestCodes + 1 : int64_t(1) << 31;
      std::vector<eval::Tensor> arguments =
          randomArguments(parsedBatch->kernel, check);
      auto bytes = llvm::map_to_vector(arguments, [](eval::Tensor &tensor) {
        std::vector<char> raw(tensor.numBytes());
        tensor.toBytes(raw.data());
        return raw;
      });
      if (isLargest) // Of all bits that a bf16 has: 1.9921875.
        for (size_t at = 0; at < bytes[0].size(); ++at)
          bytes[0][at] = at % 2 == 0 ? '\xff' : '\x3f';
      std::vector<uint16_t> together(rows * p.out), alone(rows * p.out);
      auto refs = [&](int64_t row, std::vector<uint16_t> &to) {
        std::vector<void *> pointers;
        for (auto &each : bytes)
          pointers.push_back(each.data());
        pointers[0] = bytes[0].data() + row * p.in * 2;
        pointers.push_back(to.data() + row * p.out);
        return pointers;
      };
      batch->run(refs(0, together), {}, 3);
      for (int64_t row = 0; row < rows; ++row)
        single->run(refs(row, alone), {}, row % 4 + 1);
      EXPECT_EQ(together, alone) << rows << " rows of\n" << text(p);
    }
  };
  for (Packed p :
       {Packed{1, 96, 417, 16}, Packed{1, 96, 417, 8, 1},
        Packed{1, 96, 417, 8, 3, "f16", true},
        Packed{1, 96, 417, 4, 3, "f16", true},
        Packed{1, 96, 417, 8, 1, "f16", false, 64},
        Packed{1, 96, 417, 4, 3, "f16", true, 32}, Packed{1, 576, 40, 16},
        Packed{1, 576, 40, 8, 1}, Packed{1, 576, 40, 4, 4, "f16", true}})
    checkForm(p, [&](const Packed &p) { return textOf(p, type, false); });
  for (Packed p : {Packed{1, 96, 97, 16}, Packed{1, 96, 97, 8, 1},
                   Packed{1, 96, 97, 4, 3}})
    checkForm(p, [&](const Packed &p) {
      return textOfSeveral(p, {p.out, p.out}, type, /*joint=*/true);
    });
}

/// The rows of a batch, one by one, have the bits that they have in the batch,
/// with any number of threads.
TEST(PackedProducts, RowsDoNotDependOnOthers) {
  checkRowsAlone(*cpu::CpuTarget::parse("native"));
}

/// Numbers and codes are all the largest ones, where sums of a few of their
/// products are in less than 32 bits.
TEST(PackedProducts, TheLargestRowsDoNotDependOnOthers) {
  checkRowsAlone(*cpu::CpuTarget::parse("native"), /*isLargest=*/true);
}

/// On tiles too, where one row of numbers is on vectors.
TEST(PackedProducts, RowsOnTilesDoNotDependOnOthers) {
  std::optional<cpu::CpuTarget> target = emulatedAmxTarget();
  if (!target)
    GTEST_SKIP() << "this machine cannot run kernels for AMX";
  checkRowsAlone(*target);
  checkRowsAlone(*targetOf("amx-fp16"), /*isLargest=*/false, "f16");
}

} // namespace
