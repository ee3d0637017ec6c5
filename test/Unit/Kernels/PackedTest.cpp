//===- PackedTest.cpp - Products with packed weights ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"
#include "mlir/Parser/Parser.h"
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
};

std::string shape(std::initializer_list<int64_t> sizes, const char *type) {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + type + ">";
}

std::string weightType(const Packed &p) {
  int64_t perWord = 32 / p.bits, panels = (p.out + 31) / 32;
  int64_t words = (p.in + perWord - 1) / perWord;
  if (p.bits < 16)
    return shape({panels, words, 32}, "i32");
  return shape({panels, words, 32, perWord}, p.bits == 32 ? "f32" : "bf16");
}

/// A kernel of the product alone, of `type`; with a bias and more behind it if
/// it `ends`.
std::string textOf(const Packed &p, const char *type, bool ends) {
  std::string scales = shape({(p.out + 31) / 32, p.groups, 32}, p.scale);
  std::string x = shape({1, p.rows, p.in}, type), w = weightType(p);
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
    operands += " bits " + std::to_string(p.bits);
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

void check(const Packed &p, bool ends = false) {
  for (const char *type : {"f32", "bf16"}) {
    KernelCheck check{textOf(p, type, ends), 5e-6};
    check.least = -(int64_t(1) << 31);
    check.limit = int64_t(1) << 31;
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

/// Products of `outs` columns of the same rows in one kernel, each a result
/// with a bias; or, with `joint`, one result that is computed of an element of
/// each.
std::string textOfSeveral(Packed p, const std::vector<int64_t> &outs,
                          const char *type, bool joint) {
  std::string x = shape({1, p.rows, p.in}, type), arguments = "%x: " + x;
  std::string body, results, yields, comma;
  for (size_t i = 0; i < outs.size(); ++i, comma = ", ") {
    p.out = outs[i];
    std::string number = std::to_string(i), w = weightType(p);
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
    body += " bias %b" + number +
            (hasCodes ? " bits " + std::to_string(p.bits) : "") + " : (" +
            types + ", " + b + ") -> " + y + "\n";
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
  for (const char *type : {"f32", "bf16"}) {
    KernelCheck check{textOfSeveral(p, outs, type, joint), 5e-6};
    check.least = -(int64_t(1) << 31);
    check.limit = int64_t(1) << 31;
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
}

/// The rows of a batch, one by one, have the bits that they have in the batch,
/// with any number of threads.
TEST(PackedProducts, RowsDoNotDependOnOthers) {
  DialectRegistry registry;
  cpu::registerKernelCompiler(registry);
  auto context = createKernelContext(registry);
  cpu::CpuTarget target = *cpu::CpuTarget::parse("native");
  auto load = [&](const Packed &p) {
    auto module =
        parseSourceString<ModuleOp>(textOf(p, "bf16", false), context.get());
    auto kernel = *module->getOps<planir::KernelOp>().begin();
    return std::pair(std::make_unique<LoadedKernel>(kernel, target),
                     std::move(module));
  };
  for (Packed p : {Packed{1, 96, 417, 16}, Packed{1, 96, 417, 8, 1},
                   Packed{1, 96, 417, 8, 3, "f16", true},
                   Packed{1, 96, 417, 4, 3, "f16", true}}) {
    auto [single, module] = load(p);
    std::string text = textOf(p, "bf16", false);
    for (int64_t rows : {2, 3, 8, 16, 70}) {
      Packed many = p;
      many.rows = rows;
      auto [batch, batchModule] = load(many);
      auto kernel = *batchModule->getOps<planir::KernelOp>().begin();
      KernelCheck check{text};
      check.least = -(int64_t(1) << 31);
      check.limit = int64_t(1) << 31;
      std::vector<eval::Tensor> arguments = randomArguments(kernel, check);
      auto bytes = llvm::map_to_vector(arguments, [](eval::Tensor &tensor) {
        std::vector<char> raw(tensor.numBytes());
        tensor.toBytes(raw.data());
        return raw;
      });
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
      EXPECT_EQ(together, alone) << p.bits << " bits, " << rows << " rows";
    }
  }
}

} // namespace
