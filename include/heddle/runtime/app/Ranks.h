//===- Ranks.h - The ranks of a job -----------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// This process as one rank of a job: connects it to the other ranks, runs the
// collectives and messages of a plan, and ends all ranks, after success or
// after an error.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_RANKS_H
#define HEDDLE_RUNTIME_APP_RANKS_H

#include "heddle/runtime/comm/Transport.h"
#include "heddle/runtime/core/Communication.h"
#include "heddle/runtime/io/Peers.h"

#include <functional>
#include <memory>
#include <mutex>

namespace heddle::rt {

class DeviceLink;
class World;

/// The connected ranks of a job, as this rank sees them. They run one plan
/// together. In a job of one rank, nothing is sent.
class Ranks : public io::Peers, public Communication {
public:
  /// Connects to the ranks that a launcher started with this process. Pins this
  /// rank to its share of the cores if several ranks were given the same ones.
  static std::unique_ptr<Ranks> open(int joinSeconds);
  explicit Ranks(std::unique_ptr<World> world);
  ~Ranks() override;

  int64_t rank() const override;
  int64_t size() const override;
  std::vector<std::string> exchange(const std::string &text) override;
  int64_t maximum(int64_t value) override;
  /// Gathers memory of several ranks on rank 0 (see gatherParts). Ranks that
  /// send nothing need not call this function.
  void gather(const std::vector<GatheredPart> &parts);
  /// Sends rank 0's `text` to every rank, and returns it. Every rank calls the
  /// function. The arguments of other ranks are ignored. Rank 0 does not wait
  /// for the other ranks.
  std::string tell(const std::string &text = "");

  /// Sets up the communication of a plan, which must outlive this object. If
  /// `spareCore`, there is a core for another thread, so that collectives can
  /// run on that thread beside the threads that compute. Throws on all ranks:
  /// H0220 when the plan is for another number of ranks, H0222 when ranks run
  /// different plans, H0292 when no thread can be created.
  void join(const plan::Plan &plan, bool spareCore);
  /// Sets up the communication of a draft model's plan, in addition to the plan
  /// of `join`. Both plans have the same mesh. The draft model has no pipeline
  /// stages, and so no channels.
  void joinBeside(const plan::Plan &plan);
  /// Lets devices communicate directly (by NCCL) where they can, instead of
  /// through host memory. Must be called after `join`, and before
  /// `addCollective` and `addChannel`. Collective.
  void useLink(Device &device);
  /// Sets a function that receives the error with which this process ends (see
  /// World::setWitness). Must be called before `join`.
  void setWitness(std::function<void(const Diagnostic &, int missing)> witness);
  /// Sets the step that this rank runs, so that other ranks can report it if
  /// this rank dies.
  void beginStep(int64_t step);
  /// Sets what this rank does, such as "saving", so that other ranks can report
  /// it if this rank dies. `beginStep` sets "computing".
  void setActivity(const char *text);

  void use(HostMirror &memory) override;
  int64_t addCollective(const plan::Collective &collective,
                        const CollectiveBuffers &buffers) override;
  int64_t addChannel(const plan::Channel &channel) override;
  void start(int64_t collective) override;
  void wait(int64_t collective) override;
  void send(int64_t channel, Address data, int64_t bytes) override;
  void receive(int64_t channel, Address data, int64_t bytes) override;
  void flush(int64_t channel, int64_t count) override;
  bool isOfDevices(int64_t collective) const override;
  bool sendsFromDevices() const override;
  int64_t bytesOfDevices() const override;
  void countOfDevices(int64_t bytes) override;

  /// Counts and measures all later collectives and messages of the joined plan,
  /// except those in captured graphs of devices. Must be called while no
  /// collective runs.
  void logCommunication();
  /// The counts since `logCommunication`, for `summarize` (CommLog.h); empty if
  /// it was not called.
  std::string communicationLog() const;
  /// Bytes that this rank has sent in collectives and messages.
  int64_t bytesSent() const;

  /// Ends the job after a success. Every rank calls this function, and all
  /// ranks wait for each other before they close their connections.
  void finish();
  /// Ends the job after an error; returns the exit status. If the function
  /// `together` has thrown the error on all ranks, it is printed once, and all
  /// ranks end as in `finish`. After any other error this rank tells the other
  /// ranks and ends its process.
  int end(const Diagnostic &diagnostic);

private:
  /// Aborts this rank's communication on the device before the process ends.
  void abortLink();
  /// Creates the executor of collectives and the plan's communicators, and
  /// assigns a number to each channel of the plan.
  void prepare(const plan::Plan &plan, bool spareCore);
  /// Creates the communicators of the plan's collectives.
  void addGroups(const plan::Plan &plan);
  /// Announces what this rank waits for while the object lives, so that other
  /// ranks can report it.
  class Waiting;
  struct Plan; ///< The communication of the joined plan.
  /// Guards `link`, since the heartbeat's thread aborts it when another rank
  /// ends. Declared before `world`, whose destructor ends that thread.
  std::mutex linkMutex;
  std::weak_ptr<DeviceLink> link;
  std::unique_ptr<World> world;
  std::unique_ptr<Plan> joined;
  int64_t step = -1;
  const char *activity = "starting";
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_RANKS_H
