//===- Plan.h - The plan that a compiled binary carries ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the compiler hands to the runtime: every byte of memory, every command
// of every step program, and what is needed to read data, weights and
// checkpoints. It is stored as JSON in the section `.heddle.plan` of the
// binary; the kernels stand beside it in `.heddle.kernels`, as the image of an
// ELF shared object. No LLVM header may be included here.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_PLAN_H
#define HEDDLE_PLANFORMAT_PLAN_H

#include "heddle/PlanFormat/Memory.h"
#include "heddle/PlanFormat/Piece.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace heddle::plan {

/// Names of the ELF sections that the compiler adds to the runtime.
inline constexpr const char *planSectionName = ".heddle.plan";
inline constexpr const char *kernelSectionName = ".heddle.kernels";

/// Element types, named as safetensors names them in `dtypeName`.
enum class DType { F32, BF16, F16, I32, I64, U8, F64 };
int64_t byteSize(DType type);
const char *dtypeName(DType type);
std::optional<DType> parseDType(const std::string &name);

/// The memory that a `Ref` counts from.
enum class Space {
  Persistent, ///< States: one allocation that lives as long as the process.
  Frame,      ///< The running sequence's own frame in the arena; in memory that
              ///< is not the device's, the arena itself.
  Arg,        ///< An argument of the running sequence: `index` says which.
};

/// What a collective does; see Collective.h for the algorithms.
struct Collective {
  enum class Kind { AllReduce, ReduceScatter, AllGather, AllToAll, Rotate };
  Kind kind = Kind::AllReduce;
  std::vector<std::string> axes; ///< The group: ranks along these axes.
  DType type = DType::F32;
  DType wire = DType::F32; ///< What travels.
  /// The split buffer is [outer, parts, inner], for each of `segments` apart
  /// (elements of each, over all parts; empty: one). all_to_all gathers so, and
  /// splits [splitOuter, parts, ...] in `splitSegments`.
  int64_t outer = 1;
  int64_t splitOuter = 1;
  std::vector<int64_t> segments;
  std::vector<int64_t> splitSegments;

  bool operator==(const Collective &other) const {
    return std::tie(kind, axes, type, wire, outer, splitOuter, segments,
                    splitSegments) ==
           std::tie(other.kind, other.axes, other.type, other.wire, other.outer,
                    other.splitOuter, other.segments, other.splitSegments);
  }
};

/// As `all_reduce`.
const char *collectiveName(Collective::Kind kind);

/// Messages to or from the rank `delta` further along `axis`, around its end.
/// Those of one channel between two ranks arrive in the order of their sending.
struct Channel {
  std::string axis;
  int64_t delta = 0;
  std::string name;
};

/// One kind of fragment of a pipeline stage.
struct Fragment {
  std::string kind;     ///< As `F`, `B`, `F/1`.
  int64_t sequence = 0; ///< What it runs.
  int64_t slots = 1;    ///< Its slot is micro-batch mod slots.
};

/// A number that is known when the plan is loaded, times a factor.
struct Term {
  enum class Kind {
    Arg,        ///< An integer argument of the sequence: `value` says which.
    LoopIndex,  ///< The iteration of the innermost enclosing loop, or the
                ///< micro-batch of the running fragment.
    Slot,       ///< The slot of the running fragment.
    Coordinate, ///< This rank's number among those along `axes`.
  } kind = Kind::LoopIndex;
  int64_t value = 0;
  int64_t factor = 1;
  std::vector<std::string> axes;
};

/// The address of a command's operand: a base, a byte offset, and what is added
/// to it, in bytes.
struct Ref {
  Space space = Space::Frame;
  MemoryKind memory = MemoryKind::Device; ///< Not for Space::Arg.
  int64_t index = 0;                      ///< Only for Space::Arg.
  int64_t offset = 0;                     ///< In bytes.
  int64_t bytes = 0; ///< Bytes reachable through this operand.
  std::vector<Term> terms;
};

/// A launch's integer operand: the sum of a constant and terms.
struct Scalar {
  int64_t constant = 0;
  std::vector<Term> terms;
};

struct Command {
  enum class Kind {
    Launch,     ///< Run kernel `target` on every thread of the pool.
    Call,       ///< Run sequence `target`; its frame stands at `frameOffset`.
    Loop,       ///< Run sequence `target` `count` times in the same frame; its
                ///< loop index is 0..count-1.
    Copy,       ///< refs[0] <- refs[1], refs[0].bytes bytes.
    Fill,       ///< refs[0] <- zero, refs[0].bytes bytes.
    Fragments,  ///< Run `fragments` in the order of `line`, in the same frame.
    Collective, ///< Start `collective`: refs are target, source, staging.
    Record,     ///< Note the point that `stream` has come to.
    Wait,    ///< Let `stream` wait for the collective, or for the point, that
             ///< is command `target` of this sequence.
    Send,    ///< Send refs[0] along `channel`.
    Receive, ///< Wait for refs[0] along `channel`.
    Flush,   ///< Wait until at most `count` sends are under way on the channel
             ///< of that name; at a step's end none is.
  } kind = Kind::Launch;
  Stream stream = Stream::Compute; ///< That does it.
  int64_t target = 0;
  std::vector<Ref> refs;
  std::vector<Scalar> scalars;
  int64_t frameOffset = 0; ///< Call, Loop, Fragments: in the caller's frame.
  int64_t count = 0;       ///< Loop, Flush.
  std::string path;        ///< Module path, as `h.3`, for traces and errors.
  std::optional<Collective> collective;
  std::optional<Channel> channel;
  std::vector<Fragment> fragments;
  std::string line; ///< As the schedule writes it: `F0 F1 B0 B1`.
};

/// A list of commands over arguments and a frame. Layers share one sequence.
struct Sequence {
  std::string name;
  int64_t frameBytes = 0; ///< Its own values and the frames of its callees.
  int64_t numArgs = 0;
  int64_t numScalarArgs = 0;
  std::vector<Command> commands;
};

/// A compiled kernel:
///   void symbol(void *const *refs, const int64_t *scalars,
///               int64_t thread, int64_t threads, void *scratch);
/// `scratch` is `scratchBytes` long for each thread, 64-byte aligned, and taken
/// from the arena. Every thread of the pool calls it once per launch.
struct Kernel {
  std::string name;      ///< Also its symbol.
  std::string ops;       ///< The operations it computes, for people.
  std::string hash;      ///< Of its body and target.
  double flops = 0;      ///< Per launch.
  double modelFlops = 0; ///< Those of products and attention.
  double bytes = 0;      ///< Read and written per launch.
  int64_t scratchBytes = 0;
};

/// How a state gets its first value when no weights are loaded.
struct Init {
  enum class Kind { Zeros, Constant, Normal, Power } kind = Kind::Zeros;
  /// Constant: the value; Normal: the mean; Power: what is raised to the number
  /// of updates so far.
  double value = 0;
  double stddev = 0; ///< Normal.
};

/// How a rank's part lies in a whole tensor.
struct Placement {
  std::vector<int64_t> whole; ///< The whole tensor's shape; empty: the part's.
  /// For each dimension the axes that split it. A part is ceil(whole / parts)
  /// long; the last ones reach over the end, and that is padding.
  std::vector<std::vector<std::string>> split;
  /// Parts of the last dimension that are split each for itself; empty: one.
  std::vector<int64_t> segments;
  /// With `flatAxes` the part that `split` gives has no place of its own. It
  /// begins at element `flatFirst` of a flat tensor of `flatElements`, of which
  /// each rank along these axes holds a run of ceil(flatElements / ranks),
  /// maybe with none of this tensor's elements in it.
  std::vector<std::string> flatAxes;
  int64_t flatFirst = 0;
  int64_t flatElements = 0;
};

/// A tensor that lives across steps: parameter, moment, gradient, ...
struct State {
  std::string name;      ///< Module path, as `h.0.attn.c_attn.weight`.
  std::string role;      ///< parameter, compute-copy, gradient, optimizer,
                         ///< accumulator
  std::string parameter; ///< For the others: the parameter they belong to.
  DType type = DType::F32;
  std::vector<int64_t> shape; ///< Of this rank's part (but for flat axes).
  Placement placement;
  int64_t offset = 0; ///< In the persistent region, in bytes; with flat axes,
                      ///< where this rank's run of the flat tensor begins.
  MemoryKind memory = MemoryKind::Device;
  bool trainable = false;
  bool checkpointed = false;
  bool decays = false;    ///< Weight decay applies.
  /// Parameters: where their elements stand in the weight files, and so in
  /// checkpoints, also of the states that belong to them.
  std::vector<Piece> sources;
  Init init;
  int64_t numElements() const;
  int64_t numBytes() const { return numElements() * byteSize(type); }
};

/// What a step program is for.
enum class ProgramKind { Train, Eval, Generate };
const char *programName(ProgramKind kind);
std::optional<ProgramKind> parseProgramKind(const std::string &name);

/// What a port means: as NN_PortRole, where the names stand.
enum class PortRole {
  Ids,
  Labels,
  LabelWeights,
  Positions,
  Segments,
  Lengths,
  Position,
  Rng,
  MicroBatch,
  LearningRate,
  Losses,
  Loss,
  LossWeight,
  GradNorm,
  Logits,
  Value
};
const char *portRoleName(PortRole role);
std::optional<PortRole> parsePortRole(const std::string &name);
/// Whether such an input holds a part of the batch.
bool isOfBatch(PortRole role);

/// A value that the runtime writes before a step or reads after it. It lives in
/// the program's frame, outside every command's frame.
struct Port {
  PortRole role = PortRole::Value;
  std::string name; ///< Its key in files and messages.
  DType type = DType::F32;
  std::vector<int64_t> shape; ///< Of this rank's part.
  Placement placement;
  Ref ref;
};

/// One step program: what `train`, `eval` or `generate` runs.
struct Program {
  ProgramKind kind = ProgramKind::Train;
  int64_t sequence = 0;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  double flops = 0; ///< Model FLOPs of one run: no recomputation counted.
};

/// Named learning-rate schedule with DeepSpeed's meanings, and its parameters.
struct Scheduler {
  std::string type; ///< Empty: constant.
  nlohmann::json params = nlohmann::json::object();
};

struct Optimizer {
  std::string type = "AdamW";
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weightDecay = 0;
  bool decoupled = true;
  double gradientClipping = 0; ///< 0: off.
};

/// Who owns how many bytes.
struct Owner {
  std::string name; ///< parameters, gradients, optimizer, activations, ...
  int64_t bytes = 0;
};

struct Memory {
  PerMemory<int64_t> persistentBytes; ///< Rounded up to pages, as it is mapped.
  PerMemory<int64_t> arenaBytes;      ///< Rounded up to pages, as it is mapped.
  int64_t peakBytes(MemoryKind kind) const {
    return persistentBytes[kind] + arenaBytes[kind];
  }
  /// Of all kinds together.
  int64_t peakBytes() const {
    return persistentBytes.total() + arenaBytes.total();
  }
  int64_t scratchOffset = 0; ///< Of the threads' scratch in the device's arena.
  int64_t scratchBytesPerThread = 0;
  std::vector<Owner> owners; ///< Sums to peakBytes().
};

/// As `{"device": {"arena": 8192, "persistent": 4096}}`, for tools.
nlohmann::json kindsOf(const Memory &memory);

struct PhaseTime {
  std::string name;
  double seconds = 0;
};

/// Where the weights came from when the binary was compiled.
struct Weights {
  bool random = false;
  uint64_t seed = 0;
  std::string directory;  ///< Absolute.
  std::string headerHash; ///< Of the safetensors headers, hexadecimal.
};

/// How the ranks are arranged: rank = ((pipe D + data) S + seq) T + tensor.
struct Mesh {
  int64_t pipe = 1, data = 1, seq = 1, tensor = 1;
  int64_t ranks() const { return pipe * data * seq * tensor; }
  /// The size of the axis of that name; 1 for a name that is none.
  int64_t size(const std::string &axis) const;
  int64_t groupSize(const std::vector<std::string> &axes) const;
  /// The number of `rank` among those that differ from it along `axes` alone,
  /// counted major to minor.
  int64_t coordinate(int64_t rank, const std::vector<std::string> &axes) const;
  /// Those ranks, in that order.
  std::vector<int64_t> group(int64_t rank,
                             const std::vector<std::string> &axes) const;
  /// The rank that has number `index` in that group.
  int64_t member(int64_t rank, const std::vector<std::string> &axes,
                 int64_t index) const;
};

/// What the ranks of one pipeline stage have in common.
struct Stage {
  std::vector<State> states;
  std::vector<Sequence> sequences;
  std::vector<Program> programs;
  Memory memory;
  std::vector<int64_t> kernelCalls; ///< Launches of each kernel per training
                                    ///< step, loops included.
};

/// The members of Stage are those of the stage that was selected last.
struct Plan : Stage {
  std::string version;
  std::string hash; ///< Of everything below but `phases`, hexadecimal.
  std::string family;
  nlohmann::json modelConfig; ///< config.json as it was read.
  int64_t vocabSize = 0, maxPositions = 0;
  int64_t parameters = 0;
  int64_t batch = 0, microBatch = 0, accumulate = 1, seq = 0;
  int64_t threads = 1; ///< At most so many may be used when it runs.
  std::string precision;
  std::string march;                 ///< The name the user gave.
  std::vector<std::string> features; ///< CPU features that must be there.
  std::string recompute;
  Weights weights;
  Optimizer optimizer;
  Scheduler scheduler;
  std::vector<Kernel> kernels;
  std::string kernelImageHash; ///< Of `.heddle.kernels`; empty: not checked.
  Mesh mesh;
  std::string collectives = "fixed"; ///< fixed, library
  /// One for each coordinate along `pipe`. Empty: the members of Stage alone
  /// are written, as the only one.
  std::vector<Stage> stages;
  std::vector<PhaseTime> phases;
  /// The rest of the strategy, for `explain` (mesh, zero, schedule ...).
  nlohmann::json strategy = nlohmann::json::object();

  const Program *findProgram(ProgramKind kind) const;
  /// Makes the members of Stage those of `stages[index]`.
  void selectStage(int64_t index);
};

void to_json(nlohmann::json &json, const Plan &plan);
/// Throws nlohmann::json::exception when a key is missing or has another type.
void from_json(const nlohmann::json &json, Plan &plan);

/// XXH3-128 of the bytes, hexadecimal.
std::string hashBytes(const void *data, size_t size);

/// The hash that `Plan::hash` holds: of the canonical JSON, without the hash
/// itself and the phases' times.
std::string computeHash(const Plan &plan);

/// Sets the plan's hash; returns the plan as JSON.
std::string seal(Plan &plan);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_PLAN_H
