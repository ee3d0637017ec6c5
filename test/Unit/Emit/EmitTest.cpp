//===- EmitTest.cpp - Linking kernels and writing binaries ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Plan/PlanFormat.h"
#include "heddle/Emit/LinkKernels.h"
#include "heddle/Emit/WriteBinary.h"
#include "heddle/runtime/core/Loader.h"
#include "heddle/runtime/devices/cpu/KernelImage.h"
#include "mlir/Parser/Parser.h"
#include "test/Runtime/BigramPlan.h"
#include "test/Unit/Kernels/KernelHarness.h"
#include "test/Unit/Kernels/KernelReference.h"
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;

namespace {

/// The object of an element-wise kernel of 64 floats.
cpu::CompiledKernel compileUnary(const std::string &op) {
  std::string text =
      "plan.kernel @k(%x: tensor<64xf32>) -> tensor<64xf32> attributes "
      "{generator = #plan.generator<rows>, ties = array<i64: -1>} { %y = "
      "nn.map " +
      op + "(%x) : tensor<64xf32> plan.yield %y : tensor<64xf32> }";
  mlir::DialectRegistry registry;
  cpu::registerKernelCompiler(registry);
  auto context = createKernelContext(registry);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
  auto kernel = *module->getOps<planir::KernelOp>().begin();
  return LoadedKernel(kernel, *cpu::CpuTarget::parse("native")).compiled();
}

/// A directory that goes away with the test.
class Emit : public ::testing::Test {
protected:
  void SetUp() override {
    char pattern[] = "/tmp/heddle-emit-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory); }
  std::string file(const std::string &name) { return directory + "/" + name; }

  std::string directory;
};

TEST_F(Emit, LinkedKernelsRun) {
  cpu::CompiledKernel relu = compileUnary("relu"), silu = compileUnary("silu");
  auto image = emit::linkKernels({relu.object, silu.object});
  ASSERT_TRUE(bool(image)) << llvm::toString(image.takeError());
  rt::KernelImage loaded(image->data(), image->size());
  EXPECT_NE(loaded.find(silu.symbol), nullptr);
  rt::KernelFunction function = loaded.find(relu.symbol);
  ASSERT_NE(function, nullptr);
  std::vector<float> x(64, -1.0f), y(64, 7.0f);
  x[5] = 3.0f;
  void *refs[] = {x.data(), y.data()};
  function(refs, nullptr, 0, 1, nullptr, nullptr);
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_EQ(y[i], i == 5 ? 3.0f : 0.0f);
}

TEST_F(Emit, LinkingIsReproducible) {
  cpu::CompiledKernel relu = compileUnary("relu");
  auto first = emit::linkKernels({relu.object});
  auto second = emit::linkKernels({relu.object});
  ASSERT_TRUE(bool(first) && bool(second));
  EXPECT_EQ(*first, *second);
}

TEST_F(Emit, LinkingNeedsNoDisk) {
  cpu::CompiledKernel relu = compileUnary("relu");
  const char *before = std::getenv("TMPDIR");
  std::string kept = before ? before : "";
  setenv("TMPDIR", file("missing").c_str(), 1);
  auto image = emit::linkKernels({relu.object});
  before ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
  ASSERT_TRUE(bool(image)) << llvm::toString(image.takeError());
}

TEST_F(Emit, DamagedObjectsAreRefused) {
  auto image = emit::linkKernels({std::string("not an object")});
  EXPECT_FALSE(bool(image));
  EXPECT_FALSE(llvm::toString(image.takeError()).empty());
}

TEST_F(Emit, BinaryIsReadBack) {
  plan::Plan plan = makeBigramPlan();
  cpu::CompiledKernel relu = compileUnary("relu");
  auto image = emit::linkKernels({relu.object});
  ASSERT_TRUE(bool(image));
  plan::Plan second = plan;
  second.target = "another";
  plan::Plan draft = plan;
  draft.family = "small";
  std::vector<emit::Code> codes = {
      {plan, *image}, {draft, *image, emit::Model::Draft}, {second, *image}};
  auto error = emit::writeBinary(codes, HEDDLE_TEST_RUNTIME, file("out"));
  ASSERT_FALSE(error.has_value()) << error->message;
  rt::Binary binary = rt::readBinary(file("out"));
  EXPECT_EQ(binary.plan.hash, codes[0].plan.hash);
  std::vector<rt::Binary> targets = rt::readTargets(file("out"));
  ASSERT_EQ(targets.size(), 2u);
  EXPECT_EQ(targets[1].plan.target, "another");
  std::optional<rt::Binary> guesses = rt::readDraft(file("out"));
  ASSERT_TRUE(guesses.has_value());
  EXPECT_EQ(guesses->plan.family, "small");
  EXPECT_FALSE(rt::readDraft(file("out"), 1).has_value());
  EXPECT_EQ(binary.plan.states.size(), plan.states.size());
  rt::KernelImage loaded(binary.kernels.data(), binary.kernels.size());
  EXPECT_NE(loaded.find(relu.symbol), nullptr);
  auto permissions = std::filesystem::status(file("out")).permissions();
  EXPECT_NE(permissions & std::filesystem::perms::owner_exec,
            std::filesystem::perms::none);
  EXPECT_EQ(std::system((file("out") + " --help > /dev/null").c_str()), 0);
}

TEST(Ports, HaveTheSameRolesInPlans) {
  mlir::MLIRContext context;
  context.loadDialect<nn::NNDialect>();
  for (unsigned i = 0; i <= nn::getMaxEnumValForPortRole(); ++i) {
    nn::PortRole role = *nn::symbolizePortRole(i);
    std::string name = stringifyPortRole(role).str();
    ASSERT_TRUE(plan::parseName<plan::PortRole>(name).has_value()) << name;
    EXPECT_EQ(plan::nameOf(planir::roleOf(role)), name);
    EXPECT_EQ(plan::isOfBatch(planir::roleOf(role)),
              nn::PortAttr::get(&context, role).isOfBatch())
        << name;
  }
  for (unsigned i = 0; i <= nn::getMaxEnumValForProgramKind(); ++i) {
    nn::ProgramKind kind = *nn::symbolizeProgramKind(i);
    EXPECT_EQ(plan::nameOf(planir::kindOf(kind)), stringifyProgramKind(kind));
  }
}

TEST_F(Emit, OutputIsWholeOrNotAtAll) {
  std::vector<emit::Code> codes = {{makeBigramPlan(), "image"}};
  std::ofstream(file("old")) << "kept";
  auto error = emit::writeBinary(codes, file("no-runtime"), file("old"));
  ASSERT_TRUE(error.has_value());
  std::ofstream(file("damaged")) << "no program at all, but long enough to "
                                    "hold the header of an ELF file ........";
  error = emit::writeBinary(codes, file("damaged"), file("old"));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, "H0912");
  std::ifstream stream(file("old"));
  std::string text;
  stream >> text;
  EXPECT_EQ(text, "kept");
  error =
      emit::writeBinary(codes, HEDDLE_TEST_RUNTIME, file("missing") + "/out");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, "H0402");
}

} // namespace
