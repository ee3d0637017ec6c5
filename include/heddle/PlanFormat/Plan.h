//===- Plan.h - The plan that a compiled binary carries ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the compiler hands to the runtime: every byte of memory, every command
// of every step program, and what is needed to read data, weights and
// checkpoints. It is stored as JSON in the section `.heddle.plan` of the
// binary; the kernels stand beside it in `.heddle.kernels`: for a CPU the image
// of an ELF shared object, for a GPU a PtxImage. No LLVM header may be included
// here.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_PLAN_H
#define HEDDLE_PLANFORMAT_PLAN_H

#include "heddle/PlanFormat/Command.h"
#include "heddle/PlanFormat/LearningRate.h"
#include "heddle/PlanFormat/Mesh.h"
#include "heddle/PlanFormat/PackedWeight.h"
#include "heddle/PlanFormat/WeightSlice.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace heddle::plan {

/// Names of the ELF sections that the compiler adds to the runtime: two for
/// each target, the second one's with `.1` behind them, and so on.
std::string planSectionName(size_t target = 0);
std::string kernelSectionName(size_t target = 0);

/// Of the JSON: raised with every change of what stands there. A reader takes
/// its own format alone; binaries bring their reader along.
inline constexpr int64_t formatVersion = 18;

/// A launch of a GPU's function over a grid of blocks of threads.
struct GridLaunch {
  std::string symbol;
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<int64_t, 3> block = {1, 1, 1};
  std::array<int64_t, 3> cluster = {1, 1, 1}; ///< Blocks beside each other.
  int64_t sharedBytes = 0; ///< Of a block, beyond what the function declares.
};

/// What becomes of a product's sums.
enum class ProductEnd { Plain, GeluTanh, GeluTanhGrad };
template <>
inline constexpr std::array enumNames<ProductEnd> = {"plain", "gelu_tanh",
                                                     "gelu_tanh_grad"};

/// A call of cuBLASLt that computes what a kernel does: a is [m, k], or stored
/// as [k, m], and b [k, n] or stored as [n, k], by rows. To the sums are added
/// `bias`, a row, and `c`, a matrix. With GeluTanh d has the function of that,
/// and `aux` that itself; with GeluTanhGrad it is multiplied by the function's
/// derivative at `aux`. `sumA` gets the sums of a over k, `sumB` those of b.
struct LibraryProduct {
  int64_t m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  DType type = DType::F32;   ///< Of a and b.
  DType result = DType::F32; ///< Of all others.
  /// Which of the kernel's `refs` they are; -1: none.
  int64_t a = 0, b = 0, c = -1, bias = -1, d = 0, aux = -1, sumA = -1,
          sumB = -1;
  /// Elements from the begin of a row to that of the next; 0: no gaps.
  int64_t pitchA = 0, pitchB = 0, pitchC = 0, pitchD = 0, pitchAux = 0;
  ProductEnd end = ProductEnd::Plain;
  bool tf32 = false;          ///< Factors of f32 may be rounded to tf32.
  int64_t workspaceBytes = 0; ///< At the beginning of the scratch memory.
};

/// A compiled kernel. For CPUs:
///   void symbol(void *const *refs, const int64_t *scalars,
///               int64_t thread, int64_t threads, void *scratch,
///               int64_t *taken);
/// `scratch` is `scratchBytes` long for each thread, 64-byte aligned, and taken
/// from the arena. Every thread of the pool calls it once per launch. `taken`,
/// which they share, is 0 when a launch begins: the pieces of work that they
/// have taken, whoever came first.
///
/// For GPUs: the functions of `launches`, launched one after the other. Each
/// takes the addresses of `refs`, then that of `scratchBytes` bytes (if there
/// are some), 256-byte aligned, then the scalars as 64-bit integers.
struct Kernel {
  std::string name;      ///< Also its symbol.
  std::string ops;       ///< The operations it computes, for people.
  std::string hash;      ///< Of its body and target.
  double flops = 0;      ///< Per launch.
  double modelFlops = 0; ///< Those of products and attention.
  double bytes = 0;      ///< Read and written per launch.
  /// Of attention that reads a cache: positions that a token sees; 0: all.
  int64_t window = 0;
  int64_t scratchBytes = 0;
  std::vector<GridLaunch> launches;
  int64_t text = 0; ///< Which one of a PtxImage holds the functions.
  std::vector<LibraryProduct> library; ///< At most one: in place of launches.
  /// Of a GPU's plan: the cores beside the GPU run it, as for CPUs, and its
  /// code is in the image of the host.
  bool onHost = false;

  /// The scratch memory that it may take, in whichever way it is computed.
  int64_t mostScratchBytes() const {
    return library.empty() ? scratchBytes
                           : std::max(scratchBytes, library[0].workspaceBytes);
  }
};

/// How a state gets its first value when no weights are loaded.
struct Init {
  enum class Kind { Zeros, Constant, Normal, Power } kind = Kind::Zeros;
  /// Constant: the value; Normal: the mean; Power: what is raised to the number
  /// of updates so far.
  double value = 0;
  double stddev = 0;    ///< Normal.
  int64_t zeroRow = -1; ///< Of the whole tensor: zero whatever the kind.
};
template <>
inline constexpr std::array enumNames<Init::Kind> = {"zeros", "constant",
                                                     "normal", "power"};

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

/// What a state is to its model: as NN_StateRole.
enum class StateRole {
  Parameter,
  Derived,
  Gradient,
  Optimizer,
  Accumulator,
  Scalar,
  Saved,
  Cache
};
template <>
inline constexpr std::array enumNames<StateRole> = {
    "parameter",   "derived", "gradient", "optimizer",
    "accumulator", "scalar",  "saved",    "cache"};

template <>
inline constexpr std::array enumNames<PackedPart> = {"words", "scales",
                                                     "zeros"};

/// A tensor that lives across steps: parameter, moment, gradient, ...
struct State {
  std::string name; ///< Module path, as `h.0.attn.c_attn.weight`.
  StateRole role = StateRole::Parameter;
  std::string parameter; ///< For the others: the parameter they belong to.
  DType type = DType::F32;
  std::vector<int64_t> shape; ///< Of this rank's part (but for flat axes).
  Placement placement;
  int64_t offset = 0; ///< In the persistent region, in bytes; with flat axes,
                      ///< where this rank's run of the flat tensor begins.
  MemoryKind memory = MemoryKind::Device;
  bool trainable = false;
  bool checkpointed = false;
  bool decays = false; ///< Weight decay applies.
  /// Parameters: where their elements stand in the weight files, and so in
  /// checkpoints, also of the states that belong to them.
  std::vector<WeightSlice> sources;
  Init init;
  /// At most one, of a derived state: `placement`, `sources` and `init` are
  /// then those of the weight that it is made of.
  std::vector<PackedWeight> packed;
  /// Whether it is derived by a cast of its parameter alone.
  bool isCopy() const { return role == StateRole::Derived && packed.empty(); }
  int64_t numElements() const;
  int64_t numBytes() const { return numElements() * byteSize(type); }
};

/// What a step program is for.
enum class ProgramKind {
  Train,
  Eval,
  Generate,
  Prefill,
  Score,
  Decode,
  Encode
};
template <>
inline constexpr std::array enumNames<ProgramKind> = {
    "train", "eval", "generate", "prefill", "score", "decode", "encode"};

/// What a port means: as NN_PortRole.
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
  Value,
  Pages,
  Hidden
};
template <>
inline constexpr std::array enumNames<PortRole> = {
    "ids",     "labels",   "label_weights", "positions",   "segments",
    "lengths", "position", "rng",           "micro_batch", "lr",
    "losses",  "loss",     "loss_weight",   "grad_norm",   "logits",
    "value",   "pages",    "hidden"};
/// Whether such an input holds a part of the batch.
bool isOfBatch(PortRole role);

/// What the labels of a batch of tokens are: as NN_Objective.
enum class Objective {
  NextToken,   ///< Each token's is the one that follows.
  MaskedToken, ///< Some are masked, and are the labels at their places.
};
template <>
inline constexpr std::array enumNames<Objective> = {"causal", "mlm"};

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
  std::string name; ///< As `train`, or with its size `decode/8`.
  int64_t sequence = 0;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  double flops = 0; ///< Model FLOPs of one run: no recomputation counted.
};

/// Positions of a text that one page of the cache holds.
inline constexpr int64_t cachePageTokens = 16;

/// The cache that a binary's texts go through; all 0 where they have none.
struct Serving {
  int64_t maxBatch = 0;   ///< Texts that a group of ranks continues together.
  int64_t maxContext = 0; ///< Tokens of a text, with its prompt.
  /// Of a group's cache, each of cachePageTokens positions.
  int64_t pages = 0;
  /// Positions that a token sees in every layer, its own counted; 0: all.
  int64_t window = 0;
};

struct Optimizer {
  std::string type = "AdamW";
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weightDecay = 0;
  bool decoupled = true;
  double gradientClipping = 0; ///< 0: off.
};

/// What runs a plan's kernels.
enum class DeviceKind { Cpu, Cuda };
template <> inline constexpr std::array enumNames<DeviceKind> = {"cpu", "cuda"};

/// Who owns how many bytes.
struct Owner {
  std::string name; ///< parameters, gradients, optimizer, activations, ...
  int64_t bytes = 0;
};

struct Memory {
  PerMemory<int64_t> persistentBytes; ///< Rounded up to pages, as it is mapped.
  PerMemory<int64_t> arenaBytes;      ///< Rounded up to pages, as it is mapped.
  PerFile<int64_t> fileBytes; ///< Whole pages; what is persistent on file.
  /// Pinned memory that is neither: a GPU's copies go through it.
  int64_t stagingBytes = 0;
  int64_t peakBytes(MemoryKind kind) const {
    return persistentBytes[kind] + arenaBytes[kind] +
           (kind == MemoryKind::Pinned ? stagingBytes : 0);
  }
  /// Of all kinds but file.
  int64_t peakBytes() const {
    return persistentBytes.inMemory() + arenaBytes.inMemory() + stagingBytes;
  }
  int64_t scratchOffset = 0;         ///< Of the scratch in the device's arena.
  int64_t scratchBytesPerThread = 0; ///< On a GPU: of a launch.
  std::vector<Owner> owners;         ///< Of all kinds.
};

/// As `{"device": {"arena": 8192, "persistent": 4096}}`, for tools.
nlohmann::json kindsOf(const Memory &memory);

/// The bytes of each file, as `{"optimizer": 8192}`.
nlohmann::json filesOf(const Memory &memory);

/// Where the weights came from when the binary was compiled.
struct Weights {
  bool random = false;
  uint64_t seed = 0;
  /// Absolute; of random weights where the tokenizer is, if there is one.
  std::string directory;
  std::string headerHash; ///< Of the safetensors headers, hexadecimal.
  /// Tensors with orders of inputs (io::openModelWeights) that are not read,
  /// since they are as the one that is named here is; "": as inputs stand.
  std::map<std::string, std::string> orders;
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
  int64_t segments = 0; ///< How many a row may have; 0: not known.
  Objective objective = Objective::NextToken;
  int64_t maskToken = -1;             ///< -1: not known.
  std::vector<int64_t> specialTokens; ///< That are known; never masked.
  int64_t parameters = 0;
  int64_t batch = 0, microBatch = 0, accumulate = 1, seq = 0;
  int64_t threads = 1; ///< At most so many may be used when it runs.
  std::string precision;
  DeviceKind device = DeviceKind::Cpu;
  std::string target = "x86-64"; ///< What the kernels are for; a GPU's chip.
  std::string march;             ///< Of CPUs; the name the user gave.
  std::vector<std::string> features; ///< CPU features that must be there.
  std::string recompute;
  std::string swapDir; ///< Of these files, as io::OffloadDirectories reads it;
                       ///< empty: none was given.
  int64_t swapBlockBytes = 1 << 20; ///< Of a request to these files, at most.
  int64_t swapQueueDepth = 16;      ///< Requests under way at a time.
  Weights weights;
  Optimizer optimizer;
  Scheduler scheduler;
  Serving serving;
  std::vector<Kernel> kernels;
  std::string kernelImageHash; ///< Of `.heddle.kernels`; empty: not checked.
  Mesh mesh;
  std::string collectives = "fixed"; ///< fixed, library
  std::string gemm = "auto";         ///< auto, library, generated
  /// One for each coordinate along `pipe`. Empty: the members of Stage alone
  /// are written, as the only one.
  std::vector<Stage> stages;
  /// The phases that made the plan. No times: equal compilations give equal
  /// binaries.
  std::vector<std::string> phases;
  /// The rest of the strategy, for `explain` (mesh, zero, schedule ...).
  nlohmann::json strategy = nlohmann::json::object();

  /// The first of that kind, or null.
  const Program *findProgram(ProgramKind kind) const;
  /// How many parts the scratch memory has: a GPU's launch has it as a whole.
  int64_t scratchUsers() const {
    return device == DeviceKind::Cpu ? threads : 1;
  }
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
