//===- PackedProductTest.cpp - Products with packed weights on GPUs -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Kernels/KernelReference.h"
#include "Chips.h"
#include "heddle/Codegen/GPU/Emulation.h"
#include "heddle/Codegen/GPU/GpuBackEnd.h"
#include "heddle/PlanFormat/PackedWeight.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::test;

namespace {

/// Sizes of one product, and how its weight is packed.
struct Packed {
  int64_t rows, in, out;
  int64_t bits, groups = 0;
  const char *scale = "f16";
  bool hasZeros = false;
  int64_t inputBlock = 0;
};

std::string shape(llvm::ArrayRef<int64_t> sizes, const std::string &type) {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + type + ">";
}

/// The type of words, or of scales.
std::string packedType(const Packed &p, plan::PackedPart part,
                       const std::string &type) {
  plan::PackedWeight weight;
  weight.part = part;
  weight.shape = {p.in, p.out};
  weight.bits = p.bits;
  weight.group = p.groups > 0 ? p.in / p.groups : 0;
  weight.layout = plan::PackedLayout::Fragments;
  std::string element = part == plan::PackedPart::Scales ? p.scale
                        : p.bits < 16                    ? "i32"
                        : p.bits == 32                   ? "f32"
                        : type == "f16"                  ? "f16"
                                                         : "bf16";
  return shape(weight.stateShape(), element);
}

/// A kernel of the product alone, of `type`; with a bias and more after it if
/// it `ends`.
std::string textOf(const Packed &p, const std::string &type, bool ends) {
  std::string scales = packedType(p, plan::PackedPart::Scales, type);
  std::string x = shape({1, p.rows, p.in}, type);
  std::string w = packedType(p, plan::PackedPart::Words, type);
  std::string y = shape({1, p.rows, p.out}, type), b = shape({p.out}, type);
  std::string arguments = "%x: " + x + ", %w: " + w;
  std::string operands = "%x, %w", types = x + ", " + w;
  auto add = [&](const std::string &name, const std::string &word,
                 const std::string &of) {
    arguments += ", " + name + ": " + of;
    if (word == "zeros")
      arguments += " {test.integral}";
    operands += " " + word + " " + name;
    types += ", " + of;
  };
  if (p.groups > 0)
    add("%s", "scales", scales);
  if (p.hasZeros)
    add("%z", "zeros", scales);
  if (ends) {
    add("%b", "bias", b);
    arguments += ", %r: " + y;
  }
  if (p.groups > 0)
    operands += " bits " + std::to_string(p.bits);
  if (p.inputBlock > 0)
    operands += " input_block " + std::to_string(p.inputBlock);
  return "plan.kernel @k(" + arguments + ") -> " + y +
         " attributes {generator = #plan.generator<gemm>, ties = array<i64: "
         "-1>} {\n  %p = nn.packed_linear " +
         operands + " layout fragments : (" + types + ") -> " + y + "\n" +
         (ends
              ? "  %g = nn.map gelu_tanh(%p) : " + y +
                    "\n  %y = nn.add %g, %r : " + y + "\n  plan.yield %y : " + y
              : "  plan.yield %p : " + y) +
         "\n}";
}

KernelCheck checkOf(const std::string &text) {
  KernelCheck check{text, 5e-6};
  check.least = -(int64_t(1) << 31);
  check.limit = int64_t(1) << 31;
  return check;
}

/// In one of the element types, which the sizes draw; in all in a long run.
void check(const Packed &p, bool ends = false) {
  for (const char *type : typesOf(textOf(p, "", ends), 0))
    checkOf(textOf(p, type, ends)).run();
}

void checkTypes(const Packed &p, std::initializer_list<const char *> types) {
  for (const char *type : types)
    checkOf(textOf(p, type, false)).run();
}

TEST(GpuPackedProducts, Floats) {
  checkTypes({3, 40, 33, 16}, {"bf16", "f16"});
  checkTypes({3, 40, 33, 32}, {"f32"});
  for (int64_t bits : {32, 16}) {
    check({1, 7, 33, bits});
    check({70, 66, 18, bits});
    check({33, 135, 16, bits}, /*ends=*/true);
    check({9, 600, 40, bits}, /*ends=*/true);
  }
}

TEST(GpuPackedProducts, CodesWithOneScale) {
  for (int64_t bits : {8, 4}) {
    checkTypes({3, 64, 33, bits, 1}, {"bf16", "f16", "f32"});
    check({1, 7, 33, bits, 1, "f32"});
    check({5, 43, 50, bits, 1});
    check({13, 129, 40, bits, 1, "bf16", /*hasZeros=*/true});
    check({66, 700, 16, bits, 1, "f16", /*hasZeros=*/true});
  }
}

/// Groups of whole blocks, of halves, with padding, and of several blocks.
TEST(GpuPackedProducts, CodesInGroups) {
  for (int64_t bits : {8, 4}) {
    checkTypes({4, 192, 34, bits, 3, "f16", /*hasZeros=*/true},
               {"bf16", "f16", "f32"});
    check({1, 64, 40, bits, 2, "f32"});
    check({9, 160, 20, bits, 5, "f32", /*hasZeros=*/true});
    check({17, 120, 20, bits, 5, "bf16", /*hasZeros=*/true});
    check({65, 64, 31, bits, 8}, /*ends=*/true);
    check({2, 1280, 16, bits, 2});
  }
}

/// Blocks of rounded inputs that are groups, that cut them, and shorter last
/// ones.
TEST(GpuPackedProducts, CodesOfRows) {
  for (int64_t bits : {8, 4}) {
    checkTypes({3, 128, 20, bits, 2, "f16", false, 64}, {"bf16", "f16", "f32"});
    check({1, 7, 33, bits, 1, "f32", false, 8});
    check({8, 300, 20, bits, 1, "f16", true, 128});
    check({13, 192, 40, bits, 3, "bf16", true, 64});
    check({5, 800, 16, bits, 2, "f16", true, 128}, /*ends=*/true);
    check({9, 520, 16, bits, 1, "f16", false, 128});
  }
}

/// Products of `outs` columns of the same rows in one kernel, each a result
/// with a bias; or, with `joint`, one result that is computed of an element of
/// each.
std::string textOfSeveral(Packed p, llvm::ArrayRef<int64_t> outs,
                          const std::string &type, bool joint) {
  std::string x = shape({1, p.rows, p.in}, type), arguments = "%x: " + x;
  std::string body, results, yields, ties, comma;
  for (size_t i = 0; i < outs.size(); ++i, comma = ", ") {
    p.out = outs[i];
    std::string number = std::to_string(i);
    std::string w = packedType(p, plan::PackedPart::Words, type);
    std::string y = shape({1, p.rows, p.out}, type), b = shape({p.out}, type);
    arguments += ", %w" + number + ": " + w + ", %b" + number + ": " + b;
    body += "  %p" + number + " = nn.packed_linear %x, %w" + number;
    std::string types = x + ", " + w;
    if (p.groups > 0) {
      std::string scales = packedType(p, plan::PackedPart::Scales, type);
      arguments += ", %s" + number + ": " + scales;
      body += " scales %s" + number;
      types += ", " + scales;
    }
    body += " bias %b" + number;
    if (p.groups > 0)
      body += " bits " + std::to_string(p.bits);
    if (p.inputBlock > 0)
      body += " input_block " + std::to_string(p.inputBlock);
    body += " layout fragments : (" + types + ", " + b + ") -> " + y + "\n";
    results += comma + y;
    yields += comma + "%p" + number;
    ties += comma + "-1";
  }
  if (joint) {
    results = shape({1, p.rows, p.out}, type);
    body += "  %g = nn.map silu(%p0) : " + results +
            "\n  %y = nn.mul %g, %p1 : " + results + "\n";
    yields = "%y";
    ties = "-1";
  }
  return "plan.kernel @k(" + arguments + ") -> (" + results +
         ") attributes {generator = #plan.generator<gemm>, ties = array<i64: " +
         ties + ">} {\n" + body + "  plan.yield " + yields + " : " + results +
         "\n}";
}

void checkSeveral(const Packed &p, llvm::ArrayRef<int64_t> outs,
                  bool joint = false) {
  for (const char *type : typesOf(textOfSeveral(p, outs, "", joint), 0))
    checkOf(textOfSeveral(p, outs, type, joint)).run();
}

/// As queries, keys and values, each in blocks of its own.
TEST(GpuPackedProducts, SeveralOfTheSameRows) {
  checkSeveral({1, 40, 0, 32}, {70, 33, 7});
  checkSeveral({3, 66, 0, 16}, {48, 32, 32});
  checkSeveral({17, 64, 0, 8, 2}, {33, 1, 65});
  checkSeveral({8, 64, 0, 4, 1, "f16", false, 32}, {64, 5, 33});
}

/// As a gate and what it lets through: a block has both.
TEST(GpuPackedProducts, ElementsOfTwoInOneBlock) {
  checkSeveral({1, 41, 0, 32}, {50, 50}, /*joint=*/true);
  checkSeveral({7, 64, 0, 16}, {65, 65}, /*joint=*/true);
  checkSeveral({13, 64, 0, 8, 4, "bf16"}, {40, 40}, /*joint=*/true);
  checkSeveral({67, 96, 0, 4, 3}, {31, 31}, /*joint=*/true);
  checkSeveral({8, 96, 0, 4, 3, "f16", false, 32}, {20, 20}, /*joint=*/true);
  // The sums of a product are larger than the ring, which has no rows.
  checkOf(textOfSeveral({64, 1004, 0, 16}, {100, 100}, "bf16", /*joint=*/true))
      .run();
}

/// The result of the kernel in `text` for `arguments`, on a GPU with so many
/// multiprocessors.
eval::Tensor
resultOf(const std::string &text, MLIRContext &context, int64_t multiprocessors,
         llvm::function_ref<std::vector<eval::Tensor>(planir::KernelOp kernel)>
             arguments) {
  auto module = parseSourceString<ModuleOp>(text, &context);
  auto kernel = *module->getOps<planir::KernelOp>().begin();
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  auto target = builder.create<mlir::gpu::GPUModuleOp>(kernel.getLoc(), "gpu");
  heddle::gpu::Chip chip = *heddle::gpu::findChip("sm_80");
  chip.multiprocessors = multiprocessors;
  auto mapped = heddle::gpu::mapKernel(kernel, target, chip);
  EXPECT_TRUE(succeeded(mapped) && *mapped);
  auto loaded = heddle::gpu::EmulatedKernel::load(*mapped, "sm_80");
  EXPECT_TRUE(static_cast<bool>(loaded));
  return execute(kernel, arguments(kernel),
                 [&](const std::vector<void *> &refs) {
                   EXPECT_EQ((*loaded)->run(refs, {}), "");
                 })
      .front();
}

/// A row has the same bits alone and among any number of rows, and however many
/// panels a block has: with few multiprocessors eight, with many four or one.
void checkBits(Packed p, const char *type) {
  DialectRegistry registry;
  heddle::gpu::registerGpuCodegen(registry);
  std::unique_ptr<MLIRContext> context = createKernelContext(registry);
  std::vector<eval::Tensor> all;
  p.rows = 70;
  KernelCheck check = checkOf(textOf(p, type, false));
  eval::Tensor many =
      resultOf(check.text, *context, 108, [&](planir::KernelOp kernel) {
        return all = randomArguments(kernel, check);
      });
  for (auto [rows, multiprocessors] :
       {std::pair(1, 108), {8, 108}, {21, 108}, {21, 1}, {33, 108}, {70, 1}}) {
    int64_t first = 70 - rows;
    p.rows = rows;
    eval::Tensor few =
        resultOf(textOf(p, type, false), *context, multiprocessors,
                 [&](planir::KernelOp kernel) {
                   std::vector<eval::Tensor> some = all;
                   some[0] = eval::Tensor(kernel.getArgumentTypes()[0]);
                   some[0].copyFrom(all[0], first * p.in, 0, rows * p.in);
                   return some;
                 });
    for (int64_t i = 0; i < rows * p.out; ++i)
      ASSERT_EQ(few.floats()[i], many.floats()[first * p.out + i])
          << rows << " rows, element " << i;
  }
}

TEST(GpuPackedProducts, BitsDoNotDependOnRows) {
  checkBits({0, 600, 20, 32}, "f32");
  checkBits({0, 300, 20, 16}, "bf16");
  checkBits({0, 600, 20, 8, 1}, "f16");
  checkBits({0, 640, 20, 4, 10, "f16", /*hasZeros=*/true}, "bf16");
  checkBits({0, 640, 20, 4, 5, "f16", false, 128}, "f32");
}

} // namespace
