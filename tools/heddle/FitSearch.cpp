//===- FitSearch.cpp - Searches configurations that fit a cluster ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tries configurations of a training, compiles each to a plan, and keeps those
// that fit the memory. FitSearch.h lists what is tried.
//
//===----------------------------------------------------------------------===//

#include "FitSearch.h"
#include "ExplainSchedule.h"
#include "SmallerPlan.h"
#include "heddle/Settings/OffloadedRoles.h"
#include <algorithm>
#include <cstring>
#include <iostream>
#include <iterator>
#include <thread>

using namespace heddle;
using namespace heddle::driver;

FitSearch::FitSearch(MakeJob makeJob, config::Flags given,
                     const config::ResolvedSettings &base,
                     const config::Cluster &cluster)
    : makeJob(std::move(makeJob)), given(std::move(given)), base(base),
      cluster(cluster),
      batch(isGiven("batch")
                ? base.values.batch
                : ranks() * base.values.microBatch * base.values.accumulate) {
  setLimits();
}

bool FitSearch::hasMesh() const {
  for (const char *axis : {"data", "tensor", "pipe", "sequence"})
    if (isGiven(axis))
      return true;
  return false;
}

/// Returns the number of ranks: that of the user's mesh, or that of the whole
/// cluster if the user gives no mesh. Throws an error if the mesh has more
/// ranks than the cluster.
int64_t FitSearch::ranks() const {
  if (!hasMesh())
    return cluster.ranks();
  int64_t ranks = 1;
  for (int64_t size : {base.values.data, base.values.tensor, base.values.pipe,
                       base.values.sequence})
    ranks = std::min(ranks * std::min(size, cluster.ranks()), cluster.ranks());
  return ranks;
}

/// Whether the user sets the setting `key`, by a flag or in a file. A value
/// that was derived from other settings does not count.
bool FitSearch::isGiven(const char *key) const {
  using Kind = config::Origin::Kind;
  auto origin = base.origins.find(key);
  return origin != base.origins.end() &&
         (origin->second.kind == Kind::Flag ||
          origin->second.kind == Kind::File ||
          origin->second.kind == Kind::StrategyFile);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Returns the smaller of two limits. A limit of 0 means no limit.
static int64_t smaller(int64_t a, int64_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

void FitSearch::setLimits() {
  int64_t host = cluster.hostMemory / cluster.ranksPerNode;
  limits.device = smaller(base.values.memoryBudget, cluster.deviceMemory);
  limits.host = smaller(base.values.hostBudget, host);
  limits.file =
      smaller(base.values.fileBudget,
              cluster.files ? cluster.files->bytes / cluster.ranksPerNode : 0);
  // On a CPU target, device memory is host memory. So the limits of both kinds
  // apply to it, and the smaller one decides.
  if (!factsOf(base.values.target).hasDeviceMemory)
    limits.device = smaller(limits.device, limits.host);
}

/// Adds the memory of a rank to the totals in `mixture`. The total of each kind
/// of memory is the maximum over ranks. `mixture.owners` lists the data that
/// use memory, such as parameters, on the rank that needs the most memory.
static void addMemory(const plan::Memory &memory, Mixture &mixture) {
  if (memory.peakBytes() > mixture.bytes.total())
    mixture.owners = memory.owners;
  for (plan::MemoryKind kind : plan::memoryKinds)
    mixture.bytes[kind] = std::max(mixture.bytes[kind], memory.peakBytes(kind));
}

/// Returns the bytes in device memory, in host memory and in files, each with
/// its limit.
std::array<std::pair<int64_t, int64_t>, 3>
FitSearch::boundsOf(const Bytes &bytes) const {
  int64_t host =
      bytes[plan::MemoryKind::Host] + bytes[plan::MemoryKind::Pinned];
  int64_t device = bytes[plan::MemoryKind::Device];
  if (!factsOf(base.values.target).hasDeviceMemory)
    device += host;
  return {{{device, limits.device},
           {host, limits.host},
           {bytes[plan::MemoryKind::File], limits.file}}};
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

void FitSearch::refuse(const Diagnostic &error) {
  Refusal &refusal =
      impossible.try_emplace(error.message, Refusal{error}).first->second;
  ++refusal.times;
}

bool FitSearch::mayBe(Wanted wanted, const Bytes &bytes) const {
  return wanted == Wanted::Fitting
             ? excess(bytes) == 0
             : !nearest || needOf(bytes) < needOf(nearest->bytes);
}

/// Compiles the configuration that `flags` describe. Returns nothing if the
/// configuration is impossible or does not fit the memory. If `wanted` is
/// Nearest, the configuration need not fit, but must be nearer to fitting than
/// `nearest`. `ofModel` has the bytes of parameters, gradients and optimizer
/// states as far as earlier compilations have found them (0: unknown). The
/// function updates `ofModel`.
std::optional<Mixture> FitSearch::plan(const config::Flags &flags,
                                       Wanted wanted, Bytes &ofModel) {
  bool hasLimits = wanted == Wanted::Fitting;
  auto isTooLarge = [&] {
    bool isSo = !mayBe(wanted, ofModel);
    found->tooLarge += isSo && hasLimits;
    return isSo;
  };
  if (isTooLarge())
    return std::nullopt;
  CompileJob job;
  try {
    job = makeJob(flags);
    config::checkCluster(job.settings.values, cluster);
  } catch (const UserError &error) {
    refuse(error.diagnostic);
    return std::nullopt;
  }
  // Use the memory limits as budgets. The pass memory-plan then prefetches as
  // much as fits into them.
  config::Settings &settings = job.settings.values;
  settings.memoryBudget = hasLimits ? limits.device : 0;
  bool hasHost = factsOf(settings.target).hasDeviceMemory;
  settings.hostBudget = hasLimits && hasHost ? limits.host : 0;
  settings.fileBudget = hasLimits ? limits.file : 0;
  PlannedJob planned = planJob(job, [&](KnownBytes known, const Bytes &bytes) {
    if (known == KnownBytes::OfModel)
      for (plan::MemoryKind kind : plan::memoryKinds)
        ofModel[kind] = std::max(ofModel[kind], bytes[kind]);
    return mayBe(wanted, bytes);
  });
  sayProgress();
  if (isTooLarge())
    return std::nullopt;
  ++found->compiled;
  if (planned.plans.empty()) {
    for (const Diagnostic &error : planned.errors)
      if (error.code != "H0201" || !hasLimits)
        refuse(error);
    return std::nullopt;
  }
  Mixture mixture;
  mixture.settings = job.settings.values;
  mixture.flags = flags;
  // Leave the number of threads open: the default is that of this machine, but
  // the job may run on another one.
  if (!isGiven("threads"))
    mixture.settings.threads = config::Settings().threads;
  for (const plan::Plan &plan : planned.plans) {
    for (const plan::Stage &stage : plan.stages)
      addMemory(stage.memory, mixture);
    cost::ClusterCost cost(plan, cluster);
    isHostUnrated |= cost.hasTimes() && cost.isHostUnrated();
    if (cost.hasTimes())
      mixture.stepSeconds =
          std::max(mixture.stepSeconds,
                   StepSchedule(plan, /*trace=*/"", &cost).stepSeconds());
  }
  if (!mayBe(wanted, mixture.bytes))
    return std::nullopt;
  return mixture;
}

int64_t FitSearch::excess(const Bytes &bytes) const {
  int64_t sum = 0;
  for (auto [needed, limit] : boundsOf(bytes))
    if (limit > 0)
      sum += std::max<int64_t>(needed - limit, 0);
  return sum;
}

/// Called if no configuration fits: finds the one that is nearest to fitting.
/// Tries configurations in the order of the bytes that their parameters,
/// gradients and optimizer states need, the smallest first. The compilation of
/// a later one can then stop as soon as it is known to be no nearer to fitting
/// than an earlier one.
void FitSearch::findNearest() {
  std::stable_sort(least.begin(), least.end(),
                   [&](const auto &a, const auto &b) {
                     return needOf(a.second) < needOf(b.second);
                   });
  for (auto &[flags, ofModel] : least)
    if (std::optional<Mixture> mixture = plan(flags, Wanted::Nearest, ofModel))
      nearest = std::move(mixture);
}

/// Searches for a change of flags that makes the configuration `nearest` fit.
/// Flags that the user gave are not changed.
void FitSearch::findChange() {
  auto costOf = [&](const Change &change) -> std::optional<double> {
    bool isOpen = std::none_of(
        change.flags.begin(), change.flags.end(),
        [&](const auto &flag) { return hasFlag(flag.first.c_str()); });
    if (!isOpen)
      return std::nullopt;
    Bytes ofModel;
    std::optional<Mixture> mixture =
        plan(change.on(nearest->flags), Wanted::Fitting, ofModel);
    return mixture ? std::optional(mixture->stepSeconds) : std::nullopt;
  };
  change = findSmaller(nearest->settings, costOf).flags;
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

/// Returns the values to try for a setting. If the user has set it, the only
/// value is "", which adds no flag.
std::vector<std::string>
FitSearch::choices(const char *key, std::vector<std::string> all) const {
  return isGiven(key) ? std::vector<std::string>{""} : std::move(all);
}

/// Returns the divisors of `size` in ascending order.
static std::vector<int64_t> divisorsOf(int64_t size) {
  std::vector<int64_t> all;
  for (int64_t divisor = 1; divisor <= size; ++divisor)
    if (size % divisor == 0)
      all.push_back(divisor);
  return all;
}

std::vector<FitSearch::Mesh> FitSearch::meshes() const {
  if (hasMesh())
    return {{given, base.values.data}};
  std::vector<Mesh> all;
  for (int64_t tensor : divisorsOf(cluster.ranksPerNode))
    for (int64_t pipe : divisorsOf(cluster.ranks() / tensor)) {
      Mesh mesh = {given, cluster.ranks() / tensor / pipe};
      mesh.flags["--mesh"] = "data=" + std::to_string(mesh.data) +
                             ",tensor=" + std::to_string(tensor) +
                             ",pipe=" + std::to_string(pipe);
      all.push_back(std::move(mesh));
    }
  return all;
}

/// Returns the values of --zero to try. If the mesh has one data rank, ZeRO
/// changes nothing, and the only value is "", which adds no flag.
std::vector<std::string> FitSearch::stages(const Mesh &mesh) const {
  if (mesh.data == 1)
    return {""};
  return choices("zero", {"0", "1", "2", "3"});
}

bool FitSearch::hasFlag(const char *name) const {
  auto flag = given.find(name);
  return flag != given.end() && flag->second;
}

bool FitSearch::isPlaced() const {
  auto isSaid = [&](const config::OffloadedRole &role) {
    return isGiven(role.key);
  };
  return hasFlag("--place") ||
         std::any_of(std::begin(config::offloadedRoles),
                     std::end(config::offloadedRoles), isSaid);
}

/// Returns the kinds of memory to which states can be offloaded. On a CPU
/// target, host memory is not one of them, since it is the device's memory.
std::vector<std::string> FitSearch::otherMemories() const {
  std::vector<std::string> kinds;
  if (factsOf(base.values.target).hasDeviceMemory && limits.host > 0)
    kinds.push_back(wordOf(config::MemoryKind::Host));
  if (limits.file > 0)
    kinds.push_back(wordOf(config::MemoryKind::File));
  return isPlaced() ? std::vector<std::string>() : kinds;
}

/// Returns the placements of states to try, from those in device memory to
/// those in files. Each placement has values of --host-updates to try with it.
std::vector<FitSearch::Placement> FitSearch::placements() const {
  using config::MemoryKind;
  const std::vector<std::string> byHost = choices("host_updates", {"0", "1"});
  const config::Settings &values = base.values;
  bool isBeside = factsOf(values.target).hasDeviceMemory &&
                  (values.placeOptimizer == MemoryKind::Host ||
                   values.placeOptimizer == MemoryKind::Pinned);
  std::vector<std::string> kinds = otherMemories(), none = {""};
  std::vector<Placement> all = {{none, isBeside ? byHost : none}};
  for (size_t i = 0; i < kinds.size(); ++i) {
    bool isHost = kinds[i] == wordOf(MemoryKind::Host);
    std::vector<std::string> updates = isHost ? byHost : none;
    std::string optimizer = "optimizer=" + kinds[i];
    std::string here = optimizer + ",gradients=device";
    all.push_back({{here}, updates});
    // Parameters and gradients are transferred for each micro-batch, so their
    // memory must be at least as fast as that of the optimizer states. Whether
    // parameters or gradients move fewer bytes depends on the precision and the
    // number of micro-batches. So each is tried alone, then both together.
    for (size_t j = 0; j <= i; ++j) {
      std::string gradients = optimizer + ",gradients=" + kinds[j];
      std::string parameters = ",parameters=" + kinds[j];
      all.push_back({{gradients, here + parameters}, updates});
      all.push_back({{gradients + parameters}, updates});
    }
  }
  return all;
}

/// Returns the numbers of rows to try for a micro-batch: 1, 2, 4 and so on, as
/// long as the number divides the rows of the batch that a rank has.
std::vector<std::string> FitSearch::microBatches(const Mesh &mesh) const {
  int64_t rows = batch / mesh.data;
  if (isGiven("micro_batch") || isGiven("accumulate") || rows == 0)
    return {""};
  std::vector<std::string> all;
  for (int64_t micro = 1; micro <= rows && rows % micro == 0; micro *= 2)
    all.push_back(std::to_string(micro));
  return all;
}

/// Returns `flags` with one more flag, unless its value is empty.
static config::Flags with(config::Flags flags, const char *name,
                          const std::string &text) {
  if (!text.empty())
    flags[name] = text;
  return flags;
}

/// Whether two configurations are equal except for the number of rows of a
/// micro-batch.
static bool areAlike(const Mixture &a, const Mixture &b) {
  config::Settings of = b.settings;
  of.microBatch = a.settings.microBatch;
  of.accumulate = a.settings.accumulate;
  auto isMore = [](double x, double y) { return x > y * (1 + 1e-9); };
  for (plan::MemoryKind kind : plan::memoryKinds)
    if (a.bytes[kind] != b.bytes[kind])
      return false;
  return flagsOf(of) == flagsOf(a.settings) &&
         !isMore(a.stepSeconds, b.stepSeconds) &&
         !isMore(b.stepSeconds, a.stepSeconds);
}

void FitSearch::sayProgress() {
  constexpr std::chrono::seconds often(20);
  std::lock_guard lock(found->mutex);
  auto now = std::chrono::steady_clock::now();
  if (now < found->lastSaid + often)
    return;
  found->lastSaid = now;
  std::cerr << "  note: " << found->compiled << " mixtures compiled, "
            << found->fitting << " of them fit; " << found->tooLarge
            << " have too large a model\n";
}

bool FitSearch::add(const config::Flags &flags, Bytes &ofModel) {
  std::optional<Mixture> mixture = plan(flags, Wanted::Fitting, ofModel);
  if (!mixture)
    return false;
  // Of configurations that differ only in the micro-batch, only the one with
  // the largest micro-batch is kept. It needs the fewest launches, whose cost
  // the estimate does not include.
  auto like =
      std::find_if(fitting.begin(), fitting.end(), [&](const Mixture &other) {
        return areAlike(*mixture, other);
      });
  if (like != fitting.end())
    *like = std::move(*mixture);
  else {
    fitting.push_back(std::move(*mixture));
    ++found->fitting;
  }
  return true;
}

/// Returns `flags` with the flags that offload activations to the memory
/// `kind`.
static config::Flags withActivations(config::Flags flags,
                                     const std::string &kind) {
  std::optional<std::string> &place = flags["--place"];
  place = (place ? *place + "," : "") + "activations=" + kind;
  return flags;
}

/// Finds the least recomputation with which the configuration fits, since
/// recomputation takes time. If some is needed, also tries to offload
/// activations, which may take less time. `ofModel` has the known bytes of
/// parameters, gradients and optimizer states (see `plan`). These bytes are the
/// same for all configurations that this function tries.
FitSearch::Room FitSearch::searchActivations(const config::Flags &flags,
                                             Bytes &ofModel) {
  std::vector<std::string> recomputes =
      choices("recompute", {"none", "selective", "full"});
  size_t first = 0;
  while (first < recomputes.size() &&
         !add(with(flags, "--recompute", recomputes[first]), ofModel))
    ++first;
  if (first == 0)
    return Room::Ample;
  bool hasRoom = first < recomputes.size();
  for (const std::string &kind : otherMemories())
    for (size_t i = 0; i < first; ++i)
      if (add(with(withActivations(flags, kind), "--recompute", recomputes[i]),
              ofModel)) {
        hasRoom = true;
        break;
      }
  return hasRoom ? Room::Scarce : Room::None;
}

/// Tries larger and larger micro-batches until one does not fit, since larger
/// ones need more memory. Returns true if all of them fit, each without
/// recomputation and without offloading of activations.
bool FitSearch::searchRows(const Mesh &mesh) {
  bool isFirst = true, isAmple = true;
  for (const std::string &rows : microBatches(mesh)) {
    config::Flags mixture = with(mesh.flags, "--micro-batch", rows);
    Bytes ofModel;
    Room room = searchActivations(mixture, ofModel);
    if (room == Room::None) {
      config::Flags smallest =
          with(mixture, "--recompute", choices("recompute", {"full"}).front());
      if (isFirst && fitting.empty()) {
        least.emplace_back(smallest, ofModel);
        for (const std::string &kind : otherMemories())
          least.emplace_back(withActivations(smallest, kind), ofModel);
      }
      return false;
    }
    isAmple &= room == Room::Ample;
    isFirst = false;
  }
  return isAmple;
}

/// Tries placements of states, from device memory to files. Stops after the
/// first placement that leaves room for all activations.
void FitSearch::searchPlaces(const Mesh &mesh) {
  for (const Placement &place : placements()) {
    bool isAmple = false;
    for (const std::string &places : place.places)
      for (const std::string &updates : place.updates)
        isAmple |= searchRows({with(with(mesh.flags, "--place", places),
                                    "--host-updates", updates),
                               mesh.data});
    if (isAmple)
      return;
  }
}

/// Takes the fastest configuration with states in host memory, and adds one
/// that has these states in pinned memory. Both need the same number of bytes,
/// but the system cannot page pinned memory out, so the user should decide.
void FitSearch::addPinned() {
  using config::MemoryKind;
  const char *host = wordOf(MemoryKind::Host);
  auto isOnHost = [](const Mixture &mixture) {
    return mixture.settings.placeOptimizer == MemoryKind::Host;
  };
  auto fastest = std::find_if(fitting.begin(), fitting.end(), isOnHost);
  if (isPlaced() || fastest == fitting.end())
    return;
  config::Flags flags = fastest->flags;
  std::string &places = *flags["--place"];
  for (size_t at = 0; (at = places.find(host, at)) != std::string::npos;)
    places.replace(at, strlen(host), wordOf(MemoryKind::Pinned));
  Bytes ofModel;
  add(flags, ofModel);
}

void FitSearch::merge(FitSearch part) {
  auto append = [](auto &all, auto &more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  };
  append(fitting, part.fitting);
  append(least, part.least);
  isHostUnrated |= part.isHostUnrated;
  for (const auto &[why, refusal] : part.impossible)
    impossible.try_emplace(why, Refusal{refusal.first}).first->second.times +=
        refusal.times;
}

/// Searches all meshes and ZeRO stages on all cores. The searches are
/// independent: what one of them finds does not change what another tries.
void FitSearch::searchMeshes() {
  std::vector<Mesh> all;
  for (const Mesh &mesh : meshes())
    for (const std::string &stage : stages(mesh))
      all.push_back({with(mesh.flags, "--zero", stage), mesh.data});
  std::vector<FitSearch> parts(all.size(), *this);
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next++) < all.size();)
      parts[i].searchPlaces(all[i]);
  };
  // The number of threads is limited, since a compilation takes a few hundred
  // MiB of memory.
  constexpr size_t mostThreads = 16;
  size_t count = std::min(
      {size_t(std::thread::hardware_concurrency()), mostThreads, all.size()});
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  for (FitSearch &part : parts)
    merge(std::move(part));
}

void FitSearch::run() {
  if (limits.device == 0)
    fail(
        "H0113", cluster.file + " does not say how much memory a rank has",
        "add \"device_memory\": \"80GiB\" to it, or give --memory-budget 80GiB",
        cluster.ranksLocation);
  given["--batch"] = std::to_string(batch);
  searchMeshes();
  if (fitting.empty())
    findNearest();
  if (nearest)
    findChange();
  sort();
  addPinned();
  sort();
}

void FitSearch::sort() {
  std::stable_sort(fitting.begin(), fitting.end(),
                   [](const Mixture &a, const Mixture &b) {
                     return std::pair(a.stepSeconds, a.bytes.total()) <
                            std::pair(b.stepSeconds, b.bytes.total());
                   });
}

std::string driver::flagsOf(const config::Settings &settings) {
  std::string mesh;
  auto add = [&](const char *axis, int64_t ranks) {
    if (ranks > 1)
      mesh += (mesh.empty() ? "" : ",") + std::string(axis) + "=" +
              std::to_string(ranks);
  };
  add("data", settings.data);
  add("tensor", settings.tensor);
  add("pipe", settings.pipe);
  add("seq", settings.sequence);
  std::string text = mesh.empty() ? "" : "--mesh " + mesh + " ";
  if (settings.zero > 0)
    text += "--zero " + std::to_string(settings.zero) + " ";
  text += "--micro-batch " + std::to_string(settings.microBatch);
  if (settings.recompute != config::Recompute::None)
    text += std::string(" --recompute ") + wordOf(settings.recompute);
  if (std::string places = offloadsOf(settings); !places.empty())
    text += " --place " + places;
  if (settings.hostUpdates > 0) {
    char part[32];
    snprintf(part, sizeof part, " --host-updates %g", settings.hostUpdates);
    text += part;
  }
  return text;
}
