//===- RanksTest.cpp - Simulated ranks --------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpCases.h"

#include "dialects/Pipe/PipeDialect.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;
using eval::ElementKind;
using eval::Tensor;
using eval::TensorMap;

namespace {

using Values = std::vector<double>;

/// Attributes of a model or plan that is made for a mesh.
std::string attributes(const std::string &mesh, const std::string &more = "") {
  return " attributes {strategy = #dist.strategy<{" + mesh +
         "}>, config = \"{}\", weights = {random = true, seed = 1 : i64}" +
         more + "} {\n";
}

std::string model(const std::string &mesh, const std::string &body) {
  return "nn.model @m family \"test\" phase \"spmd\"" + attributes(mesh) +
         body + "\n}\n";
}

std::string stage(int64_t number, const std::string &body) {
  std::string index = std::to_string(number);
  return "nn.model @m" + index + " family \"test\" phase \"pipe\"" +
         attributes("mesh = {pipe = 2}", ", stage = " + index + " : i64") +
         body + "\n}\n";
}

/// A model over two data ranks whose step takes half of `ids` on each rank and
/// gives `result` as a value of the whole group.
std::string step(const std::string &body, const std::string &result,
                 const std::string &type) {
  return model("batch = {global = 2}, mesh = {data = 2}", R"(
    nn.step @train(%x: tensor<4xf32>) -> ()" + type + R"()
        attributes {kind = #nn.program<train>,
                    inputs = [#nn.port<ids>],
                    outputs = [#nn.port<value, "out">],
          ports = {ids = {whole = tensor<8xf32>,
                          sharding = #dist.sharding<[["data"]], unreduced []>}}} {
      )" + body + "\n nn.return " + result + " : " + type + "\n}");
}

Tensor floats(ArrayRef<int64_t> shape, Values values) {
  return Tensor(ElementKind::F32, shape, std::move(values));
}

Tensor counting(int64_t count) {
  Values values(count);
  std::iota(values.begin(), values.end(), 1);
  return floats({count}, values);
}

/// The interpreter of a module, and what it reports.
struct Subject {
  OwningOpRef<ModuleOp> module;
  std::unique_ptr<eval::Interpreter> interpreter;
  std::string messages;
  TensorMap outputs;

  explicit Subject(const std::string &text, bool poison = false) {
    testContext().getOrLoadDialect<pipe::PipeDialect>();
    module = parseSourceString<ModuleOp>(text, &testContext());
    EXPECT_TRUE(module) << text;
    eval::InterpreterOptions options;
    options.poison = poison;
    if (module)
      interpreter = eval::Interpreter::create(*module, options);
    EXPECT_TRUE(interpreter) << text;
  }

  bool runs(const TensorMap &inputs) {
    ScopedDiagnosticHandler handler(&testContext(),
                                    [&](mlir::Diagnostic &diagnostic) {
                                      messages += diagnostic.str() + "\n";
                                      return success();
                                    });
    return succeeded(interpreter->run(nn::ProgramKind::Train, inputs, outputs));
  }

  Values run(const TensorMap &inputs, const std::string &output = "out") {
    EXPECT_TRUE(runs(inputs)) << messages;
    return outputs.count(output) ? outputs[output].floats().vec() : Values();
  }

  /// What goes wrong when the step is run.
  std::string failure(const TensorMap &inputs = {}) {
    EXPECT_FALSE(runs(inputs));
    return messages;
  }
};

Values runStep(const std::string &body, const std::string &result,
               const std::string &type) {
  return Subject(step(body, result, type)).run({{"ids", counting(8)}});
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

TEST(Ranks, CollectivesOfTensors) {
  std::string gathered = R"(
    %out = dist.all_gather %y axes ["data"] dim 0 for "the test"
        : tensor<4xf32> -> tensor<8xf32>)";
  EXPECT_EQ(runStep(R"(%y = dist.all_reduce %x axes ["data"] for "x"
                         : tensor<4xf32> -> tensor<4xf32>)",
                    "%y", "tensor<4xf32>"),
            (Values{6, 8, 10, 12}));
  EXPECT_EQ(runStep(R"(%z = dist.reduce_scatter %x axes ["data"] dim 0 for "x"
                         : tensor<4xf32> -> tensor<2xf32>
                       %y = dist.all_gather %z axes ["data"] dim 0 for "y"
                         : tensor<2xf32> -> tensor<4xf32>)",
                    "%y", "tensor<4xf32>"),
            (Values{6, 8, 10, 12}));
  EXPECT_EQ(runStep("%y = nn.add %x, %x : tensor<4xf32>" + gathered, "%out",
                    "tensor<8xf32>"),
            (Values{2, 4, 6, 8, 10, 12, 14, 16}));
  // Each rank's first half goes to rank 0, the second one to rank 1.
  EXPECT_EQ(runStep(R"(%y = dist.all_to_all %x axes ["data"] split 0 concat 0
                         for "x" : tensor<4xf32> -> tensor<4xf32>)" +
                        gathered,
                    "%out", "tensor<8xf32>"),
            (Values{1, 2, 5, 6, 3, 4, 7, 8}));
  EXPECT_EQ(runStep(R"(%y = dist.rotate %x axes ["data"] for "x"
                         : tensor<4xf32> -> tensor<4xf32>)" +
                        gathered,
                    "%out", "tensor<8xf32>"),
            (Values{5, 6, 7, 8, 1, 2, 3, 4}));
}

TEST(Ranks, SegmentsAreSplitEachForItself) {
  // A row of two segments, 2 and 4 wide: a rank's part has 1 and 2 of them.
  std::string whole = R"(
    %all = dist.all_gather %x axes ["data"] dim 0 for "x"
        : tensor<4xf32> -> tensor<8xf32>
    %part = dist.slice %all axes ["data"] dim 0 for "x"
        {segments = array<i64: 2, 6>} : tensor<8xf32> -> tensor<4xf32>)";
  EXPECT_EQ(runStep(whole + R"(
    %out = dist.all_gather %part axes ["data"] dim 0 for "x"
        : tensor<4xf32> -> tensor<8xf32>)",
                    "%out", "tensor<8xf32>"),
            (Values{1, 3, 4, 5, 2, 6, 7, 8}));
  EXPECT_EQ(runStep(whole + R"(
    %out = dist.all_gather %part axes ["data"] dim 0 for "x"
        {segments = array<i64: 2, 6>} : tensor<4xf32> -> tensor<8xf32>)",
                    "%out", "tensor<8xf32>"),
            (Values{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(Ranks, TheWireRounds) {
  Values sum = runStep(R"(%c = nn.fill 0.0999 : () -> tensor<4xf32>
                          %y = dist.all_reduce %c axes ["data"] for "x"
                            {wire = bf16} : tensor<4xf32> -> tensor<4xf32>)",
                       "%y", "tensor<4xf32>");
  EXPECT_EQ(sum[0], 0.2001953125);
}

TEST(Ranks, PendingValuesComeWithTheWait) {
  std::string start = R"(
    %p = dist.all_reduce %x axes ["data"] for "x" {pending}
        : tensor<4xf32> -> tensor<4xf32>
    %q = dist.all_reduce %x axes ["data"] for "again" {pending}
        : tensor<4xf32> -> tensor<4xf32>
    %w = dist.wait %q : tensor<4xf32>
    %v = dist.wait %p : tensor<4xf32>
    %y = nn.add %v, %w : tensor<4xf32>)";
  EXPECT_EQ(runStep(start, "%y", "tensor<4xf32>"), (Values{12, 16, 20, 24}));
}

/// All ranks of a group of four along two axes, in their order.
TEST(Ranks, GroupsSpanAxes) {
  Subject subject(
      model("batch = {global = 2}, mesh = {data = 2, tensor = 2}", R"(
    nn.step @train(%x: tensor<1xf32>) -> (tensor<4xf32>, tensor<2xf32>)
        attributes {kind = #nn.program<train>, inputs = [#nn.port<ids>],
          outputs = [#nn.port<value, "all">, #nn.port<value, "out">],
          ports = {ids = {whole = tensor<4xf32>, sharding =
            #dist.sharding<[["tensor", "data"]], unreduced []>}}} {
      %all = dist.all_gather %x axes ["data", "tensor"] dim 0 for "x"
          : tensor<1xf32> -> tensor<4xf32>
      %out = dist.all_gather %x axes ["tensor"] dim 0 for "x"
          : tensor<1xf32> -> tensor<2xf32>
      nn.return %all, %out : tensor<4xf32>, tensor<2xf32>
    })"));
  EXPECT_EQ(subject.run({{"ids", counting(4)}}), (Values{1, 3}));
  EXPECT_EQ(subject.outputs["all"].floats().vec(), (Values{1, 3, 2, 4}));
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

TEST(Ranks, StatesAreJoinedFromTheirParts) {
  Subject subject(model("mesh = {tensor = 2}", R"(
    nn.state @w role parameter : tensor<2x3xf32>
      {whole = tensor<2x5xf32>,
       storage = #dist.sharding<[[], ["tensor"]], unreduced []>}
    nn.state @q role parameter : tensor<3xf32>
      {whole = tensor<6xf32>, segments = array<i64: 2, 4>,
       storage = #dist.sharding<[["tensor"]], unreduced []>}
    nn.step @train() -> tensor<3xf32>
        attributes {kind = #nn.program<train>,
                    inputs = [], outputs = [#nn.port<value, "out">]} {
      %w = nn.get @w : tensor<2x3xf32>
      %twice = nn.add %w, %w : tensor<2x3xf32>
      nn.set @w, %twice : tensor<2x3xf32>
      %q = nn.get @q : tensor<3xf32>
      nn.return %q : tensor<3xf32>
    })"));
  Tensor w = counting(10).reshaped({2, 5});
  subject.interpreter->setState("w", w);
  subject.interpreter->setState("q", counting(6));
  EXPECT_EQ(subject.run({}), (Values{1, 3, 4}));
  EXPECT_EQ(subject.interpreter->state("w").floats().vec(),
            (Values{2, 4, 6, 8, 10, 12, 14, 16, 18, 20}));
  EXPECT_EQ(subject.interpreter->state("q").floats().vec(),
            counting(6).floats().vec());
}

TEST(Ranks, SplitBucketsHoldRunsOfTheirMembers) {
  Subject subject(model("batch = {global = 2}, mesh = {data = 2}", R"(
    nn.state @a role parameter : tensor<70xf32>
    nn.state @b role parameter : tensor<2xf32>
    nn.bucket @flat [@a, @b] : tensor<128xf32>
      {elements = 256 : i64,
       storage = #dist.sharding<[["data"]], unreduced []>}
    nn.step @train() -> tensor<2xf32>
        attributes {kind = #nn.program<train>,
                    inputs = [], outputs = [#nn.port<value, "out">]} {
      %part = nn.get @flat : tensor<128xf32>
      %twice = nn.add %part, %part : tensor<128xf32>
      nn.set @flat, %twice : tensor<128xf32>
      %all = dist.all_gather %twice axes ["data"] dim 0 for "unit"
          : tensor<128xf32> -> tensor<256xf32>
      %members:2 = nn.unpack %all
          : (tensor<256xf32>) -> (tensor<70xf32>, tensor<2xf32>)
      %again = nn.pack %members#0, %members#1
          : (tensor<70xf32>, tensor<2xf32>) -> tensor<256xf32>
      %a:2 = nn.unpack %again
          : (tensor<256xf32>) -> (tensor<70xf32>, tensor<2xf32>)
      nn.return %a#1 : tensor<2xf32>
    })"));
  subject.interpreter->setState("a", counting(70));
  subject.interpreter->setState("b", counting(2));
  EXPECT_EQ(subject.run({}), (Values{2, 4}));
  EXPECT_EQ(subject.interpreter->state("b").floats().vec(), (Values{2, 4}));
  EXPECT_EQ(subject.interpreter->state("a").floats()[69], 140);
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Two micro-batches through two stages: doubled on the first, summed up on the
/// second; the loss is a partial sum over the stages.
static std::string twoStages(const std::string &secondLine = "F0 F1") {
  auto text = [](const std::string &body, const std::string &line) {
    return R"(
      nn.state @saved role saved : tensor<2x2xf32>
      nn.state @loss role accumulator : tensor<2xf32>
      nn.step @train(%x: tensor<2x2xf32>) -> tensor<2xf32>
          attributes {kind = #nn.program<train>, inputs = [#nn.port<ids>],
                      outputs = [#nn.port<value, "out">]} {
        %zero = nn.fill 0.0 : () -> tensor<2xf32>
        nn.set @loss, %zero : tensor<2xf32>
        pipe.fragments ")" +
           line + R"(" slots [2] {
        ^bb0(%m: index, %s: index):)" +
           body + R"(
          nn.return
        }
        %loss = nn.get @loss : tensor<2xf32>
        %sum = dist.reshard %loss from <[[]], unreduced ["pipe"]>
            to <[[]], unreduced []> for "nn.return" : tensor<2xf32>
        nn.return %sum : tensor<2xf32>
      })";
  };
  return stage(0, text(R"(
          %part = nn.micro_batch %x[%m] : tensor<2x2xf32> -> tensor<2xf32>
          %twice = nn.add %part, %part : tensor<2xf32>
          nn.set @saved[%s], %twice : tensor<2xf32>
          %kept = nn.get @saved[%s] : tensor<2xf32>
          dist.send %kept to 1 on "pipe" channel "F1" : tensor<2xf32>)",
                       "F0 F1")) +
         stage(1, text(R"(
          %got = dist.recv from -1 on "pipe" channel "F1" : tensor<2xf32>
          %old = nn.get @loss : tensor<2xf32>
          %new = nn.add %old, %got : tensor<2xf32>
          nn.set @loss, %new : tensor<2xf32>)",
                       secondLine));
}

TEST(Ranks, StagesPassMicroBatchesOn) {
  Subject subject(twoStages());
  TensorMap inputs = {{"ids", counting(4)}};
  EXPECT_EQ(subject.run(inputs), (Values{8, 12}));
  EXPECT_EQ(subject.interpreter->state("saved").floats().vec(),
            (Values{2, 4, 6, 8}));
}

TEST(Ranks, WhatIsSentMustBeReceived) {
  std::string message =
      Subject(twoStages("F0")).failure({{"ids", counting(4)}});
  EXPECT_TRUE(contains(message, "rank 0 waits for ever in 'dist.send' on "
                                "channel \"F1\""))
      << message;
}

TEST(Ranks, AMissingStageIsReported) {
  ScopedDiagnosticHandler handler(&testContext(), [&](mlir::Diagnostic &d) {
    EXPECT_EQ(d.str(), "has no model of stage 0");
    return success();
  });
  testContext().getOrLoadDialect<pipe::PipeDialect>();
  auto module = parseSourceString<ModuleOp>(
      stage(1, "nn.state @a role parameter : tensor<2xf32>"), &testContext());
  EXPECT_FALSE(eval::Interpreter::create(*module, {}));
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

/// Two stages, from spmd on, with these operations on them.
static std::string pairOf(const std::string &first, const std::string &second) {
  auto text = [](int64_t number, const std::string &body) {
    std::string index = std::to_string(number);
    return "nn.model @m" + index + " family \"test\" phase \"spmd\"" +
           attributes("mesh = {pipe = 2}", ", stage = " + index + " : i64") +
           R"(
      nn.step @train() -> tensor<f32>
          attributes {kind = #nn.program<train>,
                      inputs = [], outputs = [#nn.port<value, "out">]} {
        %x = nn.fill )" +
           index + ".0 : () -> tensor<f32>\n" + body + R"(
        nn.return %x : tensor<f32>
      }
    })";
  };
  return text(0, first) + text(1, second);
}

TEST(Ranks, WaitsForEverAreReported) {
  std::string wants = R"(
    %y = dist.recv from 1 on "pipe" channel "B0" : tensor<f32>)";
  std::string message = Subject(pairOf(wants, wants)).failure();
  EXPECT_TRUE(contains(message, "rank 0 waits for ever in 'dist.recv' on "
                                "channel \"B0\"; rank 1 in 'dist.recv'"))
      << message;
  std::string sums = R"(
    %y = dist.all_reduce %x axes ["pipe"] for "loss"
        : tensor<f32> -> tensor<f32>)";
  message = Subject(pairOf("", sums)).failure();
  EXPECT_TRUE(contains(message,
                       "rank 1 waits for ever in 'dist.all_reduce' for "
                       "\"loss\""))
      << message;
}

TEST(Ranks, DifferentCollectivesAreReported) {
  std::string sums = R"(
    %y = dist.all_reduce %x axes ["pipe"] for "loss"
        : tensor<f32> -> tensor<f32>)";
  std::string other = R"(
    %z = nn.fill 1.0 : () -> tensor<2xf32>
    %y = dist.all_gather %z axes ["pipe"] dim 0 for "h.0"
        : tensor<2xf32> -> tensor<4xf32>)";
  std::string message = Subject(pairOf(sums, other)).failure();
  EXPECT_TRUE(contains(message, "'dist.all_reduce' for \"loss\"")) << message;
  EXPECT_TRUE(contains(message, "'dist.all_gather' for \"h.0\"")) << message;
}

TEST(Ranks, MessagesOfAnotherSizeAreReported) {
  std::string message = Subject(pairOf(R"(
    dist.send %x to 1 on "pipe" channel "F0" : tensor<f32>)",
                                       R"(
    %y = dist.recv from -1 on "pipe" channel "F0" : tensor<2xf32>)"))
                            .failure();
  EXPECT_TRUE(contains(message, "rank 1 wants 'tensor<2xf32>', but rank 0 "
                                "sends something else in 'dist.send'"))
      << message;
  EXPECT_TRUE(contains(message, "fails on rank 1")) << message;
}

TEST(Ranks, NumbersThatDifferAreReported) {
  std::string message = Subject(pairOf("", "")).failure();
  EXPECT_TRUE(contains(message, "ranks 0 and 1 disagree about 'out': 0"))
      << message;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// A plan for two data ranks with these commands; %x holds the rank's half of
/// `ids`, %loss is an output, %buffer and %staging are there.
static std::string planOf(const std::string &commands) {
  return "plan.program @m family \"test\" phase \"prove\"" +
         attributes("batch = {global = 2}, mesh = {data = 2}",
                    ", persistent_bytes = #plan.bytes<device 4096>, "
                    "arena_bytes = #plan.bytes<device 4096>, "
                    "scratch_offset = 4096 : i64, "
                    "scratch_bytes_per_thread = 0 : i64, owners = {}") +
         R"(
    plan.state @a at 64 : tensor<3xf32> {flat = @flat, like = {role = #nn<role parameter>}}
    plan.flat @flat at 0 : tensor<64xf32> of 128 over ["data"]
    plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>,
        ports = {ids = {whole = tensor<4xf32>,
                        sharding = #dist.sharding<[["data"]], unreduced []>}}} {
      %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<ids>} : memref<2xf32>
      %out = plan.buffer at 64 live [0, 99] owner "outputs" {output = #nn.port<value, "out">} : memref<4xf32>
      %buffer = plan.buffer at 128 live [0, 99] owner "activations" : memref<4xf32>
      %staging = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
      %flat = plan.state_ref @flat : memref<64xf32>)" +
         commands + R"(
      plan.end
    }
  })";
}

static const std::string startGather = R"(
      %t = plan.collective all_gather axes ["data"] target %out source %x
        staging %staging outer 1 for "x"
        : memref<4xf32>, memref<2xf32>, memref<128xi8>)";

TEST(Ranks, CollectivesOfBytes) {
  TensorMap inputs = {{"ids", counting(4)}};
  EXPECT_EQ(Subject(planOf(startGather + "plan.wait %t")).run(inputs),
            (Values{1, 2, 3, 4}));
  // Its own part of the sum, and zeros behind it.
  EXPECT_EQ(Subject(planOf(R"(
      plan.fill %out : memref<4xf32>
      %part = plan.view %out[1] : memref<4xf32> -> memref<1xf32>
      %t = plan.collective reduce_scatter axes ["data"] target %part source %x
        staging %staging outer 1 for "x"
        : memref<1xf32>, memref<2xf32>, memref<128xi8>
      plan.wait %t)"))
                .run(inputs),
            (Values{0, 4, 0, 0}));
  // In place, and then each rank's slice of it.
  EXPECT_EQ(Subject(planOf(R"(
      plan.fill %out : memref<4xf32>
      %t = plan.collective all_reduce axes ["data"] target %x source %x
        staging %staging outer 1 for "x"
        : memref<2xf32>, memref<2xf32>, memref<128xi8>
      plan.wait %t
      %r = plan.rank ["data"] : index
      %one = arith.constant 1 : index
      %next = arith.addi %r, %one : index
      %to = plan.slice %out[%next] : memref<4xf32> -> memref<1xf32>
      %from = plan.slice %x[%next] : memref<2xf32> -> memref<1xf32>
      plan.copy %to, %from : memref<1xf32>, memref<1xf32>)"))
                .run(inputs)[1],
            6);
}

TEST(Ranks, FlatStatesOfPlans) {
  Subject subject(planOf(R"(
      plan.fill %flat : memref<64xf32>
      plan.fill %out : memref<4xf32>)"));
  subject.interpreter->setState("a", counting(3));
  EXPECT_EQ(subject.interpreter->state("a").floats().vec(), (Values{1, 2, 3}));
  subject.run({{"ids", counting(4)}});
  EXPECT_EQ(subject.interpreter->state("a").floats().vec(), (Values{0, 0, 0}));
}

TEST(Ranks, TargetsArePoisonedUntilTheWait) {
  TensorMap inputs = {{"ids", counting(4)}};
  std::string read = R"(
      plan.copy %buffer, %out : memref<4xf32>, memref<4xf32>
      plan.wait %t
      plan.copy %out, %buffer : memref<4xf32>, memref<4xf32>)";
  EXPECT_TRUE(std::isnan(
      Subject(planOf(startGather + read), /*poison=*/true).run(inputs)[0]));
  std::string message =
      Subject(
          planOf(startGather + "plan.fill %out : memref<4xf32>\nplan.wait %t"),
          /*poison=*/true)
          .failure(inputs);
  EXPECT_TRUE(contains(message, "finds its target written")) << message;
}

TEST(Ranks, SendsReadTheirBytesUntilTheFlush) {
  auto text = [](const std::string &flush) {
    return planOf(R"(
      plan.send %x to 1 on "data" channel "c" : memref<2xf32>)" +
                  flush + R"(
      plan.fill %x : memref<2xf32>
      %first = plan.view %out[0] : memref<4xf32> -> memref<2xf32>
      plan.recv %first from -1 on "data" channel "c" : memref<2xf32>)");
  };
  TensorMap inputs = {{"ids", counting(4)}};
  EXPECT_EQ(Subject(text("")).run(inputs)[0], 0);
  std::string message =
      Subject(text(R"(plan.flush channel "c" left 0)")).failure(inputs);
  EXPECT_TRUE(contains(message, "rank 0 waits for ever in 'plan.flush' on "
                                "channel \"c\""))
      << message;
}
