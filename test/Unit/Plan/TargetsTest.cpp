//===- TargetsTest.cpp - Every target keeps its contract ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/Target.h"
#include "heddle/Pipelines/Compile.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace heddle;

namespace {

class Targets : public ::testing::Test {
protected:
  Targets() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// A model with one element-wise kernel, for a target.
  OwningOpRef<ModuleOp> modelFor(StringRef target) {
    std::string text = R"(
nn.model @m family "gpt2" phase "fuse" attributes {config = "{}",
    strategy = #dist.strategy<{target = ")" +
                       target.str() +
                       R"("}>, weights = {}} {
  plan.kernel @k(%x: tensor<64xf32>) -> tensor<64xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %y = nn.map relu(%x) : tensor<64xf32>
    plan.yield %y : tensor<64xf32>
  }
})";
    return parseSourceString<ModuleOp>(text, &context);
  }

  MLIRContext context;
};

TEST_F(Targets, EveryWordOfTheSettingHasOne) {
  std::vector<std::string> names;
  for (const codegen::Target *target : codegen::allTargets())
    names.push_back(wordOf(target->name()));
  std::vector<std::string> words(config::Words<config::Target>::all.begin(),
                                 config::Words<config::Target>::all.end());
  EXPECT_EQ(names, words);
}

/// What a target supports it gives an object, which it accepts; not another's.
TEST_F(Targets, CompileWhatTheySupportAndCheckIt) {
  for (const codegen::Target *target : codegen::allTargets()) {
    SCOPED_TRACE(wordOf(target->name()));
    OwningOpRef<ModuleOp> module = modelFor(wordOf(target->name()));
    ASSERT_TRUE(module);
    auto model = *module->getOps<nn::ModelOp>().begin();
    FailureOr<const codegen::Target *> found = codegen::findTarget(model);
    ASSERT_TRUE(succeeded(found));
    EXPECT_EQ(*found, target);
    ASSERT_TRUE(target->supports(nn::Generator::Rows));
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) {});
    PassManager passes(&context);
    target->buildPipeline(passes, {});
    ASSERT_TRUE(succeeded(passes.run(*module)));
    auto kernel = *model.getOps<planir::KernelOp>().begin();
    planir::ObjectOp object = codegen::objectOf(SymbolTable(model), kernel);
    ASSERT_TRUE(object);
    EXPECT_TRUE(succeeded(target->verify({model})));
    for (const codegen::Target *other : codegen::allTargets())
      EXPECT_EQ(succeeded(other->verify({model})), other == target)
          << wordOf(other->name());
    object.setData("AAAA");
    EXPECT_TRUE(failed(target->verify({model})));
  }
}

} // namespace
