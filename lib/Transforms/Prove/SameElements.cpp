//===- SameElements.cpp - Checks which elements updates read --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `checkSameElements`: see Traces.h.
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Prove/Traces.h"
#include <algorithm>
#include <list>
#include <tuple>

using namespace heddle;
using namespace heddle::prove;

namespace {

/// A range of elements of a parameter, or of the same elements of its gradient
/// or moments. Ranges of a parameter and of its moments compare equal.
struct ElementRange {
  /// A number for the parameter: the lowest index in Trace::members (the
  /// parameters, gradients and moments in memory) with the parameter's name.
  int32_t parameter = -1;
  int64_t first = 0, count = 0;
  /// The index in Trace::members of the parameter, gradient or moment with
  /// these elements.
  int32_t member = -1;
  bool operator==(const ElementRange &other) const {
    return parameter == other.parameter && first == other.first &&
           count == other.count;
  }
};
using ElementRanges = std::vector<ElementRange>;

/// Where the content of a range of temporary memory comes from: from a state
/// that was copied there, or from an optimizer update that wrote it.
struct ArenaCopy {
  Range bytes; ///< The range of temporary memory.
  /// The bytes of the state from which `bytes` was copied; empty if the content
  /// is the result of an update.
  Range state;
  /// If `state` is empty: the elements that `bytes` holds.
  ElementRanges ranges;
};

/// Executes the commands of one rank, and tracks which elements of which
/// parameters, gradients and moments its temporary memory holds. Checks, for
/// example, that all operands of an optimizer update are the same elements.
/// Does not check accesses whose address varies or depends on the rank.
class SameElementsChecker {
public:
  explicit SameElementsChecker(const Trace &trace) : trace(trace) {
    std::map<std::string, int32_t> first;
    for (const Member &member : trace.members)
      parameters.push_back(
          first.try_emplace(member.parameter, int32_t(parameters.size()))
              .first->second);
  }

  std::optional<Fault> run() {
    if (std::none_of(trace.states.begin(), trace.states.end(),
                     [](const State &state) { return state.isOffloaded; }))
      return std::nullopt;
    for (const BodyRun &run : trace.runs) {
      layer.clear();
      for (const Event &event : trace.bodies[run.body])
        if (event.kind != Event::Kind::Fresh && !execute(event))
          return fault;
    }
    return std::nullopt;
  }

private:
  static bool isKnown(const Access &access) {
    return !access.varies() && access.rankAxes == 0;
  }
  static Range rangeOf(const Access &access) {
    return {access.begin, access.begin + access.bytes};
  }

  bool refuse(const Event &event, const std::string &what) {
    fault = Fault{Fault::Kind::Flow, what, {{0, event.origin}}};
    return false;
  }

  /// Returns the elements that a range of the persistent memory holds. Bytes of
  /// padding hold no elements.
  ElementRanges elementsOf(Range range) const {
    auto member = std::upper_bound(
        trace.members.begin(), trace.members.end(), range.begin,
        [](int64_t byte, const Member &m) { return byte < m.range.end; });
    ElementRanges ranges;
    for (; member != trace.members.end() && member->range.begin < range.end;
         ++member) {
      int64_t begin = std::max(range.begin, member->range.begin);
      int64_t end = std::min(range.end, member->range.end);
      int64_t first = begin - member->range.begin;
      // If the range does not begin and end at the boundaries of elements,
      // nothing is known about it.
      int64_t width = member->width;
      bool isWhole = first % width == 0 && (end - begin) % width == 0;
      auto number = static_cast<int32_t>(member - trace.members.begin());
      ranges.push_back({parameters[number], isWhole ? first / width : -1,
                        (end - begin) / width, number});
    }
    return ranges;
  }

  /// Returns the elements that an access touches; nothing if its address varies
  /// or depends on the rank.
  ElementRanges elementsOf(const Access &access) const {
    if (!isKnown(access))
      return {};
    Range range = rangeOf(access);
    if (access.space == Space::Persistent)
      return elementsOf(range);
    for (const ArenaCopy &held : copies) {
      if (range.begin < held.bytes.begin || held.bytes.end < range.end)
        continue;
      if (held.state.end > 0) {
        int64_t begin = held.state.begin + range.begin - held.bytes.begin;
        return elementsOf(Range{begin, begin + access.bytes});
      }
      if (access.bytes == held.bytes.end - held.bytes.begin)
        return held.ranges;
    }
    return {};
  }

  std::string nameOf(const ElementRanges &ranges) const {
    std::string text;
    for (const ElementRange &range : ranges)
      text += (text.empty() ? "elements " : ", ") +
              std::to_string(range.first) + " to " +
              std::to_string(range.first + range.count - 1) + " of " +
              trace.members[range.member].parameter;
    return text;
  }

  bool execute(const Event &event) {
    if (event.updates)
      return update(event);
    if (event.kind == Event::Kind::Copy)
      return copy(event);
    if (event.kind == Event::Kind::CopyRows && !copyRows(event))
      return false;
    if (event.kind == Event::Kind::Launch && event.path >= 0)
      for (const Access &access : event.accesses)
        if (!access.writes && access.space == Space::Arena &&
            !read(event, access))
          return false;
    for (const Access &access : event.accesses)
      if (access.writes)
        forget(access);
    return true;
  }

  /// Checks that optimizer updates which share a kernel pass the same kind of
  /// state, for example `exp_avg`, as the same operand.
  bool checkKind(const Event &event, const Access &access,
                 const ElementRanges &ranges) {
    if (ranges.empty() || event.kernel < 0)
      return true;
    const std::string &kind = trace.members[ranges.front().member].kind;
    const auto &[first, isNew] = kinds.try_emplace(
        {trace.kernels[event.kernel].code, access.operand}, kind);
    auto text = [](const std::string &kind) {
      return kind.empty() ? "the parameter" : kind;
    };
    return first->second == kind ||
           refuse(event, "updates with " + text(kind) + " (operand " +
                             std::to_string(access.operand) +
                             "), others with " + text(first->second));
  }

  /// Checks that an optimizer update reads and writes the same elements of a
  /// parameter and its states.
  bool update(const Event &event) {
    ElementRanges common;
    for (const Access &access : event.accesses) {
      ElementRanges ranges =
          access.writes ? ElementRanges() : elementsOf(access);
      if (!checkKind(event, access, ranges))
        return false;
      if (common.empty())
        common = ranges;
      else if (!ranges.empty() && ranges != common)
        return refuse(event, "updates " + nameOf(common) + " with what is of " +
                                 nameOf(ranges) + " (operand " +
                                 std::to_string(access.operand) + ")");
    }
    for (const Access &access : event.accesses) {
      if (!access.writes)
        continue;
      // A result that overwrites an operand of the update holds the same
      // elements as this operand. What is known about the memory then stays
      // true.
      bool isSame = !common.empty() && elementsOf(access) == common;
      if (isSame || access.space != Space::Arena)
        continue;
      forget(access);
      if (isKnown(access) && !common.empty())
        copies.push_back({rangeOf(access), {}, common});
    }
    return true;
  }

  bool copy(const Event &event) {
    const Access *target = nullptr, *source = nullptr;
    for (const Access &access : event.accesses)
      (access.writes ? target : source) = &access;
    if (target->space == Space::Persistent) {
      ElementRanges from = elementsOf(*source), to = elementsOf(*target);
      return from.empty() || to.empty() || from == to ||
             refuse(event, "stores " + nameOf(from) + " where " + nameOf(to) +
                               " are kept");
    }
    ElementRanges ranges = elementsOf(*source);
    forget(*target);
    if (!isKnown(*source) || !isKnown(*target))
      return true;
    if (source->space == Space::Persistent)
      copies.push_back({rangeOf(*target), rangeOf(*source), {}});
    else if (!ranges.empty())
      copies.push_back({rangeOf(*target), {}, ranges});
    return true;
  }

  /// Checks that the table of a lookup is one parameter, from its first to its
  /// last element.
  bool copyRows(const Event &event) {
    for (const Access &access : event.accesses) {
      if (access.writes || access.space != Space::Persistent)
        continue;
      ElementRanges ranges = elementsOf(access);
      bool isWhole = ranges.size() == 1 &&
                     trace.members[ranges[0].member].range == rangeOf(access);
      if (!ranges.empty() && !isWhole)
        return refuse(event, "takes " + nameOf(ranges) + " for a table");
    }
    return true;
  }

  /// Whether `path` begins with the first `bytes` bytes of `name`, and then
  /// ends or continues with a dot. If these bytes are the path of a layer,
  /// `path` belongs to the layer, as h.0.1 belongs to h.0.
  static bool leadsTo(const std::string &name, size_t bytes,
                      const std::string &path) {
    return path.compare(0, bytes, name, 0, bytes) == 0 &&
           (path.size() == bytes || path[bytes] == '.');
  }

  /// Returns the length of the longest common prefix of `name` and `path` that
  /// ends with a dot. The dot is included.
  static size_t sharedPrefix(const std::string &name, const std::string &path) {
    size_t shared = 0;
    for (size_t dot = name.find('.');
         dot != std::string::npos && leadsTo(name, dot, path);
         dot = name.find('.', dot + 1))
      shared = dot + 1;
    return shared;
  }

  /// Returns the names of the parameters in `ranges`, relative to the path of a
  /// layer, for example `attn.weight`.
  std::string placeIn(const std::string &path,
                      const ElementRanges &ranges) const {
    std::string text;
    for (const ElementRange &range : ranges) {
      std::string name = trace.members[range.member].parameter;
      name.erase(0, sharedPrefix(name, path));
      text += (text.empty() ? "" : ", ") + name;
      if (range.first != 0)
        text += " from element " + std::to_string(range.first) + " on";
    }
    return text;
  }

  /// Checks that layers with the same code read parameters that have the same
  /// name relative to the layer.
  bool read(const Event &event, const Access &access) {
    ElementRanges ranges = elementsOf(access);
    const std::string &path = trace.paths[event.path];
    if (layer.empty() || !leadsTo(layer, layer.size(), path)) {
      readCounts.clear();
      layer = path;
    }
    // A product that is computed by row tiles reads its weight several times.
    // Count its reads to tell them apart.
    int64_t count = readCounts[{event.origin, access.operand}]++;
    if (ranges.empty())
      return true;
    std::string place = placeIn(path, ranges);
    const auto &[first, isNew] = reads.try_emplace(
        std::tuple(event.origin, access.operand, count), path, place);
    const auto &[otherPath, otherPlace] = first->second;
    return otherPlace == place ||
           refuse(event, "reads " + place + " for " + path + " (operand " +
                             std::to_string(access.operand) + "), but " +
                             otherPlace + " for " + otherPath);
  }

  /// Forgets copies in temporary memory whose bytes are overwritten.
  void forget(const Access &access) {
    if (access.space != Space::Arena)
      return;
    Range range = isKnown(access) ? rangeOf(access) : access.choices;
    copies.remove_if(
        [&](const ArenaCopy &held) { return held.bytes.overlaps(range); });
  }

  const Trace &trace;
  /// For each entry of Trace::members (a parameter, gradient or optimizer
  /// state), the index of the first entry that belongs to the same parameter.
  std::vector<int32_t> parameters;
  std::list<ArenaCopy> copies;
  /// The path of the layer that is being executed.
  std::string layer;
  /// How often the current layer has read each operand of each command.
  std::map<std::pair<int32_t, int16_t>, int64_t> readCounts;
  /// For each read of a parameter in the code of a layer, the layer that
  /// executed it first. Other layers with the same code must read a parameter
  /// that has the same name within the layer. The key is the command, the
  /// operand, and how often the layer has read this operand before. The value
  /// is the path of the first layer, and the parameter's name relative to this
  /// path.
  std::map<std::tuple<int32_t, int16_t, int64_t>,
           std::pair<std::string, std::string>>
      reads;
  /// The kind of state (for example `exp_avg`) to which an operand of an
  /// optimizer update must belong. The key is the update's kernel code and the
  /// operand's index.
  std::map<std::pair<std::string, int16_t>, std::string> kinds;
  std::optional<Fault> fault;
};

} // namespace

std::optional<Fault> heddle::prove::checkSameElements(const Trace &trace) {
  return SameElementsChecker(trace).run();
}
