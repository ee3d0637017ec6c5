//===- World.h - Simulates ranks in one process -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The simulated ranks of the reference interpreter, with their collectives and
// messages.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_WORLD_H
#define HEDDLE_EVAL_WORLD_H

#include "dialects/Plan/PlanFormat.h"
#include "heddle/Eval/Collective.h"
#include "mlir/IR/Operation.h"
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

namespace heddle::eval {

/// All ranks of a mesh. Each rank is a thread, but only one thread runs at a
/// time, until it waits for another. Therefore the order of execution is
/// deterministic, ranks can share data without synchronization, and a deadlock
/// is detected at once.
class World {
public:
  explicit World(const plan::Mesh &mesh);

  const plan::Mesh &mesh() const { return ranks; }
  /// Calls `body` on the thread of every rank and waits for all of them. All
  /// messages must be received before a rank ends. If a rank fails, or if ranks
  /// deadlock (which is reported), all waiting ranks end with a failure.
  mlir::LogicalResult
  run(llvm::function_ref<mlir::LogicalResult(int64_t)> body);
  /// After a failure: the first rank that failed by itself, and not because
  /// another one failed; -1 if there is none.
  int64_t failedRank() const { return firstFailed; }

private:
  friend class Rank;

  /// A collective that a rank has started.
  struct Request {
    Collective what;
    mlir::Operation *op = nullptr;
    /// The rank's input; after the collective, the rank's result.
    Tensor value;
    bool done = false;
  };
  struct Message {
    mlir::Operation *op = nullptr;
    std::function<Tensor()> read;
  };
  struct Member {
    bool finished = false;
    /// Returns whether the event for which the rank waits has happened; null if
    /// the rank does not wait.
    std::function<bool()> ready;
    mlir::Operation *at = nullptr;
    /// The collectives that the rank has started and that are not done, in the
    /// order of their starts.
    std::deque<std::shared_ptr<Request>> started;
    std::map<int64_t, std::shared_ptr<Request>> tickets;
  };
  using ChannelKey = std::tuple<int64_t, int64_t, std::string>;

  void runRank(int64_t rank,
               llvm::function_ref<mlir::LogicalResult(int64_t)> body);
  /// Lets one rank run: the next one that can continue. Returns false if all
  /// ranks have ended.
  bool giveTurn();
  void awaitTurn(int64_t rank);
  void endTurn();
  mlir::LogicalResult block(int64_t rank, mlir::Operation *at,
                            std::function<bool()> ready);
  void reportStandstill();

  /// Executes each collective that every rank of its group has started.
  void progress();
  bool runHead(int64_t rank);
  std::optional<Message> oldestSent(int64_t rank);
  int64_t underWay(int64_t rank, llvm::StringRef channel);

  plan::Mesh ranks;
  std::vector<Member> members;
  std::map<ChannelKey, std::deque<Message>> messages;
  int64_t nextTicket = 0, firstFailed = -1;
  bool aborted = false;
  /// Guards `turn`, the rank that may run. All other data of the world is
  /// accessed only by the thread of this rank.
  std::mutex mutex;
  std::condition_variable turnChanged;
  int64_t turn = -1, last = -1;
};

/// One rank of a world. Its methods, except queries, must be called by the rank
/// itself within World::run.
class Rank {
public:
  Rank(World &world, int64_t number) : world(&world), rank(number) {}

  int64_t number() const { return rank; }
  const plan::Mesh &mesh() const { return world->mesh(); }
  /// This rank's index among the ranks that differ from it along `axes` only.
  int64_t coordinate(mlir::ArrayAttr axes) const;

  /// Starts a collective and returns a handle for `wait`. The collectives of a
  /// rank are executed in the order in which the rank started them.
  mlir::FailureOr<int64_t> start(mlir::Operation *op, const Collective &what,
                                 const Tensor &input);
  mlir::FailureOr<Tensor> wait(int64_t ticket);
  /// Sends a value to the rank that is `delta` steps further along the axis.
  /// `read` returns the value, and is called only when the receiver takes the
  /// message.
  void send(mlir::Operation *op, llvm::StringRef axis, int64_t delta,
            llvm::StringRef channel, std::function<Tensor()> read);
  /// Waits for a message and returns its value, whose shape must fit `type`.
  mlir::FailureOr<Tensor> receive(mlir::Operation *op, llvm::StringRef axis,
                                  int64_t delta, llvm::StringRef channel,
                                  mlir::ShapedType type);
  /// Waits until at most `left` of the messages that this rank has sent on
  /// `channel` are still not received.
  mlir::LogicalResult flush(mlir::Operation *op, llvm::StringRef channel,
                            int64_t left);

private:
  int64_t neighbour(llvm::StringRef axis, int64_t delta) const;

  World *world;
  int64_t rank;
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_WORLD_H
