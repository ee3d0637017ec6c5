//===- Traces.cpp - Functions of traces and faults ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Prove/Traces.h"
#include "dialects/Dist/Mesh.h"
#include "llvm/ADT/STLExtras.h"

using namespace heddle;
using namespace heddle::prove;

/// Whether one of the axes `names` includes the mesh axis `axis`, or is a part
/// of `axis`. For example, `expert` is a factor of the axis `data`, so `data`
/// includes `expert`. `data/expert` is the rest of `data` without this factor,
/// and so a part of `data`.
static bool isAmong(llvm::StringRef axis,
                    const std::vector<std::string> &names) {
  llvm::StringRef whole = dist::wholeOf(axis);
  return llvm::any_of(names, [&](llvm::StringRef name) {
    return name.split('/').first == axis || (!whole.empty() && name == whole);
  });
}

Axes heddle::prove::axisBits(const std::vector<std::string> &names) {
  Axes axes = 0;
  for (auto [bit, axis] : llvm::enumerate(dist::meshAxes()))
    if (isAmong(axis, names))
      axes |= 1 << bit;
  return axes;
}

std::string heddle::prove::textOf(Axes axes) {
  std::string text;
  for (auto [bit, axis] : llvm::enumerate(dist::meshAxes()))
    if (axes >> bit & 1)
      text += (text.empty() ? "\"" : ", \"") + axis.str() + "\"";
  return text;
}

std::string Trace::describe(const Event &event, const BodyRun &run) const {
  std::string text = event.origin >= 0 ? names[event.origin] : "a command";
  if (event.path >= 0)
    text += " for " + paths[event.path];
  int64_t iteration = iterationOf(event, run);
  if (iteration >= 0)
    text += ", micro-batch " + std::to_string(iteration);
  return text;
}

/// For each body of the trace (the commands of a loop, for example), returns
/// the temporary buffers that no other body uses. Each execution of the body
/// writes these buffers anew.
static std::vector<std::vector<Access>> findOwnBuffers(const Trace &trace) {
  constexpr int32_t unused = -1, shared = -2;
  std::vector<int32_t> users(trace.buffers.size(), unused);
  std::vector<std::vector<Access>> own(trace.bodies.size());
  std::vector<const Access *> fresh(trace.buffers.size());
  for (size_t body = 0; body < trace.bodies.size(); ++body)
    for (const Event &event : trace.bodies[body])
      for (const Access &access : event.accesses) {
        int32_t &user = users[access.buffer];
        if (event.kind == Event::Kind::Fresh) // Inputs keep their content.
          fresh[access.buffer] = access.writes ? nullptr : &access;
        else if (user == unused)
          user = static_cast<int32_t>(body);
        else if (user != static_cast<int32_t>(body))
          user = shared;
      }
  for (size_t buffer = 0; buffer < users.size(); ++buffer)
    if (users[buffer] >= 0 && fresh[buffer])
      own[users[buffer]].push_back(*fresh[buffer]);
  return own;
}

Trace heddle::prove::unroll(const Trace &trace) {
  Trace flat = trace;
  flat.bodies.assign(1, {});
  flat.runs.assign(1, {});
  flat.tokens = 0;
  std::vector<int32_t> tokens(trace.tokens, -1);
  auto own = findOwnBuffers(trace);
  for (const BodyRun &run : trace.runs) {
    Event fresh;
    fresh.kind = Event::Kind::Fresh;
    fresh.accesses = own[run.body];
    if (!fresh.accesses.empty())
      flat.bodies[0].push_back(fresh);
    for (Event event : trace.bodies[run.body]) {
      event.iteration = trace.iterationOf(event, run);
      for (Access &access : event.accesses) {
        access.begin = Trace::beginOf(access, run);
        access.perIteration = access.perSlot = 0;
      }
      bool isOfTwoRuns = event.carries || event.kind == Event::Kind::Settle;
      bool gives =
          event.kind == Event::Kind::Start || event.kind == Event::Kind::Record;
      if (isOfTwoRuns ? tokens[event.token] < 0 : gives)
        tokens[event.token] = flat.tokens++;
      if (event.token >= 0)
        event.token = tokens[event.token];
      flat.bodies[0].push_back(std::move(event));
    }
  }
  return flat;
}

const char *heddle::prove::codeOf(Fault::Kind kind) {
  // The error codes, in the order of the kinds in Fault::Kind.
  static constexpr const char *codes[] = {"H0913", "H0914", "H0919", "H0923",
                                          "H0916", "H0917", "H0918"};
  return codes[static_cast<int>(kind)];
}

/// Returns the first fault that `check` finds in one of the traces, with the
/// index of that trace.
template <typename Check>
static std::optional<Fault> checkEach(const std::vector<Trace> &traces,
                                      Check check) {
  for (size_t number = 0; number < traces.size(); ++number)
    if (std::optional<Fault> fault = check(traces[number])) {
      for (Fault::Source &source : fault->sources)
        source.trace = number;
      return fault;
    }
  return std::nullopt;
}

std::optional<Fault>
heddle::prove::checkCommunication(const plan::Mesh &mesh,
                                  const std::vector<Trace> &traces) {
  if (std::optional<Fault> fault = checkEach(traces, checkRaces))
    return fault;
  if (std::optional<Fault> fault = checkAgreement(mesh, traces))
    return fault;
  return checkReplicas(mesh, traces);
}

std::optional<Fault> heddle::prove::checkAll(const plan::Mesh &mesh,
                                             const std::vector<Trace> &traces) {
  if (std::optional<Fault> fault = checkEach(
          traces, [](const Trace &trace) { return checkFlow(trace); }))
    return fault;
  return checkCommunication(mesh, traces);
}
