//===- Graph.h - Work that is recorded and repeated -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMULATOR_CUDA_GRAPH_H
#define HEDDLE_EMULATOR_CUDA_GRAPH_H

#include "emulator/cuda/Timeline.h"

#include <map>
#include <memory>

namespace heddle::rt::cuda {

/// A CUgraph: what the captured streams would have been given. A lane is one
/// of these streams.
struct GraphData {
  struct Node {
    enum class Kind { Work, Record, Wait } kind = Kind::Work;
    size_t lane = 0;
    Command command;  ///< Work.
    size_t point = 0; ///< Record, Wait: which of the graph's events.
  };
  std::vector<Node> nodes;
  size_t lanes = 0, points = 0;
};

/// A CUgraphExec. Its lanes are streams of its own, so that two launches follow
/// one another.
struct GraphExecData {
  GraphData graph;
  std::vector<StreamData *> lanes;

  GraphExecData(GraphData given, Timeline &timeline);
  /// Submits all of it, after what the stream has been given, and before what
  /// comes.
  void launch(Timeline &timeline, StreamData &stream);
};

/// A capture under way.
class Capture {
public:
  explicit Capture(StreamHandle origin) : origin(origin) { enter(origin); }

  bool captures(StreamHandle stream) const { return lanes.count(stream); }
  bool captures(EventHandle event) const { return points.count(event); }
  StreamHandle begunOn() const { return origin; }

  void add(StreamHandle stream, Command command);
  void record(StreamHandle stream, EventHandle event);
  /// The stream becomes one of the capture's.
  void wait(StreamHandle stream, EventHandle event);
  /// The event has been recorded elsewhere.
  void forget(EventHandle event) { points.erase(event); }
  /// Whether all that was captured comes before the end of the first stream.
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
