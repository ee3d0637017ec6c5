//===- World.cpp - Simulates ranks in one process ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the ranks' threads in turns. Executes a collective or a message when all
// ranks that take part in it have reached it.
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/World.h"

#include <thread>

using namespace mlir;

namespace heddle::eval {

/// Describes an operation for error messages, with the attributes that
/// distinguish it from other operations of its kind.
static std::string describe(Operation *op) {
  std::string text = "'" + op->getName().getStringRef().str() + "'";
  for (const char *key : {"channel", "reason"})
    if (auto value = op->getAttrOfType<StringAttr>(key))
      text +=
          std::string(key == StringRef("channel") ? " on channel " : " for ") +
          "\"" + value.str() + "\"";
  return text;
}

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

World::World(const plan::Mesh &mesh) : ranks(mesh) {}

void World::awaitTurn(int64_t rank) {
  std::unique_lock<std::mutex> lock(mutex);
  turnChanged.wait(lock, [&] { return turn == rank; });
}

void World::endTurn() {
  std::lock_guard<std::mutex> lock(mutex);
  turn = -1;
  turnChanged.notify_all();
}

bool World::giveTurn() {
  int64_t count = members.size();
  bool allFinished = true;
  for (int64_t step = 1; step <= count; ++step) {
    int64_t rank = (last + step) % count;
    Member &member = members[rank];
    allFinished &= member.finished;
    if (member.finished || (!aborted && member.ready && !member.ready()))
      continue;
    std::unique_lock<std::mutex> lock(mutex);
    last = turn = rank;
    turnChanged.notify_all();
    turnChanged.wait(lock, [&] { return turn == -1; });
    return true;
  }
  if (!allFinished)
    reportStandstill();
  return !allFinished;
}

void World::reportStandstill() {
  aborted = true;
  std::optional<InFlightDiagnostic> error;
  for (auto [rank, member] : llvm::enumerate(members)) {
    if (member.finished)
      continue;
    if (!error)
      error.emplace(member.at->emitError("rank ")
                    << rank << " waits for ever in ");
    else
      *error << "; rank " << rank << " in ";
    *error << describe(member.at);
  }
}

LogicalResult World::block(int64_t rank, Operation *at,
                           std::function<bool()> ready) {
  if (!aborted && !ready()) {
    members[rank].at = at;
    members[rank].ready = std::move(ready);
    endTurn();
    awaitTurn(rank);
    members[rank].ready = nullptr;
  }
  return failure(aborted);
}

void World::runRank(int64_t rank,
                    llvm::function_ref<LogicalResult(int64_t)> body) {
  awaitTurn(rank);
  bool done = !aborted && succeeded(body(rank));
  if (!done && !aborted) {
    firstFailed = rank;
    aborted = true;
  }
  while (std::optional<Message> sent = oldestSent(rank))
    if (failed(block(rank, sent->op,
                     [this, rank] { return !oldestSent(rank).has_value(); })))
      break;
  members[rank].finished = true;
  endTurn();
}

LogicalResult World::run(llvm::function_ref<LogicalResult(int64_t)> body) {
  members.assign(ranks.ranks(), Member());
  messages.clear();
  aborted = false;
  firstFailed = last = -1;
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks.ranks(); ++rank)
    threads.emplace_back([this, rank, body] { runRank(rank, body); });
  while (giveTurn()) {
  }
  for (std::thread &thread : threads)
    thread.join();
  return failure(aborted);
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

int64_t Rank::coordinate(ArrayAttr axes) const {
  return mesh().coordinate(rank, planir::namesOf(axes));
}

FailureOr<int64_t> Rank::start(Operation *op, const Collective &what,
                               const Tensor &input) {
  if (!fits(what, input.numElements(), mesh().groupSize(what.axes)))
    return op->emitError("cannot be run by ")
           << mesh().groupSize(what.axes) << " ranks";
  auto request = std::make_shared<World::Request>();
  request->what = what;
  request->op = op;
  request->value = input;
  World::Member &member = world->members[rank];
  member.started.push_back(request);
  member.tickets[world->nextTicket] = request;
  world->progress();
  return world->nextTicket++;
}

FailureOr<Tensor> Rank::wait(int64_t ticket) {
  auto &tickets = world->members[rank].tickets;
  std::shared_ptr<World::Request> request = tickets.at(ticket);
  if (failed(
          world->block(rank, request->op, [request] { return request->done; })))
    return failure();
  tickets.erase(ticket);
  return request->value;
}

void World::progress() {
  for (int64_t rank = 0; rank < ranks.ranks(); ++rank)
    if (!aborted && runHead(rank))
      rank = -1; // Other ranks' collectives may be ready now.
}

/// Executes the oldest pending collective of the rank, if it is also the oldest
/// pending collective of every other rank of its group. Returns whether it was
/// executed.
bool World::runHead(int64_t rank) {
  if (members[rank].started.empty())
    return false;
  Request &own = *members[rank].started.front();
  std::vector<int64_t> group = ranks.group(rank, own.what.axes);
  std::vector<Tensor> inputs;
  for (int64_t member : group) {
    if (members[member].started.empty())
      return false;
    Request &other = *members[member].started.front();
    if (other.what.axes != own.what.axes)
      return false;
    if (!(other.what == own.what) || other.value.kind() != own.value.kind() ||
        other.value.shape() != own.value.shape()) {
      aborted = true;
      own.op->emitError("rank ")
          << rank << " runs " << describe(own.op) << " where rank " << member
          << " runs " << describe(other.op)
          << (own.op->getName() == other.op->getName() ? " of another size"
                                                       : "");
      return false;
    }
    inputs.push_back(other.value);
  }
  SmallVector<Tensor> results = combine(own.what, inputs);
  for (auto [member, result] : llvm::zip(group, results)) {
    Request &request = *members[member].started.front();
    request.value = result;
    request.done = true;
    members[member].started.pop_front();
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

int64_t Rank::neighbour(StringRef axis, int64_t delta) const {
  std::vector<std::string> axes = {axis.str()};
  int64_t size = mesh().groupSize(axes);
  int64_t number = mesh().coordinate(rank, axes) + delta % size + size;
  return mesh().member(rank, axes, number % size);
}

void Rank::send(Operation *op, StringRef axis, int64_t delta, StringRef channel,
                std::function<Tensor()> read) {
  int64_t to = neighbour(axis, delta);
  world->messages[{rank, to, channel.str()}].push_back({op, std::move(read)});
}

FailureOr<Tensor> Rank::receive(Operation *op, StringRef axis, int64_t delta,
                                StringRef channel, ShapedType type) {
  int64_t from = neighbour(axis, delta);
  auto &queue = world->messages[{from, rank, channel.str()}];
  if (failed(world->block(rank, op, [&queue] { return !queue.empty(); })))
    return failure();
  Tensor value = queue.front().read();
  if (value.shape() != type.getShape() ||
      value.kind() != *kindOf(type.getElementType()))
    return op->emitError("rank ")
           << rank << " wants " << type << ", but rank " << from
           << " sends something else in " << describe(queue.front().op);
  queue.pop_front();
  return value;
}

int64_t World::underWay(int64_t rank, StringRef channel) {
  int64_t count = 0;
  for (auto &[key, queue] : messages)
    if (std::get<0>(key) == rank && std::get<2>(key) == channel)
      count += queue.size();
  return count;
}

std::optional<World::Message> World::oldestSent(int64_t rank) {
  for (auto &[key, queue] : messages)
    if (std::get<0>(key) == rank && !queue.empty())
      return queue.front();
  return std::nullopt;
}

LogicalResult Rank::flush(Operation *op, StringRef channel, int64_t left) {
  return world->block(rank, op, [this, name = channel.str(), left] {
    return world->underWay(rank, name) <= left;
  });
}

} // namespace heddle::eval
