//===- BigramPlan.cpp - A plan for the kernels in BigramKernels.c ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BigramPlan.h"
#include "Commands.h"
#include "heddle/PlanFormat/PtxImage.h"
#include "heddle/runtime/core/WeightSlices.h"

#include <fstream>
#include <iterator>

using namespace heddle;
using namespace heddle::plan;
using heddle::test::BigramShape;

/// Places in the arena, each on its own cache line.
enum : int64_t {
  idsAt = 0,
  labelsAt = 256,
  rngAt = 512,
  lrAt = 576,
  correction1At = 640,
  correction2At = 704,
  lossAt = 768,
  normAt = 832,
  positionAt = 896,
  logitsAt = 1024,
  frameEnd = 2048,
  scratchAt = 4096,
};

static constexpr int64_t tableBytes =
    BigramShape::vocab * BigramShape::vocab * sizeof(float);
enum : int64_t {
  tableAt = 0,
  expAvgAt = tableBytes,
  expAvgSqAt = 2 * tableBytes,
  gradientAt = 3 * tableBytes,
  copyAt = 4 * tableBytes,
  power1At = copyAt + tableBytes / 2,
  power2At = power1At + 64,
  persistentEnd = power1At + 4096,
};

static Ref ref(Space space, int64_t offset, int64_t bytes, int64_t stride = 0) {
  Ref result;
  result.space = space;
  (space == Space::Arg ? result.index : result.offset) = offset;
  result.bytes = bytes;
  if (stride != 0)
    result.terms = {{Term::Kind::LoopIndex, 0, stride, {}}};
  return result;
}

static Scalar constant(int64_t value) { return {value, {}}; }

/// Of the only module there is.
static Command ofTable(Command command) {
  command.path = "table";
  return command;
}

static Command launch(int64_t kernel, std::vector<Ref> refs,
                      std::vector<Scalar> scalars = {}) {
  return ofTable(test::launch(kernel, std::move(refs), std::move(scalars)));
}

static Command zero(const Ref &target) { return ofTable(test::fill(target)); }

static Port port(PortRole role, DType type, std::vector<int64_t> shape,
                 int64_t offset) {
  Port result;
  result.role = role;
  result.name = nameOf(role);
  result.type = type;
  result.shape = std::move(shape);
  int64_t bytes = byteSize(type);
  for (int64_t extent : result.shape)
    bytes *= extent;
  result.ref = ref(Space::Frame, offset, bytes);
  return result;
}

static State state(StateRole role, int64_t offset, DType type = DType::F32,
                   const char *quantity = "x") {
  State result;
  result.name =
      role == StateRole::Parameter ? "table" : std::string("table.") + quantity;
  result.role = role;
  result.type = type;
  result.shape = {BigramShape::vocab, BigramShape::vocab};
  result.offset = offset;
  if (role == StateRole::Parameter) {
    result.trainable = true;
    result.sources = {rt::wholeTensor("table.weight", result.shape)};
    result.init = {Init::Kind::Normal, 0, 0.02};
  } else {
    result.parameter = "table";
  }
  result.checkpointed = role == StateRole::Optimizer;
  return result;
}

static State power(const char *name, int64_t offset, double factor) {
  State result;
  result.name = name;
  result.role = StateRole::Optimizer;
  result.type = DType::F64;
  result.offset = offset;
  result.checkpointed = true;
  result.init = {Init::Kind::Power, factor, 0};
  return result;
}

enum : int64_t { backward, loss, logits, adam, powers };

static void addSequences(Plan &plan) {
  constexpr Space persistent = Space::Persistent, frame = Space::Frame;
  constexpr int64_t tokens = BigramShape::microBatch * BigramShape::seq;
  Ref table = ref(persistent, tableAt, tableBytes);
  Ref gradient = ref(persistent, gradientAt, tableBytes);
  Command loop =
      ofTable(test::loop(1, BigramShape::accumulate,
                         {ref(frame, idsAt, tokens * 4, tokens * 4),
                          ref(frame, labelsAt, tokens * 4, tokens * 4),
                          ref(frame, lossAt, 4), ref(frame, rngAt, 16)},
                         {}, frameEnd));
  plan.sequences = {
      {"train",
       scratchAt,
       0,
       0,
       {zero(gradient), zero(ref(frame, lossAt, 4)), loop,
        launch(powers,
               {ref(persistent, power1At, 8), ref(persistent, power2At, 8),
                ref(frame, correction1At, 4), ref(frame, correction2At, 4)}),
        launch(
            adam,
            {table, ref(persistent, expAvgAt, tableBytes),
             ref(persistent, expAvgSqAt, tableBytes), gradient,
             ref(frame, lrAt, 4), ref(frame, correction1At, 4),
             ref(frame, correction2At, 4), ref(frame, normAt, 4),
             ref(persistent, copyAt, tableBytes / 2)},
            {constant(0), constant(BigramShape::vocab * BigramShape::vocab)})}},
      {"micro_batch",
       0,
       4,
       0,
       {launch(backward,
               {ref(Space::Arg, 0, tokens * 4), ref(Space::Arg, 1, tokens * 4),
                table, gradient, ref(Space::Arg, 2, 4), ref(Space::Arg, 3, 16)},
               {constant(tokens),
                constant(tokens * BigramShape::accumulate),
                {0, {{Term::Kind::LoopIndex, 0, 1, {}}}},
                constant(0)})}},
      {"eval",
       scratchAt,
       0,
       0,
       {zero(ref(frame, lossAt, 4)),
        launch(loss,
               {ref(frame, idsAt, tokens * 4), ref(frame, labelsAt, tokens * 4),
                table, ref(frame, lossAt, 4)},
               {constant(tokens), constant(tokens)})}},
      {"generate",
       scratchAt,
       0,
       0,
       {launch(logits, {ref(frame, idsAt, BigramShape::seq * 4),
                        ref(frame, positionAt, 4), table,
                        ref(frame, logitsAt, BigramShape::vocab * 4)})}}};
}

static void addPrograms(Plan &plan) {
  using S = BigramShape;
  Port lossPort = port(PortRole::Loss, DType::F32, {}, lossAt);
  plan.programs = {
      {ProgramKind::Train,
       "train",
       0,
       {port(PortRole::Ids, DType::I32, {S::accumulate, S::microBatch, S::seq},
             idsAt),
        port(PortRole::Labels, DType::I32,
             {S::accumulate, S::microBatch, S::seq}, labelsAt),
        port(PortRole::Rng, DType::I32, {4}, rngAt),
        port(PortRole::LearningRate, DType::F32, {}, lrAt)},
       {lossPort, port(PortRole::GradNorm, DType::F32, {}, normAt)},
       1e6},
      {ProgramKind::Eval,
       "eval",
       2,
       {port(PortRole::Ids, DType::I32, {S::microBatch, S::seq}, idsAt),
        port(PortRole::Labels, DType::I32, {S::microBatch, S::seq}, labelsAt)},
       {lossPort},
       0},
      {ProgramKind::Generate,
       "generate",
       3,
       {port(PortRole::Ids, DType::I32, {1, S::seq}, idsAt),
        port(PortRole::Position, DType::I32, {}, positionAt)},
       {port(PortRole::Logits, DType::F32, {S::vocab}, logitsAt)},
       0}};
}

Plan heddle::test::makeBigramPlan() {
  Plan plan;
  plan.version = "0.1.0";
  plan.family = "bigram";
  plan.modelConfig = {{"model_type", "bigram"}, {"vocab_size", 256}};
  plan.vocabSize = BigramShape::vocab;
  plan.parameters = BigramShape::vocab * BigramShape::vocab;
  plan.batch = BigramShape::batch;
  plan.microBatch = BigramShape::microBatch;
  plan.accumulate = BigramShape::accumulate;
  plan.seq = plan.maxPositions = BigramShape::seq;
  plan.threads = 2;
  plan.precision = "fp32";
  plan.march = "x86-64-v3";
  plan.features = {"sse2"};
  plan.recompute = "none";
  plan.weights.random = true;
  plan.weights.seed = 7;
  plan.optimizer.lr = 0.05;
  plan.states = {
      state(StateRole::Parameter, tableAt),
      state(StateRole::Optimizer, expAvgAt, DType::F32, "exp_avg"),
      state(StateRole::Optimizer, expAvgSqAt, DType::F32, "exp_avg_sq"),
      state(StateRole::Gradient, gradientAt, DType::F32, "grad"),
      state(StateRole::Derived, copyAt, DType::BF16, "bf16"),
      power("beta1_power", power1At, 0.9),
      power("beta2_power", power2At, 0.999)};
  int64_t scratchBytes = BigramShape::vocab * 4;
  for (const char *name : {"bigram_backward", "bigram_loss", "bigram_logits",
                           "bigram_adam", "bigram_powers"}) {
    Kernel kernel;
    kernel.name = name;
    kernel.scratchBytes = scratchBytes;
    plan.kernels.push_back(kernel);
  }
  addSequences(plan);
  addPrograms(plan);
  plan.memory.persistentBytes[plan::MemoryKind::Device] = persistentEnd;
  plan.memory.scratchOffset = scratchAt;
  plan.memory.scratchBytesPerThread = scratchBytes;
  plan.memory.arenaBytes[plan::MemoryKind::Device] = 8192;
  plan.memory.owners = {{"states", persistentEnd}, {"arena", 8192}};
  plan.phases = {"import"};
  return plan;
}

std::vector<char> heddle::test::readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<char> heddle::test::readBigramKernels() {
  return readFile(HEDDLE_TEST_KERNELS);
}

std::vector<char> heddle::test::readBigramPtx() {
  std::vector<char> text = readFile(HEDDLE_TEST_PTX);
  plan::PtxImage image;
  image.texts = {{text.begin(), text.end()}};
  std::string bytes = plan::writePtxImage(image);
  return {bytes.begin(), bytes.end()};
}

std::vector<Kernel> heddle::test::listBigramPtx() {
  std::vector<Kernel> all;
  auto add = [&](const std::string &name, const char *symbol, int64_t threads,
                 bool hasScratch) {
    Kernel kernel;
    kernel.name = name;
    kernel.scratchBytes = hasScratch ? BigramShape::vocab * 4 : 0;
    GridLaunch launch;
    launch.symbol = symbol;
    launch.block = {threads, 1, 1};
    kernel.launches = {launch};
    all.push_back(kernel);
  };
  add("bigram_backward", "gpu_backward", 1, true);
  add("bigram_loss", "gpu_loss", 1, true);
  add("bigram_logits", "gpu_logits", 1, true);
  add("bigram_adam", "gpu_adam", 256, true);
  add("bigram_powers", "gpu_powers", 1, true);
  add("store_thread", "gpu_store_thread", 2, false);
  add("append_digit", "gpu_append_digit", 2, false);
  return all;
}
