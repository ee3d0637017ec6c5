//===- Ranks.h - This process among the ranks of a job ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// The ranks that run one plan, from connecting to the end. In a job of one
/// rank nothing is sent and nothing waits.
class Ranks : public io::Peers, public Communication {
public:
  /// Connects with the ranks that a launcher started beside this process, and
  /// takes this rank's share of the cores where several were given the same.
  static std::unique_ptr<Ranks> open(int joinSeconds);
  explicit Ranks(std::unique_ptr<World> world);
  ~Ranks() override;

  int64_t rank() const override;
  int64_t size() const override;
  std::vector<std::string> exchange(const std::string &text) override;
  int64_t maximum(int64_t value) override;
  /// See bringParts. Ranks that have no part need not call it.
  void bring(const std::vector<BroughtPart> &parts);
  /// What rank 0 says, on every rank; what the others give is not heard. Every
  /// rank calls it, and rank 0 waits for none.
  std::string tell(const std::string &text = "");

  /// Readies the communication of a plan, which must outlive this. `spareCore`:
  /// collectives may run on a thread beside the `threads` that compute. Throws
  /// on all ranks, H0220 when the plan is for another number of ranks, H0222
  /// when a rank runs another plan, H0292 when one has no thread left.
  void join(const plan::Plan &plan, bool spareCore);
  /// Readies the same for the plan of a draft, which runs beside the one that
  /// was joined, on the same mesh. It has no channels: no axis cuts its layers.
  void joinBeside(const plan::Plan &plan);
  /// Lets the devices of the ranks exchange what they can by themselves; after
  /// `join`, and before the plan's commands are announced. Every rank calls it.
  void useLink(Device &device);
  /// Hears the error with which this process ends; to be set before `join`.
  /// See World::setWitness.
  void setWitness(std::function<void(const Diagnostic &, int missing)> witness);
  /// Says which step runs, for the messages of others that miss this rank.
  void beginStep(int64_t step);
  /// Says what this rank does from now on, as "saving", for the same; a step
  /// begins with "computing".
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

  /// Payload that this rank has sent in collectives and messages.
  int64_t bytesSent() const;

  /// The orderly end, which every rank comes to.
  void finish();
  /// The end after an error; the exit status. What `together` threw is printed
  /// once and ends all ranks in order. Any other ends this process here, and
  /// the others are told.
  int end(const Diagnostic &diagnostic);

private:
  /// Ends this rank's work on its device, before the process ends.
  void abortLink();
  /// What of `join` concerns this rank alone.
  void prepare(const plan::Plan &plan, bool spareCore);
  /// Makes the groups of ranks that the plan's collectives are of.
  void addGroups(const plan::Plan &plan);
  /// Says what this rank waits for; the destructor, that it goes on.
  class Waiting;
  struct Plan; ///< What belongs to the plan that was joined.
  /// What an abort ends, for the thread that hears of other ranks' ends: before
  /// `world`, which ends that thread. The device may have gone by then.
  std::mutex linkMutex;
  std::weak_ptr<DeviceLink> link;
  std::unique_ptr<World> world;
  std::unique_ptr<Plan> joined;
  int64_t step = -1;
  const char *activity = "starting";
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_RANKS_H
