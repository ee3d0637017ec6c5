//===- ProgramNeeds.cpp - FLOPs and bytes of a program --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/ProgramNeeds.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

using namespace heddle;
using namespace heddle::rt;

using plan::Command;
using plan::Ref;
using plan::Space;

namespace {

/// For each operand of a launch, or argument of a command sequence: its offset
/// in the memory of states, or nullopt if it is not in a state.
using Offsets = std::vector<std::optional<int64_t>>;

/// Walks the command sequences of a stage and visits kernel launches. A launch
/// in a loop is visited once, with the number of its iterations.
class LaunchWalk {
public:
  using Visit = std::function<void(const plan::command::Launch &, int64_t times,
                                   const Offsets &operands)>;
  LaunchWalk(const plan::Stage &stage, Visit visit)
      : stage(stage), visit(std::move(visit)) {}

  void walk(int64_t number, int64_t times, const Offsets &arguments,
            int depth = 0);

private:
  static Offsets offsetsOf(const std::vector<Ref> &refs,
                           const Offsets &arguments);
  void enter(const Command &command, const plan::command::Entry &entry,
             int64_t times, const Offsets &arguments, int depth);

  const plan::Stage &stage;
  Visit visit;
};

/// Counts kernel launches, FLOPs, and the bytes of states that kernels use. The
/// bytes of a state count only once.
class NeedsCounter {
public:
  explicit NeedsCounter(const plan::Plan &plan) : plan(plan) {
    needs.launches.resize(plan.kernels.size());
  }

  void countLaunch(const plan::command::Launch &launch, int64_t times,
                   const Offsets &operands);
  ProgramNeeds finish();

private:
  std::shared_ptr<const CacheLayout> layoutOf(const plan::State &layout,
                                              const plan::State &cache);
  struct Use {
    double bytes = 0; ///< The bytes from the state's offset on that are used.
    int64_t window = 0;
    const plan::State *layout = nullptr; ///< The layout of attention.
  };
  void addCache(const plan::State &cache, const Use &use);

  const plan::Plan &plan;
  ProgramNeeds needs;
  std::map<int64_t, Use> used; ///< What is used of each state, by its offset.
  std::map<std::pair<const plan::State *, int64_t>,
           std::shared_ptr<const CacheLayout>>
      layouts; ///< By constant and the number of heads of keys.
};

} // namespace

Offsets LaunchWalk::offsetsOf(const std::vector<Ref> &refs,
                              const Offsets &arguments) {
  Offsets offsets;
  for (const Ref &ref : refs) {
    auto &offset = offsets.emplace_back();
    if (ref.space == Space::Persistent &&
        ref.memory == plan::MemoryKind::Device)
      offset = ref.offset;
    else if (ref.space == Space::Arg && ref.index >= 0 &&
             ref.index < int64_t(arguments.size()) && arguments[ref.index])
      offset = *arguments[ref.index] + ref.offset;
  }
  return offsets;
}

void LaunchWalk::enter(const Command &command,
                       const plan::command::Entry &entry, int64_t times,
                       const Offsets &arguments, int depth) {
  const Offsets inner = offsetsOf(entry.refs, arguments);
  for (plan::SequenceRuns runs : plan::runsOf(command))
    walk(runs.sequence, times * runs.times, inner, depth + 1);
}

void LaunchWalk::walk(int64_t number, int64_t times, const Offsets &arguments,
                      int depth) {
  if (depth > 64) // A plan with such depth cannot be loaded.
    return;
  for (const Command &command : stage.sequences.at(number).commands)
    command.visit(
        [&](const plan::command::Launch &launch) {
          visit(launch, times, offsetsOf(launch.refs, arguments));
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

bool heddle::rt::readsCache(const plan::Kernel &kernel) {
  return kernel.ops.find("paged_attention") != std::string::npos;
}

/// Returns the constant of a stage that begins at `offset` of the memory of
/// states, or null.
static const plan::State *findConstant(const plan::Stage &stage,
                                       std::optional<int64_t> offset) {
  for (const plan::State &state : stage.states)
    if (offset && state.role == plan::StateRole::Constant &&
        state.memory == plan::MemoryKind::Device && state.offset == *offset)
      return &state;
  return nullptr;
}

/// Returns the use of a constant as a layout of attention, or null.
static const plan::LayoutUse *findLayoutUse(const plan::Plan &plan,
                                            const plan::State *constant) {
  for (const plan::LayoutUse &use : plan.weights.layouts)
    if (constant && use.state == constant->name)
      return &use;
  return nullptr;
}

void NeedsCounter::countLaunch(const plan::command::Launch &launch,
                               int64_t times, const Offsets &operands) {
  needs.launches.at(launch.kernel) += times;
  const plan::Kernel &kernel = plan.kernels[launch.kernel];
  const plan::State *layout = nullptr;
  if (!readsCache(kernel))
    needs.flops += double(times) * kernel.flops;
  else
    for (const std::optional<int64_t> &offset : operands)
      if (const plan::State *state = findConstant(plan, offset);
          findLayoutUse(plan, state))
        layout = state;
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i]) {
      Use &use = used[*operands[i]];
      use.bytes = std::max(
          use.bytes, std::min(kernel.bytes, double(launch.refs[i].bytes)));
      // If several kernels use this KV cache, take the largest attention
      // window. A kernel that only writes the cache has the window 0.
      use.window = std::max(use.window, kernel.window);
      if (layout)
        use.layout = layout;
    }
}

std::shared_ptr<const CacheLayout>
NeedsCounter::layoutOf(const plan::State &layout, const plan::State &cache) {
  // The dimensions of keys and values are pages, heads, positions and features.
  const auto &whole = cache.placement.whole;
  const int64_t heads = (whole.empty() ? cache.shape : whole).at(1);
  auto &known = layouts[{&layout, heads}];
  if (!known)
    known = std::make_shared<CacheLayout>(
        CacheLayout{layout.layoutBits(), findLayoutUse(plan, &layout)->block,
                    std::max<int64_t>(
                        layout.shape.at(0) / std::max<int64_t>(heads, 1), 1)});
  return known;
}

double CacheLayout::keysAt(int64_t positions) const {
  const int64_t groups = bits.matrices() / group;
  const int64_t row = std::clamp<int64_t>(
      (positions - 1) / block, 0, std::max<int64_t>(bits.blocks(), 1) - 1);
  int64_t keys = 0;
  for (int64_t first = 0; first < groups * group; first += group)
    for (int64_t column = 0; column < bits.blocks(); ++column) {
      bool isRead = false;
      for (int64_t head = first; head < first + group; ++head)
        isRead |= bits.has(head, row, column);
      if (isRead)
        keys += std::clamp<int64_t>(positions - column * block, 0, block);
    }
  return double(keys) / double(std::max<int64_t>(groups, 1));
}

ProgramNeeds NeedsCounter::finish() {
  // The end of the bytes that were counted so far. Bytes before this offset are
  // not counted again, because a bucket and the tensors in it share memory.
  double end = 0;
  for (auto [offset, use] : used) {
    auto begins = [offset = offset](const plan::State &state) {
      return state.role == plan::StateRole::Cache &&
             state.memory == plan::MemoryKind::Device && state.offset == offset;
    };
    auto cache = std::find_if(plan.states.begin(), plan.states.end(), begins);
    double last = double(offset) + use.bytes;
    if (cache != plan.states.end())
      addCache(*cache, use);
    else
      needs.stateBytes += std::max(0.0, last - std::max(end, double(offset)));
    end = std::max(end, last);
  }
  std::stable_sort(needs.caches.begin(), needs.caches.end(),
                   [](const CacheNeeds &a, const CacheNeeds &b) {
                     return a.window < b.window;
                   });
  return needs;
}

void NeedsCounter::addCache(const plan::State &cache, const Use &use) {
  const double bytes = double(cache.numBytes()) /
                       double(plan.serving.pages * plan::cachePageTokens);
  std::shared_ptr<const CacheLayout> layout;
  if (use.layout)
    layout = layoutOf(*use.layout, cache);
  for (CacheNeeds &known : needs.caches)
    if (known.window == use.window && known.layout == layout) {
      known.bytes += bytes;
      return;
    }
  needs.caches.push_back({use.window, bytes, std::move(layout)});
}

ProgramNeeds heddle::rt::needsOf(const plan::Plan &plan,
                                 const plan::Program &program) {
  NeedsCounter counter(plan);
  LaunchWalk(plan, [&](const auto &launch, int64_t times,
                       const Offsets &operands) {
    counter.countLaunch(launch, times, operands);
  }).walk(program.sequence, 1, {});
  return counter.finish();
}

std::vector<KernelConstants>
heddle::rt::constantOperandsOf(const plan::Plan &plan) {
  std::vector<KernelConstants> constants(plan.kernels.size());
  std::vector<bool> isKnown(plan.kernels.size());
  auto addStage = [&](const plan::Stage &stage) {
    LaunchWalk walk(stage, [&](const plan::command::Launch &launch, int64_t,
                               const Offsets &operands) {
      if (isKnown.at(launch.kernel))
        return;
      isKnown[launch.kernel] = true;
      for (size_t i = 0; i < operands.size(); ++i)
        if (const plan::State *state = findConstant(stage, operands[i]))
          constants[launch.kernel][i] = state;
    });
    for (const plan::Program &program : stage.programs)
      walk.walk(program.sequence, 1, {});
  };
  for (const plan::Stage &stage : plan.stages)
    addStage(stage);
  if (plan.stages.empty())
    addStage(plan);
  return constants;
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
