//===- World.h - Ranks that are simulated in one process --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// All ranks of a mesh. They take turns: each is a thread, and only one of them
/// runs at a time, until it has to wait for another. So the order of everything
/// is fixed, ranks share what is not made for threads, and a wait that nobody
/// can end is seen at once.
class World {
public:
  explicit World(const plan::Mesh &mesh);

  const plan::Mesh &mesh() const { return ranks; }
  /// Calls `body` for every rank and waits for all of them. What was sent must
  /// be received before a rank is done. When the body of a rank fails, or ranks
  /// wait for ever (which is reported), those that wait give up.
  mlir::LogicalResult
  run(llvm::function_ref<mlir::LogicalResult(int64_t)> body);
  /// After a failure: the first rank whose body failed for reasons of its own;
  /// -1: none did.
  int64_t failedRank() const { return firstFailed; }

private:
  friend class Rank;

  /// A collective that a rank has started.
  struct Request {
    Collective what;
    mlir::Operation *op = nullptr;
    Tensor value; ///< What it gives; when done, what it gets.
    bool done = false;
  };
  struct Message {
    mlir::Operation *op = nullptr;
    std::function<Tensor()> read;
  };
  struct Member {
    bool finished = false;
    std::function<bool()> ready; ///< Null: it does not wait.
    mlir::Operation *at = nullptr;
    std::deque<std::shared_ptr<Request>> started; ///< Not done, in order.
    std::map<int64_t, std::shared_ptr<Request>> tickets;
  };
  using ChannelKey = std::tuple<int64_t, int64_t, std::string>;

  void runRank(int64_t rank,
               llvm::function_ref<mlir::LogicalResult(int64_t)> body);
  /// Gives the next rank that can go on its turn; false: all are finished.
  bool giveTurn();
  void awaitTurn(int64_t rank);
  void endTurn();
  mlir::LogicalResult block(int64_t rank, mlir::Operation *at,
                            std::function<bool()> ready);
  void reportStandstill();

  /// Runs the collectives that all members have started.
  void progress();
  bool runHead(int64_t rank);
  std::optional<Message> oldestSent(int64_t rank);
  int64_t underWay(int64_t rank, llvm::StringRef channel);

  plan::Mesh ranks;
  std::vector<Member> members;
  std::map<ChannelKey, std::deque<Message>> messages;
  int64_t nextTicket = 0, firstFailed = -1;
  bool aborted = false;
  std::mutex mutex; ///< Guards `turn` alone: the rest belongs to who has it.
  std::condition_variable turnChanged;
  int64_t turn = -1, last = -1;
};

/// One rank's view of the world. But for what only asks, to be used within
/// World::run, by the rank itself.
class Rank {
public:
  Rank(World &world, int64_t number) : world(&world), rank(number) {}

  int64_t number() const { return rank; }
  const plan::Mesh &mesh() const { return world->mesh(); }
  /// This rank's number among those along the axes.
  int64_t coordinate(mlir::ArrayAttr axes) const;

  /// Starts a collective; gives what to wait for. A rank's collectives are run
  /// one after the other, in the order of their starts.
  mlir::FailureOr<int64_t> start(mlir::Operation *op, const Collective &what,
                                 const Tensor &input);
  mlir::FailureOr<Tensor> wait(int64_t ticket);
  /// Sends to the rank `delta` further along the axis. `read` gives the value
  /// when that is received.
  void send(mlir::Operation *op, llvm::StringRef axis, int64_t delta,
            llvm::StringRef channel, std::function<Tensor()> read);
  /// Waits for a value that fits into `type`.
  mlir::FailureOr<Tensor> receive(mlir::Operation *op, llvm::StringRef axis,
                                  int64_t delta, llvm::StringRef channel,
                                  mlir::ShapedType type);
  /// Waits until at most `left` of the channel's sends are not received.
  mlir::LogicalResult flush(mlir::Operation *op, llvm::StringRef channel,
                            int64_t left);

private:
  int64_t neighbour(llvm::StringRef axis, int64_t delta) const;

  World *world;
  int64_t rank;
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_WORLD_H
