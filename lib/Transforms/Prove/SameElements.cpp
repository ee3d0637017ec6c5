//===- SameElements.cpp - Checks that updates read the same elements ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Prove/Traces.h"
#include <algorithm>
#include <list>
#include <tuple>

using namespace heddle;
using namespace heddle::prove;

namespace {

/// Elements of a parameter, or of what is kept for each of them; of which kind
/// that is does not count.
struct ElementRange {
  int32_t parameter = -1; ///< In Trace::members: the first of its parameter.
  int64_t first = 0, count = 0;
  int32_t member = -1; ///< In Trace::members.
  bool operator==(const ElementRange &other) const {
    return parameter == other.parameter && first == other.first &&
           count == other.count;
  }
};
using ElementRanges = std::vector<ElementRange>;

/// Bytes of the arena that hold what was copied there, or what an update made.
struct ArenaCopy {
  Range bytes;
  Range state;          ///< Where it was copied from; empty: an update made it.
  ElementRanges ranges; ///< Of all of it.
};

/// Executes one trace. Accesses whose place varies, or is the rank's own, are
/// of nothing that is known.
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

  /// What the bytes of states are of; padding is of nothing.
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
      // Parts of elements are of no whole ones.
      int64_t width = member->width;
      bool isWhole = first % width == 0 && (end - begin) % width == 0;
      auto number = static_cast<int32_t>(member - trace.members.begin());
      ranges.push_back({parameters[number], isWhole ? first / width : -1,
                        (end - begin) / width, number});
    }
    return ranges;
  }

  /// What an access is of, as far as that is known.
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

  /// Updates of one code have moments of one kind at one operand.
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

  /// An update reads and writes the same elements of all that it updates.
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
      // What is written where it was read is still of the same place.
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

  /// A table is one whole parameter.
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

  /// Whether the first bytes of a name are that path, or one that it goes on
  /// from: a path may have more behind its layer, the number of a range of it.
  static bool leadsTo(const std::string &name, size_t bytes,
                      const std::string &path) {
    return path.compare(0, bytes, name, 0, bytes) == 0 &&
           (path.size() == bytes || path[bytes] == '.');
  }

  /// The bytes of the names between dots that both begin with.
  static size_t sharedPrefix(const std::string &name, const std::string &path) {
    size_t shared = 0;
    for (size_t dot = name.find('.');
         dot != std::string::npos && leadsTo(name, dot, path);
         dot = name.find('.', dot + 1))
      shared = dot + 1;
    return shared;
  }

  /// The parameters of a layer, by their names within it.
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

  /// What layers share code for, each reads of its own parameters.
  bool read(const Event &event, const Access &access) {
    ElementRanges ranges = elementsOf(access);
    const std::string &path = trace.paths[event.path];
    if (layer.empty() || !leadsTo(layer, layer.size(), path)) {
      turns.clear();
      layer = path;
    }
    // Tiles of a weight are read one after the other, each by its own range.
    int64_t turn = turns[{event.origin, access.operand}]++;
    if (ranges.empty())
      return true;
    std::string place = placeIn(path, ranges);
    const auto &[first, isNew] = reads.try_emplace(
        std::tuple(event.origin, access.operand, turn), path, place);
    const auto &[otherPath, otherPlace] = first->second;
    return otherPlace == place ||
           refuse(event, "reads " + place + " for " + path + " (operand " +
                             std::to_string(access.operand) + "), but " +
                             otherPlace + " for " + otherPath);
  }

  /// The copies that have some of these bytes are no more.
  void forget(const Access &access) {
    if (access.space != Space::Arena)
      return;
    Range range = isKnown(access) ? rangeOf(access) : access.choices;
    copies.remove_if(
        [&](const ArenaCopy &held) { return held.bytes.overlaps(range); });
  }

  const Trace &trace;
  std::vector<int32_t> parameters; ///< For each member the first one alike.
  std::list<ArenaCopy> copies;
  std::string layer; ///< The path of what runs, or of its first range.
  /// By command and operand: how often it was read for this layer, so far.
  std::map<std::pair<int32_t, int16_t>, int64_t> turns;
  /// By these and the turn: for which layer it was read first, and what.
  std::map<std::tuple<int32_t, int16_t, int64_t>,
           std::pair<std::string, std::string>>
      reads;
  /// By the code of updates and operand: the kind of what it is of.
  std::map<std::pair<std::string, int16_t>, std::string> kinds;
  std::optional<Fault> fault;
};

} // namespace

std::optional<Fault> heddle::prove::checkSameElements(const Trace &trace) {
  return SameElementsChecker(trace).run();
}
