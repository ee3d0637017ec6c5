//===- HandTraces.h - Traces that were made by hand -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_PROVE_HANDTRACES_H
#define HEDDLE_TEST_UNIT_PROVE_HANDTRACES_H

#include "heddle/Transforms/Prove/Traces.h"

namespace heddle::test {

/// Writes a trace, one command after the other. Buffers are 64 bytes of floats
/// in the arena unless said otherwise.
class TraceWriter {
public:
  /// Commands go into body 0, which is run once.
  TraceWriter() {
    trace.bodies.resize(1);
    trace.runs.push_back({});
  }

  int32_t buffer(int64_t begin, int64_t bytes = 64,
                 prove::Space space = prove::Space::Arena) {
    trace.buffers.push_back({begin, begin + bytes});
    spaces.push_back(space);
    return trace.buffers.size() - 1;
  }
  int32_t state(int64_t begin, int64_t bytes = 64) {
    return buffer(begin, bytes, prove::Space::Persistent);
  }

  prove::Access access(int32_t number, bool writes, int operand) const {
    prove::Access access;
    access.space = spaces[number];
    access.writes = writes;
    access.operand = operand;
    access.buffer = number;
    access.begin = trace.buffers[number].begin;
    access.bytes = trace.buffers[number].end - access.begin;
    return access;
  }

  prove::Event &append(prove::Event::Kind kind, const std::string &name) {
    prove::Event event;
    event.kind = kind;
    event.origin = trace.names.size();
    trace.names.push_back(name);
    trace.bodies[body].push_back(event);
    return trace.bodies[body].back();
  }

  void launch(const std::vector<int32_t> &reads,
              const std::vector<int32_t> &writes) {
    prove::Event &event = append(prove::Event::Kind::Launch, "a launch");
    for (int32_t buffer : reads)
      event.accesses.push_back(access(buffer, false, event.accesses.size()));
    for (int32_t buffer : writes)
      event.accesses.push_back(access(buffer, true, event.accesses.size()));
  }
  void input(int32_t buffer) {
    append(prove::Event::Kind::Fresh, "an input")
        .accesses.push_back(access(buffer, true, 0));
  }

  /// Gives the token.
  int32_t start(plan::Collective::Kind kind,
                const std::vector<std::string> &axes, int32_t target,
                int32_t source, int32_t staging,
                const std::string &reason = "gradients") {
    prove::Event &event = append(prove::Event::Kind::Start, "a collective");
    for (int32_t buffer : {source, target, staging})
      event.accesses.push_back(access(buffer, buffer != source, 0));
    event.accesses[0].operand = 1;
    event.accesses[1].writes = true;
    event.accesses[2].operand = 2;
    event.token = trace.tokens++;
    event.number = trace.collectives.size();
    prove::Collective collective;
    collective.what.kind = kind;
    collective.what.axes = axes;
    collective.targetBytes = bytes(target);
    collective.sourceBytes = bytes(source);
    collective.stagingBytes = bytes(staging);
    collective.reason = reason;
    collective.targetBuffer = target;
    collective.targetBegin = trace.buffers[target].begin;
    trace.collectives.push_back(collective);
    return event.token;
  }
  void wait(int32_t token) {
    append(prove::Event::Kind::Wait, "a wait").token = token;
  }

  void message(prove::Event::Kind kind, int32_t buffer,
               const std::string &channel, int64_t delta,
               const std::string &axis = "pipe") {
    bool receives = kind == prove::Event::Kind::Receive;
    prove::Event &event = append(kind, receives ? "a receive" : "a send");
    event.number = trace.messages.size();
    event.accesses.push_back(access(buffer, receives, 0));
    trace.messages.push_back(
        {{axis, delta, channel}, bytes(buffer), plan::DType::F32});
  }
  void send(int32_t buffer, const std::string &channel, int64_t delta = 1) {
    message(prove::Event::Kind::Send, buffer, channel, delta);
  }
  void receive(int32_t buffer, const std::string &channel, int64_t delta = -1) {
    message(prove::Event::Kind::Receive, buffer, channel, delta);
  }
  void flush(const std::string &channel, int64_t left = 0) {
    prove::Event &event = append(prove::Event::Kind::Flush, "a flush");
    event.number = trace.messages.size();
    event.left = left;
    trace.messages.push_back({{"", 0, channel}, 0, {}});
  }

  int64_t bytes(int32_t buffer) const {
    return trace.buffers[buffer].end - trace.buffers[buffer].begin;
  }

  prove::Trace trace;
  size_t body = 0; ///< Where commands go.

private:
  std::vector<prove::Space> spaces;
};

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_PROVE_HANDTRACES_H
