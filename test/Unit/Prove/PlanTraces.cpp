//===- PlanTraces.cpp - The traces of compiled models ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Unit/Prove/PlanTraces.h"
#include "heddle/Pipelines/Compile.h"
#include "heddle/Transforms/Prove/ProgramTraces.h"
#include "mlir/Parser/Parser.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;

namespace fs = std::filesystem;

/// The dump after the fuse phase: what follows is done here.
static OwningOpRef<ModuleOp> compileToFuse(MLIRContext &context,
                                           const std::string &flags, int layers,
                                           int vocabulary) {
  char pattern[] = "/tmp/heddle-prove-XXXXXX";
  fs::path directory = mkdtemp(pattern);
  std::ofstream(directory / "config.json")
      << R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],)"
      << R"( "n_positions": 8, "n_embd": 16, "n_head": 2, "vocab_size": )"
      << vocabulary << R"(,)"
      << R"( "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,)"
      << R"( "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,)"
      << R"( "initializer_range": 0.02, "n_layer": )" << layers << "}";
  bool hasRows = flags.find("--micro-batch") != std::string::npos ||
                 flags.find("--mode serve") != std::string::npos;
  std::string command =
      std::string(HEDDLE_TEST_COMPILER) + " compile " +
      (directory / "config.json").string() + " --init random --threads 1 " +
      (hasRows ? "" : "--micro-batch 1 ") + flags +
      " --stop-after fuse --dump-phases " + (directory / "dump").string();
  OwningOpRef<ModuleOp> module;
  if (std::system(command.c_str()) == 0)
    module = parseSourceFile<ModuleOp>(
        (directory / "dump" / "fuse.mlir").string(), &context);
  fs::remove_all(directory);
  return module;
}

namespace {
/// A model after the memory phase; null when that fails.
struct MemoryPlan {
  MemoryPlan(const std::string &flags, int layers, int vocabulary)
      : context(dialects(), MLIRContext::Threading::DISABLED),
        module(compileToFuse(context, flags, layers, vocabulary)) {
    PassManager pm(&context, ModuleOp::getOperationName());
    buildPhase(Phase::Memory, pm, {});
    if (module && failed(pm.run(*module)))
      module = nullptr;
  }
  static DialectRegistry dialects() {
    DialectRegistry registry;
    registerAllDialects(registry);
    return registry;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};
} // namespace

PlanTraces heddle::test::compileTraces(const std::string &flags, int layers,
                                       int vocabulary) {
  MemoryPlan plan(flags, layers, vocabulary);
  PlanTraces traces;
  if (!plan.module)
    return traces;
  auto programs = prove::programsOf(*plan.module);
  traces.mesh = prove::meshOf(programs.front());
  for (int64_t rank = 0; rank < traces.mesh.ranks(); ++rank) {
    planir::ProgramOp program =
        programs[traces.mesh.coordinate(rank, {"pipe"})];
    for (auto sequence : program.getOps<planir::SequenceOp>())
      if (sequence.getKind() == nn::ProgramKind::Train)
        traces.ranks.push_back(
            prove::unroll(prove::traceOf(program, sequence, rank)->trace));
  }
  return traces;
}

std::vector<prove::Trace> heddle::test::compileServing(const std::string &flags,
                                                       int layers) {
  MemoryPlan plan("--mode serve " + flags, layers, /*vocabulary=*/32);
  std::vector<prove::Trace> traces;
  if (plan.module)
    for (planir::ProgramOp program : prove::programsOf(*plan.module))
      for (auto sequence : program.getOps<planir::SequenceOp>())
        if (sequence.getKind())
          traces.push_back(
              prove::unroll(prove::traceOf(program, sequence, 0)->trace));
  return traces;
}

bool heddle::test::isRefused(const prove::Trace &trace) {
  return prove::checkFlow(trace) || prove::checkStateTiles(trace) ||
         prove::checkGradients(trace) || prove::checkSameElements(trace) ||
         prove::checkRaces(trace);
}

prove::Trace heddle::test::moved(const prove::Trace &trace, size_t from,
                                 size_t to) {
  prove::Trace other = trace;
  prove::Body &events = other.bodies.front();
  prove::Event event = events[from];
  events.erase(events.begin() + from);
  events.insert(events.begin() + (to > from ? to - 1 : to), event);
  return other;
}

prove::Trace heddle::test::without(const prove::Trace &trace, size_t index) {
  prove::Trace other = trace;
  prove::Body &events = other.bodies.front();
  events.erase(events.begin() + index);
  return other;
}

prove::Trace heddle::test::withoutJoins(const prove::Trace &trace,
                                        plan::Stream stream, size_t from,
                                        size_t to) {
  prove::Trace other = trace;
  prove::Body &events = other.bodies.front();
  for (size_t i = to; i-- > from;)
    if (events[i].kind == prove::Event::Kind::Join &&
        events[i].stream == stream)
      events.erase(events.begin() + i);
  return other;
}
