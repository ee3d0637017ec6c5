//===- CommandsTest.cpp - Every command keeps its contract ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Plan/PlanDialect.h"
#include "heddle/Pipelines/Compile.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringSet.h"
#include "gtest/gtest.h"
#include <set>

using namespace mlir;
using namespace heddle;
using planir::Stream;

namespace {

/// A command, and what it must say of itself.
struct CommandCase {
  const char *operation;
  const char *text; ///< The last command of that name counts.
  Stream stream = Stream::Compute;
  std::set<unsigned> reads = {}, writes = {}; ///< Operands.
  bool awaits = false, signals = false;
  const char *channel = "";
};

const char *const collective =
    "%t = plan.collective all_reduce axes [\"data\"] target %x source %y "
    "staging %s outer 1 for \"x\" : memref<4xf32>, memref<4xf32>, "
    "memref<16xi8>\n";
const char *const copied = "plan.copy %x, %y on copy : memref<4xf32>, "
                           "memref<4xf32>\n";

const std::vector<CommandCase> &cases() {
  static const std::string waited = std::string(collective) + "plan.wait %t\n";
  static const std::vector<CommandCase> all = {
      {"plan.launch",
       "plan.launch @acc(%x, %n, %y, %x) : (memref<4xf32>, index, "
       "memref<4xf32>, memref<4xf32>) -> ()\n",
       Stream::Compute,
       {0, 2},
       {2, 3}},
      {"plan.launch",
       "plan.launch @host(%x, %n, %y, %x) on host : (memref<4xf32>, index, "
       "memref<4xf32>, memref<4xf32>) -> ()\n",
       Stream::Host,
       {0, 2},
       {2, 3}},
      {"plan.call",
       "plan.call @callee(%x) frame 0 path \"h.0\" : memref<4xf32>\n"},
      {"plan.loop", "plan.loop 2 {\n^bb0(%i: index):\n}\n"},
      {"plan.fragments", "plan.fragments \"F0\" slots [1] {\n"
                         "^bb0(%m: index, %k: index):\nplan.end\n}\n"},
      {"plan.copy", copied, Stream::Copy, {1}, {0}},
      {"plan.copy",
       "plan.copy %x, %y : memref<4xf32>, memref<4xf32>\n",
       Stream::Compute,
       {1},
       {0}},
      {"plan.copy",
       "plan.copy %x, %y on store : memref<4xf32>, memref<4xf32>\n",
       Stream::Store,
       {1},
       {0}},
      {"plan.copy_rows",
       "plan.copy_rows %x, %table at %ids on copy : memref<4xf32>, "
       "memref<5x2xf32>, memref<2xi32>\n",
       Stream::Copy,
       {1, 2},
       {0}},
      {"plan.fill", "plan.fill %x : memref<4xf32>\n", Stream::Compute, {}, {0}},
      {"plan.fill",
       "plan.fill %x on copy : memref<4xf32>\n",
       Stream::Copy,
       {},
       {0}},
      {"plan.collective",
       collective,
       Stream::Communication,
       {1},
       {0, 2},
       false,
       true},
      {"plan.record",
       "%t = plan.record copy\n",
       Stream::Copy,
       {},
       {},
       false,
       true},
      {"plan.wait", waited.c_str(), Stream::Compute, {}, {}, true},
      {"plan.wait",
       "%t = plan.record compute\nplan.wait %t on copy\n",
       Stream::Copy,
       {},
       {},
       true},
      {"plan.settle", "plan.settle 0 on copy\n", Stream::Copy},
      {"plan.send",
       "plan.send %x to 1 on \"data\" channel \"c\" : memref<4xf32>\n",
       Stream::Communication,
       {0},
       {},
       false,
       false,
       "c"},
      {"plan.recv",
       "plan.recv %x from -1 on \"data\" channel \"c\" : memref<4xf32>\n",
       Stream::Compute,
       {},
       {0}},
      {"plan.flush", "plan.flush channel \"c\" left 0\n"}};
  return all;
}

MLIRContext &context() {
  static MLIRContext *only = [] {
    DialectRegistry registry;
    registerAllDialects(registry);
    auto *made = new MLIRContext(registry);
    made->loadAllAvailableDialects();
    return made;
  }();
  return *only;
}

std::string programOf(const std::string &commands) {
  return R"(
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>,
    config = "{}", weights = {}, persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096>, scratch_offset = 256 : i64,
    scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @acc(%a: tensor<4xf32>, %i: index, %b: tensor<4xf32>)
      -> (tensor<4xf32>, tensor<4xf32>)
      attributes {generator = #plan.generator<rows>, ties = array<i64: 2, -1>} {
    %0 = nn.add %a, %b : tensor<4xf32>
    plan.yield %0, %0 : tensor<4xf32>, tensor<4xf32>
  }
  plan.kernel @host(%a: tensor<4xf32>, %i: index, %b: tensor<4xf32>)
      -> (tensor<4xf32>, tensor<4xf32>)
      attributes {generator = #plan.generator<rows>, on_host, ties = array<i64: 2, -1>} {
    %0 = nn.add %a, %b : tensor<4xf32>
    plan.yield %0, %0 : tensor<4xf32>, tensor<4xf32>
  }
  plan.sequence @callee(%x: memref<4xf32>) attributes {frame_bytes = 0 : i64} {
    plan.end
  }
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %n = arith.constant 0 : index
    %x = plan.buffer at 0 live [0, 9] owner "activations" : memref<4xf32>
    %y = plan.buffer at 64 live [0, 9] owner "activations" : memref<4xf32>
    %table = plan.buffer at 64 live [0, 9] owner "activations" : memref<5x2xf32>
    %ids = plan.buffer at 64 live [0, 9] owner "activations" : memref<2xi32>
    %s = plan.buffer at 128 live [0, 9] owner "communication" : memref<16xi8>
)" + commands +
         "plan.end\n}\n}\n";
}

/// Operations of plan that are no commands: what holds, defines and places.
bool isStructural(StringRef name) {
  static const llvm::StringSet<> names = {
      "plan.program", "plan.kernel",   "plan.yield",     "plan.object",
      "plan.state",   "plan.flat",     "plan.sequence",  "plan.end",
      "plan.buffer",  "plan.slice",    "plan.state_ref", "plan.view",
      "plan.rank",    "plan.condition"};
  return names.contains(name);
}

class Command : public ::testing::TestWithParam<CommandCase> {};

} // namespace

TEST(Commands, AllHaveTheInterfaceAndACase) {
  llvm::StringSet<> covered;
  for (const CommandCase &one : cases())
    covered.insert(one.operation);
  int found = 0;
  for (RegisteredOperationName name : context().getRegisteredOperations()) {
    if (name.getDialectNamespace() != "plan")
      continue;
    SCOPED_TRACE(name.getStringRef().str());
    bool isCommand = !isStructural(name.getStringRef());
    EXPECT_EQ(name.hasInterface<planir::CommandOpInterface>(), isCommand);
    EXPECT_EQ(covered.contains(name.getStringRef()), isCommand);
    found += isCommand;
  }
  EXPECT_EQ(found, 14);
}

TEST_P(Command, SaysWhatItDoes) {
  const CommandCase &expected = GetParam();
  auto module =
      parseSourceString<ModuleOp>(programOf(expected.text), &context());
  ASSERT_TRUE(module);
  auto program = *module->getOps<planir::ProgramOp>().begin();
  planir::CommandOpInterface command;
  program.walk([&](planir::CommandOpInterface op) {
    if (op->getName().getStringRef() == expected.operation)
      command = op;
  });
  ASSERT_TRUE(command);
  EXPECT_EQ(command.getOwnStream(), expected.stream);
  std::set<unsigned> reads, writes;
  for (const planir::Access &access :
       command.getAccesses(SymbolTable(program))) {
    ASSERT_LT(access.operand, command->getNumOperands());
    EXPECT_EQ(access.bytes,
              dist::byteSize(command->getOperand(access.operand).getType()));
    (access.writes ? writes : reads).insert(access.operand);
  }
  EXPECT_EQ(reads, expected.reads);
  EXPECT_EQ(writes, expected.writes);
  EXPECT_EQ(bool(command.getAwaited()), expected.awaits);
  EXPECT_EQ(bool(command.getSignal()), expected.signals);
  for (Value token : {command.getAwaited(), command.getSignal()})
    EXPECT_TRUE(!token || isa<planir::TokenType>(token.getType()));
  EXPECT_EQ(command.getSendingChannel(), expected.channel);
}

INSTANTIATE_TEST_SUITE_P(, Command, ::testing::ValuesIn(cases()));
