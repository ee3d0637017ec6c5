//===- CacheSize.cpp - The size of the key-value cache --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/CacheSize.h"
#include "heddle/PlanFormat/CachePages.h"
#include "heddle/PlanFormat/Serving.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

using namespace heddle;
using namespace heddle::plan;

namespace {

constexpr int64_t alignment = 256; ///< That of buffers on all devices.
constexpr int64_t page = 4096;     ///< A page of the machine.

/// Gives the caches of a plan another number of pages.
class CacheResizer {
public:
  CacheResizer(Plan &plan, int64_t pages) : plan(plan), pages(pages) {}
  void run();

private:
  /// A cache state: its bytes before and after, and by how many bytes the
  /// states after it in memory move.
  struct Change {
    int64_t before = 0, after = 0;
    int64_t moved() const { return (before - after) / alignment * alignment; }
  };
  /// For each argument of a command sequence: the cache that it is, or null.
  using Arguments = std::vector<const Change *>;

  int64_t moved(int64_t offset) const;
  const Change *cacheOf(const Ref &ref, const Arguments &arguments) const;
  void visit(int64_t sequence, const Arguments &arguments);
  void resize(Ref &ref, const Arguments &arguments) const;
  void move(Ref &ref) const;

  Plan &plan;
  int64_t pages;
  std::map<int64_t, Change> changes; ///< By the offset of the cache before.
  std::set<int64_t> visited;         ///< Sequences.
};

} // namespace

/// Whether memory that begins at `ref` is in the region of states.
static bool isState(const Ref &ref) {
  return ref.space == Space::Persistent && ref.memory == MemoryKind::Device;
}

/// Returns by how many bytes the state at `offset` moves.
int64_t CacheResizer::moved(int64_t offset) const {
  int64_t sum = 0;
  for (const auto &[begin, change] : changes)
    if (begin < offset)
      sum += change.moved();
  return sum;
}

const CacheResizer::Change *
CacheResizer::cacheOf(const Ref &ref, const Arguments &arguments) const {
  if (ref.space == Space::Arg)
    return ref.offset == 0 && ref.index < int64_t(arguments.size())
               ? arguments[ref.index]
               : nullptr;
  auto found = isState(ref) ? changes.find(ref.offset) : changes.end();
  return found == changes.end() ? nullptr : &found->second;
}

void CacheResizer::resize(Ref &ref, const Arguments &arguments) const {
  const Change *cache = cacheOf(ref, arguments);
  if (cache && ref.bytes == cache->before)
    ref.bytes = cache->after;
}

void CacheResizer::move(Ref &ref) const {
  if (isState(ref))
    ref.offset -= moved(ref.offset);
}

/// Resizes the operands of a sequence that are caches. All calls of a sequence
/// give it caches of the same size.
void CacheResizer::visit(int64_t number, const Arguments &arguments) {
  if (!visited.insert(number).second)
    return;
  auto enter = [&](const Command &command, command::Entry &entry) {
    Arguments inner;
    for (const Ref &ref : entry.refs)
      inner.push_back(cacheOf(ref, arguments));
    for (SequenceRuns runs : runsOf(command))
      visit(runs.sequence, inner);
    for (Ref &ref : entry.refs)
      resize(ref, arguments);
  };
  for (Command &command : plan.sequences.at(number).commands)
    if (auto *launch = command.as<command::Launch>())
      for (Ref &ref : launch->refs)
        resize(ref, arguments);
    else if (auto *call = command.as<command::Call>())
      enter(command, *call);
    else if (auto *loop = command.as<command::Loop>())
      enter(command, *loop);
    else if (auto *all = command.as<command::Fragments>())
      enter(command, *all);
}

/// Calls `f` for each operand of a command.
template <typename Function>
static void forEachRef(Command &command, Function f) {
  using namespace heddle::plan::command;
  auto ofList = [&](Operands &operands) {
    for (Ref &ref : operands.refs)
      f(ref);
  };
  std::visit(Overloads{[&](Launch &launch) { ofList(launch); },
                       [&](Call &call) { ofList(call); },
                       [&](Loop &loop) { ofList(loop); },
                       [&](Fragments &all) { ofList(all); },
                       [&](Copy &copy) {
                         f(copy.target);
                         f(copy.source);
                       },
                       [&](CopyRows &copy) {
                         f(copy.target);
                         f(copy.source);
                         f(copy.ids);
                       },
                       [&](Fill &fill) { f(fill.target); },
                       [&](command::Collective &start) {
                         f(start.target);
                         f(start.source);
                         f(start.staging);
                       },
                       [&](Send &send) { f(send.data); },
                       [&](Receive &receive) { f(receive.data); },
                       [](auto &) {}},
             command.what);
}

void CacheResizer::run() {
  for (State &state : plan.states)
    if (state.role == StateRole::Cache) {
      Change &change = changes[state.offset];
      change.before = state.numBytes();
      state.shape.at(0) = pages;
      change.after = state.numBytes();
    }
  for (const Program &program : plan.programs)
    visit(program.sequence, {});
  for (Sequence &sequence : plan.sequences)
    for (Command &command : sequence.commands)
      forEachRef(command, [&](Ref &ref) { move(ref); });
  for (State &state : plan.states)
    if (state.memory == MemoryKind::Device)
      state.offset -= moved(state.offset);
  int64_t all = 0, freed = 0;
  for (const auto &[offset, change] : changes) {
    all += change.moved();
    freed += change.before - change.after;
  }
  int64_t &bytes = plan.memory.persistentBytes[MemoryKind::Device];
  all = all / page * page;
  bytes -= all;
  for (Owner &owner : plan.memory.owners)
    if (owner.name == "cache")
      owner.bytes -= freed;
    else if (owner.name == "padding to pages")
      owner.bytes += freed - all;
  plan.serving.pages = pages;
}

bool heddle::plan::hasCacheOfDevice(const Plan &plan) {
  auto found = plan.strategy.find(cacheOfDeviceKey);
  return found != plan.strategy.end() && *found == true;
}

int64_t heddle::plan::cacheBytes(const Plan &plan) {
  int64_t bytes = 0;
  for (const State &state : plan.states)
    if (state.role == StateRole::Cache)
      bytes += state.numBytes();
  return bytes;
}

int64_t heddle::plan::cachePageBytes(const Plan &plan) {
  return cacheBytes(plan) / std::max<int64_t>(plan.serving.pages, 1);
}

int64_t heddle::plan::bytesBesidePages(const Plan &plan) {
  // Each smaller cache can leave up to an alignment of unused bytes after it,
  // and all of them a page at the end.
  int64_t caches = std::count_if(
      plan.states.begin(), plan.states.end(),
      [](const State &state) { return state.role == StateRole::Cache; });
  return plan.memory.peakBytes(MemoryKind::Device) - cacheBytes(plan) +
         caches * alignment + page;
}

int64_t heddle::plan::pagesOfSequence(const Plan &plan) {
  int64_t chunk = 1;
  for (const Program &program : plan.programs)
    for (const Port &port : program.inputs)
      if (port.role == PortRole::Positions && port.shape.size() == 2)
        chunk = std::max(chunk, port.shape[1]);
  CachePages sizes = {cachePageTokens, plan.serving.window};
  return sizes.mostOf(plan.serving.maxContext, chunk);
}

void heddle::plan::setCachePages(Plan &plan, int64_t pages) {
  if (pages < plan.serving.pages)
    CacheResizer(plan, pages).run();
}

std::string heddle::plan::helpForDevice(const Plan &plan, int64_t available) {
  const std::string others = "end other programs on this GPU, or compile ";
  if (plan.serving.pages == 0 || plan.findProgram(ProgramKind::Train))
    return others + "with a smaller --batch or --micro-batch, or with "
                    "--recompute full";
  int64_t room =
      available - plan.memory.peakBytes(MemoryKind::Device) + cacheBytes(plan);
  int64_t fit =
      std::max<int64_t>(room, 0) / cachePageBytes(plan) / pagesOfSequence(plan);
  std::string text = std::to_string(fit) + " requests of --max-context " +
                     std::to_string(plan.serving.maxContext) +
                     " tokens fit into this GPU: ";
  if (fit > 0)
    return text + others + "with --kv-cache auto";
  return text + others +
         "with a smaller --max-context, --kv-type int8, "
         "--quantize int4, or several ranks (--mesh tensor=N)";
}
