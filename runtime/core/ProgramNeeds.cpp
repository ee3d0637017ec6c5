//===- ProgramNeeds.cpp - FLOPs and bytes of a program --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/ProgramNeeds.h"

#include <algorithm>
#include <map>
#include <optional>

using namespace heddle;
using namespace heddle::rt;

using plan::Command;
using plan::Ref;
using plan::Space;

namespace {

/// Walks the command sequences of a program and counts kernel launches, FLOPs,
/// and the bytes of states that kernels use. A launch in a loop counts once for
/// each iteration, but the bytes of a state count only once.
class NeedsCounter {
public:
  explicit NeedsCounter(const plan::Plan &plan) : plan(plan) {
    needs.launches.resize(plan.kernels.size());
  }

  /// For each argument of a command sequence: its offset in the memory of
  /// states, or nullopt if the argument is not in a state.
  using Arguments = std::vector<std::optional<int64_t>>;
  void count(int64_t number, int64_t times, const Arguments &arguments,
             int depth = 0);
  ProgramNeeds finish();

private:
  std::optional<int64_t> stateOffset(const Ref &ref,
                                     const Arguments &arguments) const;
  void countLaunch(const plan::command::Launch &launch, int64_t times,
                   const Arguments &arguments);
  void enter(const Command &command, const plan::command::Entry &entry,
             int64_t times, const Arguments &arguments, int depth);

  const plan::Plan &plan;
  ProgramNeeds needs;
  struct Use {
    double bytes = 0; ///< The bytes from the state's offset on that are used.
    int64_t window = 0;
  };
  std::map<int64_t, Use> used; ///< What is used of each state, by its offset.
};

} // namespace

std::optional<int64_t>
NeedsCounter::stateOffset(const Ref &ref, const Arguments &arguments) const {
  if (ref.space == Space::Persistent && ref.memory == plan::MemoryKind::Device)
    return ref.offset;
  if (ref.space == Space::Arg && ref.index >= 0 &&
      ref.index < int64_t(arguments.size()) && arguments[ref.index])
    return *arguments[ref.index] + ref.offset;
  return std::nullopt;
}

bool heddle::rt::readsCache(const plan::Kernel &kernel) {
  return kernel.ops.find("paged_attention") != std::string::npos;
}

void NeedsCounter::countLaunch(const plan::command::Launch &launch,
                               int64_t times, const Arguments &arguments) {
  needs.launches.at(launch.kernel) += times;
  const plan::Kernel &kernel = plan.kernels[launch.kernel];
  if (!readsCache(kernel))
    needs.flops += double(times) * kernel.flops;
  for (const Ref &ref : launch.refs)
    if (std::optional<int64_t> offset = stateOffset(ref, arguments)) {
      Use &use = used[*offset];
      use.bytes =
          std::max(use.bytes, std::min(kernel.bytes, double(ref.bytes)));
      // If several kernels use this KV cache, take the largest attention
      // window. A kernel that only writes the cache has the window 0.
      use.window = std::max(use.window, kernel.window);
    }
}

void NeedsCounter::enter(const Command &command,
                         const plan::command::Entry &entry, int64_t times,
                         const Arguments &arguments, int depth) {
  Arguments inner;
  for (const Ref &ref : entry.refs)
    inner.push_back(stateOffset(ref, arguments));
  for (plan::SequenceRuns runs : plan::runsOf(command))
    count(runs.sequence, times * runs.times, inner, depth + 1);
}

void NeedsCounter::count(int64_t number, int64_t times,
                         const Arguments &arguments, int depth) {
  if (depth > 64) // A plan with such depth cannot be loaded.
    return;
  for (const Command &command : plan.sequences.at(number).commands)
    command.visit(
        [&](const plan::command::Launch &launch) {
          countLaunch(launch, times, arguments);
        },
        [&](const plan::command::Call &call) {
          enter(command, call, times, arguments, depth);
        },
        [&](const plan::command::Loop &loop) {
          enter(command, loop, times, arguments, depth);
        },
        [&](const plan::command::Fragments &all) {
          enter(command, all, times, arguments, depth);
        },
        [](const auto &) {});
}

ProgramNeeds NeedsCounter::finish() {
  // The end of the bytes that were counted so far. Bytes before this offset are
  // not counted again, because a bucket and the tensors in it share memory.
  double end = 0;
  std::map<int64_t, double> caches; // By window.
  for (auto [offset, use] : used) {
    auto begins = [offset = offset](const plan::State &state) {
      return state.role == plan::StateRole::Cache &&
             state.memory == plan::MemoryKind::Device && state.offset == offset;
    };
    auto cache = std::find_if(plan.states.begin(), plan.states.end(), begins);
    double last = double(offset) + use.bytes;
    if (cache != plan.states.end())
      caches[use.window] += double(cache->numBytes()) /
                            double(plan.serving.pages * plan::cachePageTokens);
    else
      needs.stateBytes += std::max(0.0, last - std::max(end, double(offset)));
    end = std::max(end, last);
  }
  for (auto [window, bytes] : caches)
    needs.caches.push_back({window, bytes});
  return needs;
}

ProgramNeeds heddle::rt::needsOf(const plan::Plan &plan,
                                 const plan::Program &program) {
  NeedsCounter counter(plan);
  counter.count(program.sequence, 1, {});
  return counter.finish();
}

/// The FLOPs that a large matrix product performs in the time of reading one
/// byte from memory. `costsOf` converts bytes to FLOPs by this ratio. The
/// values were measured on an H100, and on one x86-64 machine for each set of
/// CPU features.
static double flopsPerByte(const plan::Plan &plan) {
  const bool isBf16 = plan.precision == "bf16";
  if (plan.device == plan::DeviceKind::Cuda)
    return plan.precision == "fp32" ? 20 : 200;
  auto has = [&](const char *feature) {
    return std::find(plan.features.begin(), plan.features.end(), feature) !=
           plan.features.end();
  };
  const bool isFp16 = plan.precision == "fp16";
  if ((isBf16 && has("amx-bf16")) || (isFp16 && has("amx-fp16")))
    return 48;
  if (isBf16 && has("avx512bf16"))
    return 16;
  return has("avx512f") ? 8 : 4;
}

/// Adds the costs of the programs of the pipeline stage that is selected in
/// `plan`.
static void addCosts(const plan::Plan &plan,
                     std::map<std::string, double> &costs) {
  for (const plan::Program &program : plan.programs) {
    const ProgramNeeds needs = needsOf(plan, program);
    costs[program.name] += needs.flops + needs.stateBytes * flopsPerByte(plan);
  }
}

std::map<std::string, double> heddle::rt::costsOf(const plan::Plan &plan) {
  std::map<std::string, double> costs;
  if (plan.stages.size() < 2) {
    addCosts(plan, costs);
    return costs;
  }
  plan::Plan all = plan;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    all.selectStage(int64_t(stage));
    addCosts(all, costs);
  }
  return costs;
}
