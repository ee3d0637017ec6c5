//===- Graph.h - Captured graphs --------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Captures the commands of streams, and submits them again with each launch of
// the graph.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_GRAPH_H
#define HEDDLE_EMULATOR_CUDA_GRAPH_H

#include "emulator/cuda/Timeline.h"

#include <map>
#include <memory>

namespace heddle::rt::cuda {

/// The data of a CUgraph: the commands that were captured instead of being
/// submitted. Each captured stream is a lane.
struct GraphData {
  struct Node {
    enum class Kind { Work, Record, Wait } kind = Kind::Work;
    size_t lane = 0;
    Command command; ///< For Work: the command.
    /// For Record and Wait: the event that is recorded or waited for, as an
    /// index among the events of the graph.
    size_t point = 0;
  };
  std::vector<Node> nodes;
  size_t lanes = 0, points = 0;
};

/// The data of a CUgraphExec. Each lane (a captured stream) becomes a stream
/// that belongs to the graph, so that two launches of the graph run one after
/// the other.
struct GraphExecData {
  GraphData graph;
  std::vector<StreamData *> lanes;

  GraphExecData(GraphData given, Timeline &timeline);
  /// Submits all commands of the graph. They run after the commands that
  /// `stream` already has, and before commands that are submitted to `stream`
  /// later.
  void launch(Timeline &timeline, StreamData &stream);
};

/// An active capture.
class Capture {
public:
  explicit Capture(StreamHandle origin) : origin(origin) { enter(origin); }

  bool captures(StreamHandle stream) const { return lanes.count(stream); }
  bool captures(EventHandle event) const { return points.count(event); }
  StreamHandle begunOn() const { return origin; }

  void add(StreamHandle stream, Command command);
  void record(StreamHandle stream, EventHandle event);
  /// Lets a captured stream wait for an event. If the event was recorded during
  /// the capture, a stream that is not captured yet joins the capture.
  void wait(StreamHandle stream, EventHandle event);
  /// Called when an event is recorded outside of the capture. After that a wait
  /// for the event no longer refers to a captured command.
  void forget(EventHandle event) { points.erase(event); }
  /// Whether all captured commands come before the end of the stream on which
  /// the capture began.
  bool isJoined() const;
  GraphData take() { return std::move(graph); }

private:
  void enter(StreamHandle stream);
  GraphData::Node &addNode(StreamHandle stream, GraphData::Node::Kind kind);

  StreamHandle origin;
  GraphData graph;
  std::map<StreamHandle, size_t> lanes;
  std::map<EventHandle, size_t> points;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_EMULATOR_CUDA_GRAPH_H
