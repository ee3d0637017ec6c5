//===- Weights.cpp - Load and save the states of a session ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fills the states of a session: reads or initializes parameters, computes
// casts and quantized layouts (WeightMaker), and resumes checkpoints.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/Weights.h"
#include "FrozenStates.h"
#include "LoadProgress.h"
#include "ModelText.h"
#include "PackState.h"
#include "QuantizedCopies.h"
#include "Warnings.h"
#include "WeightCache.h"
#include "heddle/runtime/app/InitialValues.h"
#include "heddle/runtime/app/ServedMemory.h"
#include "heddle/runtime/app/StateTensors.h"
#include "heddle/runtime/core/PackWeights.h"
#include "heddle/runtime/core/UploadRing.h"
#include "heddle/runtime/io/CodedWeights.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <optional>
#include <set>

using namespace heddle;
using namespace heddle::rt;

using plan::Init;
using plan::State;
using plan::StateRole;

/// Whether a state that no weights give must be written before the first step.
static bool hasFirstValue(const State &state) {
  return state.init.kind != Init::Kind::Zeros || !state.value.elements.empty();
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

namespace {

/// Fills a buffer with those elements of a state that this rank stores. They
/// are read from tensors of files, or are initial values.
struct FillWork {
  std::vector<ElementRange> runs;
  int64_t count = 0; ///< Elements of all ranges.
  char *target = nullptr;
  std::string type;
  /// The reader of the files' tensors; null if the elements are initial values.
  const SourceReader *source = nullptr;
  /// Receives the index (in the unsharded state) of the first element that is
  /// not finite. Only used if `source` is not null.
  std::atomic<int64_t> *bad = nullptr;
  /// The state from whose name, shape and kind of initialization the initial
  /// values are computed. Only used if `source` is null.
  const State *first = nullptr;
  uint64_t seed = 0;

  void fill(ElementRange run) const;
  void note(int64_t element) const;
  void fillInitial(ElementRange run) const;
};

} // namespace

void FillWork::fill(ElementRange run) const {
  if (!source)
    return fillInitial(run);
  int64_t found = source->read(run.whole, run.count, type,
                               target + run.local * io::dtypeBits(type) / 8);
  if (found >= 0)
    note(found);
}

void FillWork::note(int64_t element) const {
  int64_t known = bad->load();
  while (element < known && !bad->compare_exchange_weak(known, element)) {
  }
}

void FillWork::fillInitial(ElementRange run) const {
  const std::vector<int32_t> &value = first->value.elements;
  if (!value.empty()) {
    std::copy_n(value.begin() + run.whole, run.count,
                reinterpret_cast<int32_t *>(target) + run.local);
    return;
  }
  constexpr int64_t most = 4096;
  std::array<float, most> values;
  int64_t width = io::dtypeBits(type) / 8;
  const std::vector<int64_t> &whole = first->placement.whole;
  for (int64_t done = 0; done < run.count; done += most) {
    int64_t count = std::min(most, run.count - done);
    initialValues(first->init, first->name,
                  whole.empty() ? first->shape : whole, seed, run.whole + done,
                  count, values.data());
    io::convertElements(values.data(), "F32",
                        target + (run.local + done) * width, type, count);
  }
}

/// Fills the elements that belong to one of `threads` threads.
static void fillShare(const void *context, int64_t thread, int64_t threads) {
  const auto &work = *static_cast<const FillWork *>(context);
  int64_t share = (work.count + threads - 1) / threads;
  int64_t begin = thread * share, end = begin + share;
  int64_t passed = 0;
  for (const ElementRange &run : work.runs) {
    int64_t from = std::clamp<int64_t>(begin - passed, 0, run.count);
    int64_t to = std::clamp<int64_t>(end - passed, 0, run.count);
    if (from < to)
      work.fill({run.whole + from, run.local + from, to - from});
    passed += run.count;
  }
}

static void fillState(Job &job, UploadRing &ring, size_t index, FillWork work) {
  const State &state = job.plan().states[index];
  Session &session = job.session();
  const Value &value = session.state(index);
  if (value.numBytes() == 0)
    return;
  int64_t width = plan::byteSize(state.type);
  work.type = plan::nameOf(state.type);
  std::vector<ElementRange> runs = session.shard(index).runs();
  auto fill = [&](const std::vector<ElementRange> &piece, int64_t count,
                  char *target) {
    work.runs = piece;
    work.count = count;
    work.target = target;
    job.threadPool().run(fillShare, &work);
  };
  if (char *seen = session.runsOn().map(value.address)) {
    int64_t count = 0;
    for (const ElementRange &run : runs)
      count += run.count;
    return fill(runs, count, seen);
  }
  auto send = [&](const std::vector<ElementRange> &piece, int64_t count,
                  int64_t first) {
    fill(piece, count, ring.next());
    ring.send(value.address + first * width, count * width);
  };
  forEachPiece(runs, ring.slotBytes() / width, send);
}

/// Creates the ring of buffers through which states are uploaded to the device.
/// A buffer holds at least a panel of each packed weight.
static UploadRing makeRing(Job &job) {
  int64_t most = 0, panel = 0;
  for (size_t i = 0; i < job.plan().states.size(); ++i) {
    const Value &value = job.session().state(i);
    most = std::max(most, value.numBytes());
    if (!job.plan().states[i].packed.empty())
      panel = std::max(panel, panelBytes(value));
  }
  return UploadRing(job.session().runsOn(), most, panel);
}

/// Reads a state from its tensors in `weights`. `prefix`, such as `exp_avg.`,
/// is put before the tensors' names.
static void readState(Job &job, UploadRing &ring, size_t index,
                      const io::WeightSet &weights,
                      const std::string &prefix = "") {
  const State &state = job.plan().states[index];
  SourceReader reader(weights, sourcesOf(job.plan(), state), state.name,
                      prefix);
  std::string type = plan::nameOf(state.type);
  reader.requireConvertible(type);
  FillWork work;
  work.source = &reader;
  constexpr int64_t none = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> bad{none};
  work.bad = &bad;
  fillState(job, ring, index, std::move(work));
  if (bad < none)
    reader.failNonFinite(type, bad);
}

/// Sets a state's initial value. `source` is the parameter of which the state
/// is a copy, or the state itself if it is no copy. The name of `source`
/// determines the random values, so that a copy gets the same values as its
/// parameter.
static void initialize(Job &job, UploadRing &ring, size_t index,
                       const State &source) {
  const State &state = job.plan().states[index];
  if (state.value.elements.empty() &&
      !io::convertElements(nullptr, "F32", nullptr, plan::nameOf(state.type),
                           0))
    fail("H0385",
         "state '" + state.name + "' has a first value but its type holds none",
         "compile the binary again");
  FillWork work;
  work.first = &source;
  work.seed = job.plan().weights.seed;
  fillState(job, ring, index, std::move(work));
}

/// Returns the parameter of which a state is a copy, or the state itself if it
/// is a parameter.
static const State &parameterOf(const plan::Plan &plan, const State &state) {
  if (const State *found = findParameter(plan, state))
    return *found;
  fail("H0385",
       "the plan's derived state '" + state.name + "' is of no parameter",
       "compile the binary again");
}

//===----------------------------------------------------------------------===//
// States that are computed from weights
//===----------------------------------------------------------------------===//

namespace {

/// Computes parameters, and the states that are derived from them, one after
/// the other. A quantized weight has two states: first its words, each of which
/// holds several quantized elements, then its scales. The float weight is kept
/// in memory until both states are computed.
class WeightMaker {
public:
  /// Reads from `weights`; if it is null, computes initial values instead.
  WeightMaker(Job &job, UploadRing &ring, const io::WeightSet *weights)
      : job(job), ring(ring), weights(weights) {}

  void make(size_t index);
  /// Names of weights that the files quantize in another format than the plan,
  /// so that loading has rounded them a second time.
  const std::set<std::string> &roundedAgain() const { return rounded; }

private:
  void cast(size_t index);
  void pack(size_t index);
  void readWeight(size_t index);
  void fill(const State &state, const SourceReader *reader,
            const std::vector<ElementRange> &wanted,
            std::vector<float> &values);
  GroupScales wholeScales(const State &state, const SourceReader *reader,
                          const plan::PackedWeight &whole);

  Job &job;
  UploadRing &ring;
  const io::WeightSet *weights;
  /// The float values of this rank's shard of the weight that is quantized.
  std::vector<float> weight;
  /// The scales and zero points of `weight`; empty if they are computed from
  /// `weight`. They are given if the files quantize the weight in the plan's
  /// format, or if inputs that share a scale are on several ranks.
  GroupScales given;
  std::string name;
  std::vector<ElementRange> runs;
  std::set<std::string> rounded;
};

} // namespace

/// Reads elements of the float weight from which a quantized state is computed.
/// Generates initial values if `reader` is null.
void WeightMaker::fill(const State &state, const SourceReader *reader,
                       const std::vector<ElementRange> &wanted,
                       std::vector<float> &values) {
  State first = state; // With the properties of the weight itself.
  first.name = state.packed[0].name;
  first.shape = state.packed[0].shape;
  constexpr int64_t none = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> bad{none};
  FillWork work;
  work.runs = wanted;
  for (const ElementRange &run : wanted)
    work.count += run.count;
  work.target = reinterpret_cast<char *>(values.data());
  work.type = "F32";
  work.source = reader;
  work.bad = &bad;
  work.first = &first;
  work.seed = job.plan().weights.seed;
  job.threadPool().run(fillShare, &work);
  if (bad < none)
    reader->failNonFinite(work.type, bad);
}

/// Computes the scales and zero points of a weight whose inputs are sharded
/// over ranks although several inputs share a scale. The scales are computed
/// from the unsharded weight, so that they do not depend on the mesh.
GroupScales WeightMaker::wholeScales(const State &state,
                                     const SourceReader *reader,
                                     const plan::PackedWeight &whole) {
  std::vector<float> values(whole.inputs() * whole.outputs());
  fill(state, reader, {{0, 0, int64_t(values.size())}}, values);
  GroupScales codes(whole.groups() * whole.outputs());
  struct Work {
    const plan::PackedWeight &whole;
    const float *values;
    GroupScales &codes;
  };
  Work work = {whole, values.data(), codes};
  auto share = [](const void *context, int64_t thread, int64_t threads) {
    const Work &work = *static_cast<const Work *>(context);
    int64_t outputs = work.whole.outputs();
    scalesOfOutputs(work.whole, work.values, outputs * thread / threads,
                    outputs * (thread + 1) / threads, work.codes);
  };
  job.threadPool().run(share, &work);
  return codes;
}

/// Reads this rank's shard of the float weight from which a quantized state is
/// computed.
void WeightMaker::readWeight(size_t index) {
  const State &state = job.plan().states[index];
  const plan::PackedWeight &packed = state.packed.at(0);
  std::vector<ElementRange> wanted = job.session().shard(index).runs();
  auto isSame = [](const ElementRange &a, const ElementRange &b) {
    return a.whole == b.whole && a.local == b.local && a.count == b.count;
  };
  if (name == packed.name && std::equal(runs.begin(), runs.end(),
                                        wanted.begin(), wanted.end(), isSame))
    return;
  name = packed.name;
  runs = std::move(wanted);
  weight.assign(packed.inputs() * packed.outputs(), 0);
  std::optional<SourceReader> reader;
  if (weights) {
    reader.emplace(*weights, sourcesOf(job.plan(), state), packed.name);
    reader->requireConvertible("F32");
  }
  const SourceReader *from = reader ? &*reader : nullptr;
  fill(state, from, runs, weight);
  plan::PackedWeight whole =
      wholeOf(packed, job.session().shard(index).wholeShape());
  given = from ? from->scalesFor(whole) : GroupScales();
  if (given.empty() && packed.isQuantized() && from && from->hasCodes())
    rounded.insert(packed.name);
  if (given.empty() && splitsGroups(packed, whole))
    given = wholeScales(state, from, whole);
  if (!given.empty())
    given = scalesOfShard(given, packed, whole, runs);
}

void WeightMaker::pack(size_t index) {
  readWeight(index);
  packState(job, ring, index, weight.data(), given);
}

/// Computes a state that is a parameter, or a copy of a parameter in another
/// type. Both are converted from the files' values. A copy is not converted
/// from this rank's shard of the parameter, because the two may be sharded
/// differently.
void WeightMaker::cast(size_t index) {
  if (weights)
    return readState(job, ring, index, *weights);
  const plan::Plan &plan = job.plan();
  initialize(job, ring, index, parameterOf(plan, plan.states[index]));
}

void WeightMaker::make(size_t index) {
  if (!job.plan().states[index].quantizer.empty())
    return; // See makeQuantizedCopies.
  job.plan().states[index].packed.empty() ? cast(index) : pack(index);
}

/// Warns that the files' quantized weights were rounded again to the plan's
/// format. Does not warn if they are the weights with which the binary was
/// compiled: in this case the user has asked the compiler for that format.
static void warnOfRounding(Job &job, const std::set<std::string> &names,
                           const io::WeightSet &weights) {
  if (names.empty() || !job.isFirst() ||
      weights.headerHash() == job.plan().weights.headerHash)
    return;
  Diagnostic rounded;
  rounded.code = "H0464";
  rounded.message = "the codes of " + std::to_string(names.size()) +
                    " weights in " + weights.origin() + ", as " +
                    *names.begin() +
                    ", are rounded once more: this binary multiplies codes of "
                    "other bits, groups, zeros or orders";
  rounded.help = "compile again for these weights, whose codes stay then";
  warn(rounded);
}

/// Computes parameters and the states derived from them, such as quantized
/// weights. Reads `weights`; if it is null, uses initial values.
static void makeStates(Job &job, UploadRing &ring,
                       const io::WeightSet *weights) {
  const plan::Plan &plan = job.plan();
  if (weights)
    requireOrders(*weights, plan.weights.orders);
  WeightMaker maker(job, ring, weights);
  {
    // Ends its line before warnings are printed.
    LoadProgress progress(job);
    for (size_t i = 0; i < plan.states.size(); ++i)
      if (isOfWeights(plan.states[i])) {
        maker.make(i);
        progress.add(i);
      }
  }
  if (weights)
    warnOfRounding(job, maker.roundedAgain(), *weights);
}

static io::WeightSet openPlanWeights(const plan::Plan &plan) {
  requireCompiledWeights(plan);
  const plan::Weights &expected = plan.weights;
  io::WeightSet weights = io::openModelWeights(expected.directory);
  if (!expected.headerHash.empty() &&
      weights.headerHash() != expected.headerHash)
    fail("H0386",
         "the weights in " + expected.directory +
             " have other names, types or shapes than those that this binary "
             "was compiled with",
         "name the weights to use: --weights " + expected.directory);
  return weights;
}

std::optional<io::WeightSet>
heddle::rt::openJobWeights(const Job &job, const JobOptions &options) {
  const plan::Plan &plan = job.plan();
  if (options.weights.empty() && plan.weights.random)
    return std::nullopt;
  io::WeightSet weights = options.weights.empty()
                              ? openPlanWeights(plan)
                              : io::openModelWeights(options.weights);
  extendPositions(weights, plan.weights.extended);
  return weights;
}

/// Returns the directory of the weights; "" if there is none.
static std::string placeOfWeights(const Job &job, const JobOptions &options) {
  if (!options.weights.empty() || job.plan().weights.random)
    return options.weights;
  return job.plan().weights.directory;
}

void heddle::rt::loadWeights(Job &job, const JobOptions &options) {
  const plan::Plan &plan = job.plan();
  io::requireWholeModel(placeOfWeights(job, options), job.ranks());
  UploadRing ring = makeRing(job);
  std::optional<io::WeightSet> weights;
  std::optional<WeightCache> cache;
  bool isThere = false;
  job.ranks().together([&] {
    if (job.isFirst())
      warnOfOtherModel(job, io::resolveModel(placeOfWeights(job, options)));
    // The compiler has warned of the weights with which it compiled.
    if (!options.weights.empty() && job.isFirst())
      warnOfDense(job, io::resolveModel(options.weights));
    if (isForServing(plan) && job.isFirst())
      fprintf(stderr, "%smemory: %s\n", job.prefix(),
              ServedMemory(plan).text().c_str());
    weights = openJobWeights(job, options);
    cache.emplace(job, options, weights ? &*weights : nullptr);
    isThere = cache->load();
  });
  auto make = [&] {
    makeStates(job, ring, weights ? &*weights : nullptr);
    isThere = true;
  };
  // If several ranks of a machine have the same states, only one of them
  // converts the weights and stores them in the cache. The other ranks wait,
  // and then load the cached file.
  const bool waits = cache->isKeptByAnother();
  job.ranks().together([&] {
    if (isThere || waits)
      return;
    make();
    cache->store();
  });
  job.ranks().together([&] {
    if (!isThere && !cache->load())
      make();
    for (size_t i = 0; i < plan.states.size(); ++i) {
      const State &state = plan.states[i];
      if (!isOfWeights(state) && hasFirstValue(state))
        initialize(job, ring, i, state);
    }
    ring.finish();
    makeQuantizedCopies(job, weights ? &*weights : nullptr);
  });
}

//===----------------------------------------------------------------------===//
// Checkpoints
//===----------------------------------------------------------------------===//

/// Sets a state that holds a power of Adam's beta (for the bias correction) to
/// its value after `updates` updates. Called for checkpoints of older versions,
/// which lack this state.
static void raisePower(Job &job, size_t index, int64_t updates) {
  const State &state = job.plan().states[index];
  double power = std::pow(state.init.value, double(updates));
  Session &session = job.session();
  const Value &value = session.state(index);
  io::convertElements(&power, "F64", session.at(value),
                      plan::nameOf(state.type), 1);
  session.host().store(value.address, value.numBytes());
  session.host().release(value.address, value.numBytes());
}

/// Reads optimizer states and other saved states from a checkpoint.
static void resumeState(Job &job, UploadRing &ring, size_t index,
                        const io::Checkpoint &checkpoint) {
  const plan::Plan &plan = job.plan();
  const State &state = plan.states[index];
  std::string prefix = checkpointPrefix(state), missing;
  for (const plan::WeightSlice &piece : sourcesOf(plan, state))
    if (!checkpoint.optimizer.find(prefix + piece.tensor))
      missing = prefix + piece.tensor;
  if (missing.empty())
    return readState(job, ring, index, checkpoint.optimizer, prefix);
  if (state.init.kind == Init::Kind::Power)
    return raisePower(job, index, checkpoint.state.updates.updates());
  // The checkpoint is of a run without the state, for example without a loss
  // scale, which begins now.
  if (state.parameter.empty() && state.init.kind == Init::Kind::Constant)
    return initialize(job, ring, index, state);
  fail("H0335",
       "the checkpoint " + checkpoint.path + " has no state '" + missing +
           "', which the optimizer " + plan.optimizer.type + " keeps",
       "pass --reset-optimizer to begin with its first values, or compile with "
       "the optimizer that the checkpoint is of");
}

io::CheckpointState heddle::rt::resumeFrom(Job &job,
                                           const std::string &directory,
                                           bool resetOptimizer,
                                           bool resetErrors) {
  io::Checkpoint checkpoint = io::openCheckpoint(directory, job.ranks());
  job.ranks().together([&] {
    if (job.isFirst())
      warnOfOtherModel(job, checkpoint.path);
    if (job.isFirst())
      warnOfDense(job, checkpoint.path);
    UploadRing ring = makeRing(job);
    makeStates(job, ring, &checkpoint.model);
    const plan::Plan &plan = job.plan();
    const FirstValues begun = firstValuesIn(checkpoint, plan, resetOptimizer,
                                            resetErrors, job.isFirst());
    for (size_t i = 0; i < plan.states.size(); ++i) {
      const State &state = plan.states[i];
      if (isOfWeights(state) || begun.parameters.count(state.parameter))
        continue;
      if (state.checkpointed && !resetOptimizer &&
          !begun.errors.count(state.name))
        resumeState(job, ring, i, checkpoint);
      else if (hasFirstValue(state))
        initialize(job, ring, i, state);
    }
    ring.finish();
    makeQuantizedCopies(job, &checkpoint.model);
  });
  return checkpoint.state;
}
