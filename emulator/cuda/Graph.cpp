//===- Graph.cpp - Captured graphs ----------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements stream capture, and the launch of captured graphs.
//
//===----------------------------------------------------------------------===//

#include "emulator/cuda/Graph.h"

using namespace heddle::rt::cuda;

using Kind = GraphData::Node::Kind;

//===----------------------------------------------------------------------===//
// Capture
//===----------------------------------------------------------------------===//

void Capture::enter(StreamHandle stream) {
  if (lanes.emplace(stream, graph.lanes).second)
    ++graph.lanes;
}

GraphData::Node &Capture::addNode(StreamHandle stream, Kind kind) {
  GraphData::Node &node = graph.nodes.emplace_back();
  node.kind = kind;
  node.lane = lanes.at(stream);
  return node;
}

void Capture::add(StreamHandle stream, Command command) {
  addNode(stream, Kind::Work).command = std::move(command);
}

void Capture::record(StreamHandle stream, EventHandle event) {
  addNode(stream, Kind::Record).point = points[event] = graph.points++;
}

void Capture::wait(StreamHandle stream, EventHandle event) {
  enter(stream);
  addNode(stream, Kind::Wait).point = points.at(event);
}

bool Capture::isJoined() const {
  // A lane is a captured stream. `clocks[i][j]` is the number of commands of
  // lane j that come before the next node of lane i.
  std::vector<Clock> clocks(graph.lanes, Clock(graph.lanes));
  std::vector<Clock> recorded(graph.points);
  for (const GraphData::Node &node : graph.nodes) {
    Clock &clock = clocks[node.lane];
    if (node.kind == Kind::Work)
      ++clock[node.lane];
    else if (node.kind == Kind::Record)
      recorded[node.point] = clock;
    else
      join(clock, recorded[node.point]);
  }
  const Clock &end = clocks[lanes.at(origin)];
  for (size_t lane = 0; lane < graph.lanes; ++lane)
    if (end[lane] < clocks[lane][lane])
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

GraphExecData::GraphExecData(GraphData given, Timeline &timeline)
    : graph(std::move(given)) {
  for (size_t lane = 0; lane < graph.lanes; ++lane)
    lanes.push_back(&timeline.makeStream(/*isBlocking=*/false));
}

void GraphExecData::launch(Timeline &timeline, StreamData &stream) {
  EventData begin, end;
  timeline.record(stream, begin);
  for (StreamData *lane : lanes) {
    timeline.wait(*lane, begin);
    lane->endsWithKernel = false;
  }
  std::vector<EventData> points(graph.points);
  for (const GraphData::Node &node : graph.nodes) {
    StreamData &lane = *lanes[node.lane];
    if (node.kind == Kind::Work)
      timeline.submit(lane, node.command);
    else if (node.kind == Kind::Record)
      timeline.record(lane, points[node.point]);
    else
      timeline.wait(lane, points[node.point]);
  }
  for (StreamData *lane : lanes) {
    timeline.record(*lane, end);
    timeline.wait(stream, end);
  }
  // A graph begins when all commands before it have ended, and a launch after
  // it begins when the whole graph has ended.
  stream.endsWithKernel = false;
}
