//===- Schedule.cpp - Pipeline schedules as data --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Pipe/Schedule.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <set>

using namespace heddle::pipe;
using Kind = Action::Kind;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// The letter for each value of Action::Kind, in order: forward pass, backward
/// pass, gradients of inputs, gradients of weights, optimizer.
static constexpr llvm::StringLiteral letters("FBIWO");

static std::string write(const Action &action, const std::string &batch) {
  std::string text(1, letters[static_cast<size_t>(action.kind)]);
  if (action.kind != Kind::Optimizer)
    text += batch;
  return action.chunk ? text + "/" + std::to_string(action.chunk) : text;
}

std::string Action::name() const { return write(*this, ""); }

std::string Action::str() const {
  return write(*this, std::to_string(microBatch));
}

static std::optional<Action> parseAction(llvm::StringRef word) {
  if (word == "O")
    return Action{Kind::Optimizer, 0};
  size_t letter = letters.drop_back().find(word.front());
  if (letter == llvm::StringRef::npos)
    return std::nullopt;
  Action action{static_cast<Kind>(letter)};
  auto [batch, chunk] = word.drop_front().split('/');
  uint32_t number = 0;
  if (word.ends_with("/") || batch.getAsInteger(10, number) ||
      number >= mostMicroBatches)
    return std::nullopt;
  action.microBatch = number;
  if (!chunk.empty()) {
    if (chunk.getAsInteger(10, number))
      return std::nullopt;
    action.chunk = number;
  }
  return action;
}

std::optional<Line> heddle::pipe::parseStage(llvm::StringRef text) {
  Line line;
  llvm::SmallVector<llvm::StringRef> words;
  text.split(words, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef word : words) {
    auto action = parseAction(word);
    if (!action)
      return std::nullopt;
    line.push_back(*action);
  }
  return line;
}

std::string heddle::pipe::printStage(llvm::ArrayRef<Action> line) {
  std::string text;
  for (const Action &action : line)
    text += (text.empty() ? "" : " ") + action.str();
  return text;
}

Line heddle::pipe::kindsOf(llvm::ArrayRef<Action> line) {
  std::set<std::pair<Kind, int64_t>> found;
  for (const Action &action : line)
    found.emplace(action.kind, action.chunk);
  Line kinds;
  for (auto [kind, chunk] : found)
    kinds.push_back({kind, 0, chunk});
  return kinds;
}

//===----------------------------------------------------------------------===//
// Generators
//===----------------------------------------------------------------------===//

/// Makes a stage's line, the list of its forward and backward passes. It begins
/// with `ahead` forward passes, the warm-up. Then forward and backward passes
/// alternate, and finally the remaining backward passes follow.
static Line makeLine(int64_t ahead, llvm::ArrayRef<Action> forward,
                     llvm::ArrayRef<Action> backward) {
  ahead = std::min<int64_t>(ahead, forward.size());
  Line line(forward.begin(), forward.begin() + ahead);
  for (size_t done = 0; done < backward.size(); ++done) {
    if (ahead + done < forward.size())
      line.push_back(forward[ahead + done]);
    line.push_back(backward[done]);
  }
  line.push_back({Kind::Optimizer, 0});
  return line;
}

/// All forward or backward passes of a stage with `chunks` chunks of layers, in
/// Megatron's order for interleaved schedules: the first `stages` micro-batches
/// of one chunk, the same micro-batches of the next chunk, and so on.
static Line inGroups(Kind kind, int64_t stages, int64_t microBatches,
                     int64_t chunks) {
  Line order;
  for (int64_t group = 0; group < microBatches; group += stages)
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      for (int64_t batch = group; batch < group + stages; ++batch)
        order.push_back(
            {kind, batch, kind == Kind::Forward ? chunk : chunks - 1 - chunk});
  return order;
}

/// Makes the line (the list of passes) of stage `stage` for zb-h1. The line is
/// the same as for 1f1b, except that gradients of weights are computed `stage`
/// micro-batches later than gradients of inputs. So every stage holds the
/// activations of as many micro-batches as the first stage does in 1f1b.
static Line makeZeroBubble(int64_t stage, int64_t stages,
                           int64_t microBatches) {
  Line line;
  int64_t ahead = std::min(stages - 1 - stage, microBatches);
  for (int64_t batch = 0; batch < ahead; ++batch)
    line.push_back({Kind::Forward, batch});
  for (int64_t batch = 0; batch < microBatches + stage; ++batch) {
    if (batch + ahead < microBatches)
      line.push_back({Kind::Forward, batch + ahead});
    if (batch < microBatches)
      line.push_back({Kind::BackwardInput, batch});
    if (batch >= stage)
      line.push_back({Kind::BackwardWeight, batch - stage});
  }
  line.push_back({Kind::Optimizer, 0});
  return line;
}

static Line makeStage(llvm::StringRef kind, int64_t stage, int64_t stages,
                      int64_t microBatches, int64_t chunks) {
  int64_t after = stages - 1 - stage;
  if (kind == "zb-h1")
    return makeZeroBubble(stage, stages, microBatches);
  if (kind == "interleaved")
    return makeLine(2 * after + (chunks - 1) * stages,
                    inGroups(Kind::Forward, stages, microBatches, chunks),
                    inGroups(Kind::Backward, stages, microBatches, chunks));
  // GPipe runs all forward passes first, which needs memory for all
  // micro-batches. A single stage gains nothing from that, because it never
  // waits for another stage. So it runs the passes of one micro-batch after the
  // other.
  bool all = kind == "gpipe" && stages > 1;
  return makeLine(all ? microBatches : after,
                  inGroups(Kind::Forward, 1, microBatches, 1),
                  inGroups(Kind::Backward, 1, microBatches, 1));
}

/// Returns why a schedule of this kind is impossible, and what is possible
/// instead; "" if it is possible.
static std::string refuse(llvm::StringRef kind, int64_t stages,
                          int64_t microBatches, int64_t chunks) {
  if (kind != "gpipe" && kind != "1f1b" && kind != "interleaved" &&
      kind != "zb-h1")
    return "unknown schedule \"" + kind.str() +
           "\"; known are gpipe, 1f1b, interleaved, zb-h1";
  if (kind != "interleaved")
    return chunks == 1
               ? ""
               : "the schedule " + kind.str() +
                     " has 1 virtual stage "
                     "per rank, not " +
                     std::to_string(chunks) + "; interleaved has several";
  if (chunks < 2)
    return "the schedule interleaved needs 2 or more virtual stages per rank; "
           "with 1 it is 1f1b";
  if (int64_t rest = microBatches % stages) {
    int64_t below = microBatches - rest;
    return "the schedule interleaved needs micro-batches in a multiple of "
           "the " +
           std::to_string(stages) +
           " stages: " + (below ? std::to_string(below) + " or " : "") +
           std::to_string(below + stages) + ", not " +
           std::to_string(microBatches);
  }
  return "";
}

std::optional<Schedule> heddle::pipe::makeSchedule(llvm::StringRef kind,
                                                   int64_t stages,
                                                   int64_t microBatches,
                                                   int64_t chunks,
                                                   std::string &why) {
  why = refuse(kind, stages, microBatches, chunks);
  if (!why.empty())
    return std::nullopt;
  Schedule schedule;
  for (int64_t stage = 0; stage < stages; ++stage)
    schedule.push_back(makeStage(kind, stage, stages, microBatches, chunks));
  return schedule;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

int64_t heddle::pipe::liveMicroBatches(const Line &line,
                                       std::optional<int64_t> chunk) {
  int64_t live = 0, most = 0;
  for (const Action &action : line) {
    if (chunk && action.chunk != *chunk)
      continue;
    live += action.kind == Kind::Forward ? 1 : 0;
    live -= action.releases() ? 1 : 0;
    most = std::max(most, live);
  }
  return most;
}

/// Whether `count` slots are enough for a chunk of layers. A slot is a buffer
/// for the activations of one micro-batch; micro-batch m uses slot m modulo
/// `count`. Two micro-batches whose activations are alive at the same time must
/// not share a slot.
static bool keepsApart(const Line &line, int64_t chunk, int64_t count) {
  std::vector<bool> used(count);
  for (const Action &action : line) {
    if (action.chunk != chunk)
      continue;
    int64_t slot = action.microBatch % count;
    if (action.kind == Kind::Forward) {
      if (used[slot])
        return false;
      used[slot] = true;
    }
    if (action.releases())
      used[slot] = false;
  }
  return true;
}

int64_t heddle::pipe::slotsNeeded(const Line &line, int64_t chunk) {
  // Increase the number of slots (buffers for the activations of one
  // micro-batch) until no two live micro-batches share one. At the latest this
  // holds when every micro-batch has its own slot.
  int64_t count = std::max<int64_t>(1, liveMicroBatches(line, chunk));
  while (!keepsApart(line, chunk, count))
    ++count;
  return count;
}
