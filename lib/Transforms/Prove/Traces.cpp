//===- Traces.cpp - What ranks do in a step, command by command -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Prove/Traces.h"

using namespace heddle;
using namespace heddle::prove;

std::string Trace::describe(const Event &event, const Run &run) const {
  std::string text = event.origin >= 0 ? names[event.origin] : "a command";
  if (event.path >= 0)
    text += " for " + paths[event.path];
  int64_t iteration = iterationOf(event, run);
  if (iteration >= 0)
    text += ", micro-batch " + std::to_string(iteration);
  return text;
}

Trace heddle::prove::unroll(const Trace &trace) {
  Trace flat = trace;
  flat.bodies.assign(1, {});
  flat.runs.assign(1, {});
  flat.tokens = 0;
  std::vector<int32_t> tokens(trace.tokens, -1);
  for (const Run &run : trace.runs)
    for (Event event : trace.bodies[run.body]) {
      event.iteration = trace.iterationOf(event, run);
      for (Access &access : event.accesses) {
        access.begin = Trace::beginOf(access, run);
        access.perIteration = access.perSlot = 0;
      }
      if (event.kind == Event::Kind::Start)
        tokens[event.token] = flat.tokens++;
      if (event.token >= 0)
        event.token = tokens[event.token];
      flat.bodies[0].push_back(std::move(event));
    }
  return flat;
}

const char *heddle::prove::codeOf(Fault::Kind kind) {
  switch (kind) {
  case Fault::Kind::Extent:
    return "H0913";
  case Fault::Kind::Flow:
    return "H0914";
  case Fault::Kind::Collectives:
    return "H0916";
  case Fault::Kind::Messages:
    return "H0917";
  case Fault::Kind::Deadlock:
    return "H0918";
  case Fault::Kind::Race:
    return "H0919";
  case Fault::Kind::Waits:
    return "H0923";
  }
  return "H0900";
}

/// The first fault of a trace, in its place among the others.
template <typename Check>
static std::optional<Fault> checkEach(const std::vector<Trace> &traces,
                                      Check check) {
  for (size_t number = 0; number < traces.size(); ++number)
    if (std::optional<Fault> fault = check(traces[number])) {
      for (Fault::Place &place : fault->places)
        place.trace = number;
      return fault;
    }
  return std::nullopt;
}

std::optional<Fault>
heddle::prove::checkCommunication(const plan::Mesh &mesh,
                                  const std::vector<Trace> &traces) {
  if (std::optional<Fault> fault = checkEach(traces, checkRaces))
    return fault;
  return checkAgreement(mesh, traces);
}

std::optional<Fault> heddle::prove::checkAll(const plan::Mesh &mesh,
                                             const std::vector<Trace> &traces) {
  if (std::optional<Fault> fault = checkEach(
          traces, [](const Trace &trace) { return checkFlow(trace); }))
    return fault;
  return checkCommunication(mesh, traces);
}
