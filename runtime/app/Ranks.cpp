//===- Ranks.cpp - The ranks of a job -------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Connects the commands of a plan with the transport: collectives and messages
// on host memory, or between devices (DeviceExchange).
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Ranks.h"
#include "heddle/runtime/comm/DeviceExchange.h"
#include "heddle/runtime/comm/Executor.h"
#include "heddle/runtime/comm/World.h"
#include "heddle/runtime/core/Traffic.h"
#include "heddle/runtime/io/OffloadTimes.h"

#include <algorithm>
#include <deque>
#include <map>
#include <sched.h>
#include <set>
#include <thread>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

using Axes = std::vector<std::string>;

/// The tag of the messages that `maximum` sends. `exchange` uses the tags 0 and
/// 1.
static constexpr int maximumTag = 2;

//===----------------------------------------------------------------------===//
// Cores
//===----------------------------------------------------------------------===//

/// Serializes host name and allowed cores of this process.
static std::string describeCores(const cpu_set_t &cores) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::string text = std::string(host) + " ";
  for (int core = 0; core < CPU_SETSIZE; ++core)
    text += CPU_ISSET(core, &cores) ? std::to_string(core) + "," : "";
  return text;
}

/// If the launcher gave several ranks of a host the same cores, divides the
/// cores between them. If there are fewer cores than ranks, each rank gets one
/// core.
static void divideCores(io::Peers &peers) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  bool known = sched_getaffinity(0, sizeof cores, &cores) == 0;
  std::string mine = known ? describeCores(cores) : "";
  std::vector<std::string> all = peers.exchange(mine);
  int64_t sharers = std::count(all.begin(), all.end(), mine);
  int64_t before = std::count(all.begin(), all.begin() + peers.rank(), mine);
  if (!known || sharers == 1)
    return;
  int64_t count = CPU_COUNT(&cores), number = 0;
  int64_t first = before * count / sharers;
  int64_t end = std::max(first + 1, (before + 1) * count / sharers);
  cpu_set_t share;
  CPU_ZERO(&share);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &cores)) {
      if (number >= first && number < end)
        CPU_SET(core, &share);
      ++number;
    }
  sched_setaffinity(0, sizeof share, &share);
}

//===----------------------------------------------------------------------===//
// The job
//===----------------------------------------------------------------------===//

namespace {

/// A registered collective of the plan with its buffers.
struct Operation {
  plan::CollectiveShape shape;
  CollectiveCall call;          ///< The collective on the host's memory.
  CollectiveBuffers buffers;    ///< Buffers in the device's memory.
  HostMirror *memory = nullptr; ///< The host's copy of the buffers.
  Executor::Ticket ticket = 0;
  /// The collective's index in DeviceExchange (the result of `add`); -1 if the
  /// host runs the collective.
  int64_t onDevices = -1;
  std::string text; ///< Description for the heartbeat.
};

/// A registered channel of the plan, with its pending sends.
struct Line {
  plan::Channel channel;
  HostMirror *memory = nullptr; ///< The host's copy of the messages' memory.
  int peer = 0;
  int number = 0;
  /// The channel's index in DeviceExchange (the result of `addLine`); -1 if the
  /// host sends its messages.
  int64_t onDevices = -1;
  std::string text; ///< Description for the heartbeat.
  std::vector<Request> sent;
};

} // namespace

struct Ranks::Plan {
  Plan(const plan::Plan &plan, Transport &transport, bool spareCore)
      : source(plan),
        // Use the MPI library only on CPUs. On GPUs `library` means NCCL.
        // Collectives that NCCL cannot run are run on the host, by Heddle's own
        // algorithms.
        collectives(transport, plan.collectives == "library" &&
                                   plan.device == plan::DeviceKind::Cpu),
        executor(collectives, transport, spareCore) {}

  /// Null unless communication is logged. Declared first: the executor's thread
  /// uses it.
  std::unique_ptr<CommLog> log;
  const plan::Plan &source;
  /// The host's access to the device's memory. `addCollective` and `addChannel`
  /// store this pointer with the collective or channel, whose buffers are in
  /// that memory. `use` sets it.
  HostMirror *memory = nullptr;
  Collectives collectives;
  Executor executor;
  std::map<Axes, Communicator> groups;
  std::map<std::string, int> channels;
  /// A deque, which does not move its elements: the `call` of an Operation
  /// points to its `shape`.
  std::deque<Operation> operations;
  std::deque<Line> lines;
  /// Communication between devices by their own library. Null if the host runs
  /// all communication.
  std::unique_ptr<DeviceExchange> devices;
};

class Ranks::Waiting {
public:
  Waiting(Ranks &ranks, std::string_view text) : ranks(ranks) {
    ranks.world->setActivity(ranks.step, text);
  }
  ~Waiting() { ranks.world->setActivity(ranks.step, ranks.activity); }

private:
  Ranks &ranks;
};

std::unique_ptr<Ranks> Ranks::open(int joinSeconds) {
  auto ranks = std::make_unique<Ranks>(World::open(joinSeconds));
  divideCores(*ranks);
  return ranks;
}

Ranks::Ranks(std::unique_ptr<World> world) : world(std::move(world)) {}
Ranks::~Ranks() = default;

int64_t Ranks::rank() const { return world->rank(); }
int64_t Ranks::size() const { return world->size(); }

std::vector<std::string> Ranks::exchange(const std::string &text) {
  Waiting here(*this, "an exchange of all ranks");
  return exchangeTexts(world->transport(), text);
}

void Ranks::gather(const std::vector<GatheredPart> &parts) {
  Waiting here(*this, "results for rank 0");
  gatherParts(world->transport(), parts);
}

std::string Ranks::tell(const std::string &text) {
  Waiting here(*this, "a message of rank 0");
  return tellText(world->transport(), text);
}

/// In round k (from 0) every rank receives a maximum from the rank 2^k before
/// it. That maximum covers 2^k ranks by then, so after log2(ranks) rounds each
/// rank has the maximum of all.
int64_t Ranks::maximum(int64_t value) {
  Waiting here(*this, "an exchange of all ranks");
  Transport &transport = world->transport();
  int n = world->size();
  for (int distance = 1; distance < n; distance *= 2) {
    int to = (world->rank() + distance) % n;
    int from = (world->rank() + n - distance) % n;
    int64_t heard = 0;
    Request receive = transport.irecv(from, maximumTag, &heard, sizeof heard);
    int64_t said = value;
    Request send = transport.isend(to, maximumTag, &said, sizeof said);
    transport.wait(receive);
    transport.wait(send);
    value = std::max(value, heard);
  }
  return value;
}

void Ranks::join(const plan::Plan &plan, bool spareCore) {
  together([&] { world->checkPlan(plan.hash, plan.mesh); });
  together([&] { prepare(plan, spareCore); });
  if (world->launch().kind != Launch::Kind::Alone)
    together([&] { world->startHeartbeat(); });
}

void Ranks::joinBeside(const plan::Plan &plan) {
  together([&] { world->checkPlan(plan.hash, plan.mesh); });
  together([&] { addGroups(plan); });
}

/// Calls `f` for each command of each stage.
static void visitCommands(const plan::Plan &plan,
                          const std::function<void(const plan::Command &)> &f) {
  for (const plan::Stage &stage : plan.stages)
    for (const plan::Sequence &sequence : stage.sequences)
      for (const plan::Command &command : sequence.commands)
        f(command);
}

void Ranks::prepare(const plan::Plan &plan, bool spareCore) {
  joined = std::make_unique<Plan>(plan, world->transport(), spareCore);
  visitCommands(plan, [&](const plan::Command &command) {
    command.visit(
        [&](const plan::command::Send &send) {
          joined->channels.emplace(send.channel.name, 0);
        },
        [&](const plan::command::Receive &receive) {
          joined->channels.emplace(receive.channel.name, 0);
        },
        [](const auto &) {});
  });
  int next = 0;
  for (auto &[name, number] : joined->channels)
    number = next++;
  addGroups(plan);
}

void Ranks::addGroups(const plan::Plan &plan) {
  // Visit the commands of all pipeline stages, not only of this rank's stage,
  // because every rank has to create the same communicators in the same order.
  std::set<Axes> groups;
  visitCommands(plan, [&](const plan::Command &command) {
    command.visit(
        [&](const plan::command::Collective &start) {
          groups.insert(start.collective.axes);
        },
        [](const auto &) {});
  });
  for (const Axes &axes : groups)
    if (auto [group, isNew] = joined->groups.try_emplace(axes); isNew)
      joined->collectives.prepare(
          group->second = makeCommunicator(plan.mesh, axes, rank()));
}

void Ranks::useLink(Device &device) {
  std::shared_ptr<DeviceLink> found;
  together([&] { found = device.link(); });
  {
    std::lock_guard<std::mutex> lock(linkMutex);
    link = found;
  }
  Waiting here(*this, "making groups of devices");
  joined->devices =
      std::make_unique<DeviceExchange>(joined->source, device, *found, *this);
}

/// Aborts the devices' communication on a separate thread: NCCL's abort may
/// hang, and the process must end anyway.
void Ranks::abortLink() {
  std::lock_guard<std::mutex> lock(linkMutex);
  if (std::shared_ptr<DeviceLink> found = link.lock())
    std::thread([found] { found->abort(); }).detach();
}

void Ranks::setWitness(
    std::function<void(const Diagnostic &, int missing)> witness) {
  world->setWitness([this, witness](const Diagnostic &diagnostic, int missing) {
    witness(diagnostic, missing);
    if (missing >= 0)
      abortLink();
  });
}

void Ranks::beginStep(int64_t number) {
  step = number;
  setActivity("computing");
}

void Ranks::setActivity(const char *text) {
  activity = text;
  world->setActivity(step, activity);
}

//===----------------------------------------------------------------------===//
// The plan's communication
//===----------------------------------------------------------------------===//

void Ranks::use(HostMirror &memory) { joined->memory = &memory; }

int64_t Ranks::addCollective(const plan::Collective &collective,
                             const CollectiveBuffers &buffers) {
  Operation &operation = joined->operations.emplace_back();
  const Communicator &group = joined->groups.at(collective.axes);
  plan::CollectiveShape &shape = operation.shape;
  shape = shapeOf(collective, group.size(), buffers.targetBytes,
                  buffers.sourceBytes);
  if (buffers.stagingBytes <
      plan::stagingBytes(shape, joined->collectives.usesLibrary()))
    fail("H0385",
         "the plan is malformed: a collective has too little staging memory",
         "compile the binary again");
  operation.call.shape = &shape;
  operation.call.group = &group;
  operation.buffers = buffers;
  operation.memory = joined->memory;
  operation.text =
      std::string(plan::nameOf(collective.kind)) + " over " + group.name;
  if (joined->devices && joined->devices->takes(shape, buffers)) {
    operation.onDevices = joined->devices->add(shape, group, buffers);
    return int64_t(joined->operations.size()) - 1;
  }
  const HostMirror &memory = *operation.memory;
  operation.call.destination = memory.at(buffers.target, buffers.targetBytes);
  operation.call.source = memory.at(buffers.source, buffers.sourceBytes);
  operation.call.staging = memory.at(buffers.staging, buffers.stagingBytes);
  return int64_t(joined->operations.size()) - 1;
}

int64_t Ranks::addChannel(const plan::Channel &channel) {
  for (size_t i = 0; i < joined->lines.size(); ++i) {
    const plan::Channel &known = joined->lines[i].channel;
    if (known.axis == channel.axis && known.delta == channel.delta &&
        known.name == channel.name)
      return i;
  }
  const plan::Mesh &mesh = joined->source.mesh;
  int64_t extent = mesh.size(channel.axis);
  int64_t to = mesh.coordinate(rank(), {channel.axis}) + channel.delta;
  Line &line = joined->lines.emplace_back();
  line.channel = channel;
  line.memory = joined->memory;
  line.peer =
      int(mesh.member(rank(), {channel.axis}, (to % extent + extent) % extent));
  line.number = joined->channels.at(channel.name);
  line.text = channel.name + " over " + channel.axis;
  line.sent.reserve(256);
  if (joined->devices)
    line.onDevices = joined->devices->addLine(channel.axis, line.peer);
  return int64_t(joined->lines.size()) - 1;
}

void Ranks::start(int64_t collective) {
  Operation &operation = joined->operations[collective];
  if (operation.onDevices >= 0)
    return joined->devices->start(operation.onDevices);
  operation.memory->load(operation.buffers.source,
                         operation.buffers.sourceBytes);
  // Announce before `start` which collective this rank waits for: an executor
  // without a thread runs the whole collective in `start`.
  Waiting here(*this, operation.text);
  operation.ticket = joined->executor.start(operation.call);
}

void Ranks::wait(int64_t collective) {
  Operation &operation = joined->operations[collective];
  if (operation.onDevices >= 0)
    return joined->devices->wait(operation.onDevices);
  Waiting here(*this, operation.text);
  joined->executor.wait(operation.ticket);
  operation.memory->store(operation.buffers.target,
                          operation.buffers.targetBytes);
}

void Ranks::send(int64_t channel, Address data, int64_t bytes) {
  Line &line = joined->lines[channel];
  if (line.onDevices >= 0)
    return joined->devices->send(line.onDevices, data, bytes);
  line.sent.push_back(joined->collectives.send(
      line.peer, line.number, line.memory->load(data, bytes), bytes));
  if (joined->log)
    joined->log->add({"send", line.channel.axis, 2, bytes}, 0);
}

void Ranks::receive(int64_t channel, Address data, int64_t bytes) {
  Line &line = joined->lines[channel];
  if (line.onDevices >= 0)
    return joined->devices->receive(line.onDevices, data, bytes);
  Waiting here(*this, line.text);
  int64_t begin = joined->log ? io::steadyNow() : 0;
  Request request = joined->collectives.receive(
      line.peer, line.number, line.memory->at(data, bytes), bytes);
  joined->collectives.wait(request);
  if (joined->log)
    joined->log->add({"receive", line.channel.axis, 2, bytes},
                     double(io::steadyNow() - begin) * 1e-9);
  line.memory->store(data, bytes);
}

void Ranks::flush(int64_t channel, int64_t count) {
  if (int64_t line = joined->lines[channel].onDevices; line >= 0)
    return joined->devices->flush(line, count);
  std::vector<Request> &sent = joined->lines[channel].sent;
  int64_t done = std::max<int64_t>(0, int64_t(sent.size()) - count);
  if (done == 0)
    return;
  Waiting here(*this, joined->lines[channel].text);
  for (int64_t i = 0; i < done; ++i)
    joined->collectives.wait(sent[i]);
  sent.erase(sent.begin(), sent.begin() + done);
}

bool Ranks::isOfDevices(int64_t collective) const {
  return joined->operations[collective].onDevices >= 0;
}

bool Ranks::sendsFromDevices() const { return joined->devices != nullptr; }

int64_t Ranks::bytesOfDevices() const {
  return joined && joined->devices ? joined->devices->bytesSent : 0;
}

void Ranks::countOfDevices(int64_t bytes) {
  if (joined->devices)
    joined->devices->bytesSent += bytes;
}

void Ranks::logCommunication() {
  joined->log = std::make_unique<CommLog>();
  joined->collectives.logTo(joined->log.get());
  if (joined->devices)
    joined->devices->logTo(joined->log.get());
}

std::string Ranks::communicationLog() const {
  return joined && joined->log ? joined->log->text() : std::string();
}

int64_t Ranks::bytesSent() const {
  if (!joined)
    return 0;
  const Traffic &traffic = joined->collectives.traffic();
  int64_t bytes = traffic.pointToPoint + bytesOfDevices();
  for (const auto &group : traffic.collectives)
    for (const auto &kind : group)
      bytes += kind;
  return bytes;
}

//===----------------------------------------------------------------------===//
// End of the job
//===----------------------------------------------------------------------===//

void Ranks::finish() { world->finish(); }

int Ranks::end(const Diagnostic &diagnostic) {
  if (!failedTogether() && size() > 1)
    world->fail(diagnostic);
  if (rank() == 0)
    world->report(diagnostic);
  finish();
  return diagnostic.exitCode();
}
