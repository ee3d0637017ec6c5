//===- Plan.h - The plan that a compiled binary carries ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan: what the compiler hands to the runtime. It has the layout of all
// memory, every command of every step program, and what is needed to read data,
// weights and checkpoints. It is JSON in the binary's section `.heddle.plan`.
// The section `.heddle.kernels` has the kernels: for a CPU the image of an ELF
// shared object, for a GPU a PtxImage. No LLVM header may be included here.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_PLAN_H
#define HEDDLE_PLANFORMAT_PLAN_H

#include "heddle/PlanFormat/Command.h"
#include "heddle/PlanFormat/Condition.h"
#include "heddle/PlanFormat/ExtendedTable.h"
#include "heddle/PlanFormat/LayoutBits.h"
#include "heddle/PlanFormat/LearningRate.h"
#include "heddle/PlanFormat/Mesh.h"
#include "heddle/PlanFormat/ModuleShare.h"
#include "heddle/PlanFormat/PackedWeight.h"
#include "heddle/PlanFormat/Phase.h"
#include "heddle/PlanFormat/Quantizer.h"
#include "heddle/PlanFormat/WeightSlice.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace heddle::plan {

/// Names of the two ELF sections that the compiler adds to the runtime for each
/// target. Those of the second target end in `.1`, and so on.
std::string planSectionName(size_t target = 0);
std::string kernelSectionName(size_t target = 0);

/// The version of the plan's JSON, which is raised with every change of the
/// JSON. A runtime reads plans of its own version only. This suffices, because
/// each binary contains a runtime that fits its plan.
inline constexpr int64_t formatVersion = 29;

/// A launch of a GPU function over a grid of thread blocks.
struct GridLaunch {
  std::string symbol;
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<int64_t, 3> block = {1, 1, 1};
  /// The number of thread blocks in a cluster.
  std::array<int64_t, 3> cluster = {1, 1, 1};
  int64_t sharedBytes = 0; ///< Bytes of dynamic shared memory of a block.
};

/// The epilogue of a matrix product.
enum class ProductEnd { Plain, GeluTanh, GeluTanhGrad };
template <>
inline constexpr std::array enumNames<ProductEnd> = {"plain", "gelu_tanh",
                                                     "gelu_tanh_grad"};

/// A matrix product that cuBLASLt computes in place of a kernel. a is [m, k],
/// or stored as [k, m]; b is [k, n], or stored as [n, k]; both row-major.
/// `bias` (a row) and `c` (a matrix) are added to the product. With GeluTanh, d
/// is the gelu of the sum and `aux` the sum itself. With GeluTanhGrad, d is the
/// sum times gelu's derivative at `aux`. `sumA` gets the sums of a over k,
/// `sumB` those of b.
struct LibraryProduct {
  int64_t m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  DType type = DType::F32;   ///< Type of a and b.
  DType result = DType::F32; ///< Type of all other operands.
  /// Indices into `refs`, the addresses of the kernel's operands; -1: none.
  int64_t a = 0, b = 0, c = -1, bias = -1, d = 0, aux = -1, sumA = -1,
          sumB = -1;
  /// Leading dimensions: elements between the beginnings of two rows; 0: no
  /// padding.
  int64_t lda = 0, ldb = 0, ldc = 0, ldd = 0, ldaux = 0;
  ProductEnd end = ProductEnd::Plain;
  bool tf32 = false; ///< Whether f32 operands may be rounded to tf32.
  /// Bytes of workspace, at the beginning of the kernel's scratch memory.
  int64_t workspaceBytes = 0;
};

/// A compiled kernel. For CPUs:
///   void symbol(void *const *refs, const int64_t *scalars,
///               int64_t thread, int64_t threads, void *scratch,
///               int64_t *taken);
/// Every thread of the pool calls the symbol once per launch. `scratch` is the
/// thread's part of the arena: `scratchBytes` bytes, 64-byte aligned. `taken`
/// is shared by the threads and 0 when a launch begins. Threads take the pieces
/// of a launch's work one after the other, and `taken` counts the taken pieces.
///
/// For GPUs: the functions of `launches`, launched one after the other. The
/// parameters of each function are the addresses of `refs`, then the address of
/// `scratchBytes` bytes, 256-byte aligned (only if `scratchBytes` is not 0),
/// and then the scalars as 64-bit integers.
struct Kernel {
  std::string name;      ///< The kernel's name, which is also its symbol.
  std::string ops;       ///< Names of the kernel's operations, for people.
  std::string hash;      ///< Hash of the kernel's body and target.
  double flops = 0;      ///< Floating-point operations per launch.
  double modelFlops = 0; ///< The part of `flops` of products and attention.
  /// What `modelFlops` would be if no layout left out blocks of attention.
  double denseFlops = 0;
  double bytes = 0;      ///< Bytes read and written per launch.
  /// For attention with a cache: the number of positions that a token attends
  /// to; 0: all.
  int64_t window = 0;
  int64_t scratchBytes = 0;
  std::vector<GridLaunch> launches;
  /// For a GPU: the index of the kernel's PTX text in the PtxImage.
  int64_t text = 0;
  /// Empty, or one matrix product that a library computes in place of
  /// `launches`.
  std::vector<LibraryProduct> library;
  /// In a GPU's plan: whether the kernel runs on the host's cores, as CPU
  /// kernels do. The code of such a kernel is in PtxImage::host.
  bool onHost = false;
  /// Whether the kernel updates parameters or states of the optimizer, or only
  /// computes what updates need, such as the norm of the gradients.
  bool updates = false;
  /// The kernel's work by module. There is at least one share, and the sums
  /// over the shares are the kernel's `flops`, `modelFlops` and `bytes`.
  std::vector<ModuleShare> shares;

  /// The scratch memory in bytes that suffices both for the compiled kernel and
  /// for the library's matrix product.
  int64_t mostScratchBytes() const {
    return library.empty() ? scratchBytes
                           : std::max(scratchBytes, library[0].workspaceBytes);
  }
};

/// The initial value of a state when no weights are loaded.
struct Init {
  enum class Kind { Zeros, Constant, Normal, Power } kind = Kind::Zeros;
  /// The parameter of the initialization. Constant: the value itself. Normal:
  /// the mean. Power: the base; the exponent is the number of updates so far.
  double value = 0;
  double stddev = 0; ///< Normal: the standard deviation.
  /// The index, in the whole tensor, of a row that is filled with zeros, such
  /// as the embedding of the padding token; -1: none.
  int64_t zeroRow = -1;
};
template <>
inline constexpr std::array enumNames<Init::Kind> = {"zeros", "constant",
                                                     "normal", "power"};

/// The elements of a constant tensor, row by row. The plan's text has eight
/// hexadecimal digits for each.
struct ConstantValue {
  std::vector<int32_t> elements;
};

/// Which part of a whole tensor a rank holds.
struct Placement {
  /// The shape of the whole tensor; empty if the rank holds the whole tensor.
  std::vector<int64_t> whole;
  /// For each dimension the axes that split it. Each rank has ceil(size / n)
  /// indices of the dimension, where n is the number of ranks along the axes.
  /// Indices of the last ranks that are beyond the size are padding.
  std::vector<std::vector<std::string>> split;
  /// Segments of the last dimension. Each segment is split separately; empty:
  /// one segment.
  std::vector<int64_t> segments;
  /// Only if ZeRO splits the tensor: the axes along which it does. The part
  /// that `split` gives then lies in a bucket, a flat buffer of several
  /// tensors. It begins at element `flatFirst` of the bucket, and the bucket
  /// has `flatElements` elements. Each rank along `flatAxes` holds
  /// ceil(flatElements / ranks) consecutive elements of the bucket. They may
  /// include none of this tensor.
  std::vector<std::string> flatAxes;
  int64_t flatFirst = 0;
  int64_t flatElements = 0;
};

/// What a state is used for. The nn dialect has the same values in
/// NN_StateRole.
enum class StateRole {
  Parameter,
  Derived,
  Gradient,
  Optimizer,
  Accumulator,
  Scalar,
  Saved,
  Cache,
  Constant
};
template <>
inline constexpr std::array enumNames<StateRole> = {
    "parameter", "derived", "gradient", "optimizer", "accumulator",
    "scalar",    "saved",   "cache",    "constant"};

template <>
inline constexpr std::array enumNames<PackedPart> = {"words", "scales",
                                                     "zeros"};
template <>
inline constexpr std::array enumNames<PackedLayout> = {"panels", "fragments"};

/// A tensor that lives across steps: a parameter, moment, gradient or cache.
struct State {
  std::string name; ///< Module path, such as `h.0.attn.c_attn.weight`.
  StateRole role = StateRole::Parameter;
  /// The parameter that a moment or gradient belongs to.
  std::string parameter;
  DType type = DType::F32;
  /// The shape of the part of the tensor that `placement.split` gives to this
  /// rank. If ZeRO splits the tensor's bucket over `placement.flatAxes`, the
  /// rank holds only a range of this part.
  std::vector<int64_t> shape;
  Placement placement;
  /// The offset in bytes in the persistent region. If ZeRO splits the tensor's
  /// bucket, this is the offset of the range of the bucket that the rank holds.
  int64_t offset = 0;
  MemoryKind memory = MemoryKind::Device;
  bool trainable = false;
  bool checkpointed = false;
  bool decays = false; ///< Whether weight decay applies.
  /// For parameters: the tensors in weight files from which the parameter is
  /// loaded. Checkpoints store parameters, and the states that belong to them,
  /// in the layout of these tensors.
  std::vector<WeightSlice> sources;
  Init init;
  ConstantValue value; ///< Has elements only if the role is `Constant`.
  /// One entry if the state is a packed weight: derived from a weight when
  /// weights are loaded, and in the layout that kernels read. `placement`,
  /// `sources` and `init` then describe that weight. Empty for other states.
  std::vector<PackedWeight> packed;
  /// One entry if the state is a copy of its parameter that is quantized before
  /// it is cast. Empty for other states.
  std::vector<Quantizer> quantizer;
  /// Whether the state is a copy of its parameter in another element type.
  bool isCopy() const { return role == StateRole::Derived && packed.empty(); }
  /// The bits of a constant that is a layout of attention.
  LayoutBits layoutBits() const {
    return {shape.at(0), shape.at(1), value.elements};
  }
  int64_t numElements() const;
  int64_t numBytes() const { return numElements() * byteSize(type); }
};

/// The kinds of step programs.
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

/// What an input or output of a step program means to the runtime. The nn
/// dialect has the same values in NN_PortRole.
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
  Hidden,
  LayerScales,
  TakenRate
};
template <>
inline constexpr std::array enumNames<PortRole> = {
    "ids",     "labels",   "label_weights", "positions",    "segments",
    "lengths", "position", "rng",           "micro_batch",  "lr",
    "losses",  "loss",     "loss_weight",   "grad_norm",    "logits",
    "value",   "pages",    "hidden",        "layer_scales", "taken_lr"};
/// Whether an input with this role is a part of the batch.
bool isOfBatch(PortRole role);

/// What the labels of a batch are. The nn dialect has the same values in
/// NN_Objective.
enum class Objective {
  NextToken, ///< A token's label is the token after it.
  /// Some input tokens are masked. Their labels are the tokens before masking.
  MaskedToken,
};
template <>
inline constexpr std::array enumNames<Objective> = {"causal", "mlm"};

/// A value that the runtime writes before a step or reads after it. The value
/// is in the program's frame (its temporary memory), in a range that no frame
/// of the program's commands overlaps.
struct Port {
  PortRole role = PortRole::Value;
  std::string name; ///< The key in files and messages.
  DType type = DType::F32;
  std::vector<int64_t> shape; ///< Shape of this rank's part.
  Placement placement;
  Ref ref;
};

/// A step program: what `train`, `eval` or `generate` runs.
struct Program {
  ProgramKind kind = ProgramKind::Train;
  /// Such as `train`, or with its size or phase: `decode/8`, `train/late`.
  std::string name;
  int64_t sequence = 0;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  double flops = 0; ///< Model FLOPs of one run, without recomputation.
  Phase phase{};    ///< Of a train program.
};

/// The number of positions in a page of the key-value cache.
inline constexpr int64_t cachePageTokens = 16;

/// The limits of a serving binary's key-value cache. All are 0 if the binary
/// has no cache.
struct Serving {
  /// The most sequences that a group of ranks generates at a time. The ranks of
  /// a group share one copy of the weights.
  int64_t maxBatch = 0;
  int64_t maxContext = 0; ///< The most tokens of a sequence, prompt included.
  /// The number of pages of the cache of each group of ranks that share one
  /// copy of the weights.
  int64_t pages = 0;
  /// The longest attention window of all layers: a token attends to at most so
  /// many positions, of which its own is the last. 0 if a layer has no window.
  int64_t window = 0;
};

struct Optimizer {
  std::string type = "AdamW";
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weightDecay = 0;
  bool decoupled = true;
  /// The norm to which larger gradients are scaled down; 0: no clipping.
  double gradientClipping = 0;
};

/// The kind of device that runs a plan's kernels.
enum class DeviceKind { Cpu, Cuda };
template <> inline constexpr std::array enumNames<DeviceKind> = {"cpu", "cuda"};

/// A use of memory, such as activations, and the number of bytes that it needs.
struct Owner {
  /// The use, such as "parameters", "gradients", "optimizer" or "activations".
  std::string name;
  int64_t bytes = 0;
};

struct Memory {
  /// Bytes of the persistent region, which holds states, rounded up to pages.
  PerMemory<int64_t> persistentBytes;
  /// Bytes of the arena, which holds activations and all other values that are
  /// not states, rounded up to pages.
  PerMemory<int64_t> arenaBytes;
  /// Bytes of each offload file, in whole pages. Together they are the
  /// persistent memory of the kind File.
  PerFile<int64_t> fileBytes;
  /// The bytes of the pinned buffers through which a GPU copies. They are not
  /// included in `persistentBytes` and `arenaBytes`.
  int64_t stagingBytes = 0;
  int64_t peakBytes(MemoryKind kind) const {
    return persistentBytes[kind] + arenaBytes[kind] +
           (kind == MemoryKind::Pinned ? stagingBytes : 0);
  }
  /// The most bytes that are in use at a time, over all kinds of memory except
  /// File.
  int64_t peakBytes() const {
    return persistentBytes.inMemory() + arenaBytes.inMemory() + stagingBytes;
  }
  /// The offset in the device's arena at which the scratch memory begins.
  int64_t scratchOffset = 0;
  /// Bytes of scratch memory for each thread of a CPU; on a GPU for a launch.
  int64_t scratchBytesPerThread = 0;
  std::vector<Owner> owners; ///< The uses of memory, over all kinds of memory.
};

/// Bytes by kind of memory, for tools: `{"device": {"arena": 8192,
/// "persistent": 4096}}`.
nlohmann::json kindsOf(const Memory &memory);

/// Bytes of each offload file: `{"optimizer": 8192}`.
nlohmann::json filesOf(const Memory &memory);

/// Layers whose attention computes the blocks of one layout.
struct LayoutUse {
  std::string state;               ///< The constant that holds the layout.
  int64_t block = 0;               ///< Positions in a block.
  std::vector<std::string> layers; ///< Paths, such as `h.0`.
};

/// The source of the weights when the binary was compiled.
struct Weights {
  bool random = false;
  uint64_t seed = 0;
  /// The absolute path of the directory of the weights. With random weights,
  /// the directory of the tokenizer, if there is one.
  std::string directory;
  std::string headerHash; ///< Hash of the safetensors headers, hexadecimal.
  /// The permutations of inputs (GPTQ's g_idx) that the plan assumes. The key
  /// names the tensor with a permutation. The value names another tensor that
  /// must have the same permutation; "" means that the permutation must be the
  /// identity. The runtime only checks this.
  std::map<std::string, std::string> orders;
  std::vector<LayoutUse> layouts; ///< Layouts of block-sparse attention.
  ExtendedTable extended; ///< The table of positions that loading extends.
};

/// The part of a plan that the ranks of one pipeline stage share.
struct Stage {
  /// The conditions of the stage's commands. Conditions of the same name are
  /// equal in all stages.
  std::vector<Condition> conditions;
  std::vector<State> states;
  std::vector<Sequence> sequences;
  std::vector<Program> programs;
  Memory memory;
  /// How often a training step launches each kernel. A kernel in a loop counts
  /// once for each iteration. If there are several train programs, this is the
  /// number of the program that launches the kernel most often.
  std::vector<int64_t> kernelCalls;
};

/// A plan. Its members inherited from Stage are those of the selected stage.
struct Plan : Stage {
  std::string version;
  std::string hash; ///< Hash of everything below except `phases`, hexadecimal.
  std::string family;
  nlohmann::json modelConfig; ///< The contents of config.json.
  int64_t vocabSize = 0, maxPositions = 0;
  /// The number of token types (segments) that a row may have; 0: not known.
  int64_t segments = 0;
  Objective objective = Objective::NextToken;
  int64_t maskToken = -1; ///< The id of the mask token; -1: not known.
  /// The ids of the special tokens that config.json and the tokenizer name.
  /// Masked language modeling does not predict or replace these tokens.
  std::vector<int64_t> specialTokens;
  int64_t parameters = 0;
  int64_t batch = 0, microBatch = 0, accumulate = 1, seq = 0;
  int64_t threads = 1; ///< The most threads that a run may use.
  std::string precision;
  DeviceKind device = DeviceKind::Cpu;
  /// The target of the kernels; for a GPU its chip.
  std::string target = "x86-64";
  std::string march; ///< For a CPU: the name of the target that the user gave.
  /// CPU features that the machine must have.
  std::vector<std::string> features;
  std::string recompute;
  /// Directories of the offload files, in the format that
  /// io::OffloadDirectories parses. Empty if the user gave none.
  std::string swapDir;
  /// The most bytes that one request reads from or writes to an offload file.
  int64_t swapBlockBytes = 1 << 20;
  /// How many requests to offload files may run at a time.
  int64_t swapQueueDepth = 16;
  Weights weights;
  Optimizer optimizer;
  Scheduler scheduler;
  Serving serving;
  std::vector<Kernel> kernels;
  /// The hash of the section `.heddle.kernels`; if empty, the section is not
  /// checked.
  std::string kernelImageHash;
  Mesh mesh;
  /// The algorithms of collectives: "fixed" (reductions add in a fixed order)
  /// or "library" (those of MPI or NCCL).
  std::string collectives = "fixed";
  /// What computes matrix products: "auto", "library" or "generated".
  std::string gemm = "auto";
  /// The pipeline stages: one for each coordinate along `pipe`. If the list is
  /// empty, the members that the plan inherits from Stage describe its only
  /// stage, and the JSON text lists that stage.
  std::vector<Stage> stages;
  /// The names of the phases that made the plan. Times of phases are not
  /// written, so that equal compilations give equal binaries.
  std::vector<std::string> phases;
  /// The settings of the compilation that no other member has (mesh, zero,
  /// schedule ...), for `explain`.
  nlohmann::json strategy = nlohmann::json::object();

  /// The first program of this kind, or null.
  const Program *findProgram(ProgramKind kind) const;
  /// The constant with this name, in whichever stage has it, or null.
  const State *findConstant(const std::string &name) const;
  /// The selected stage's train programs, in the order of their phases. The
  /// list is empty if the plan does not train.
  std::vector<const Program *> trainPrograms() const;
  /// The number of blocks of scratch memory: on a CPU one for each thread, on a
  /// GPU a single one for the running launch.
  int64_t scratchUsers() const {
    return device == DeviceKind::Cpu ? threads : 1;
  }
  /// Selects a stage: copies `stages[index]` to the members inherited from
  /// Stage.
  void selectStage(int64_t index);
};

void to_json(nlohmann::json &json, const Plan &plan);
/// Throws nlohmann::json::exception when a key is missing or has another type.
void from_json(const nlohmann::json &json, Plan &plan);

/// XXH3-128 of the bytes, hexadecimal.
std::string hashBytes(const void *data, size_t size);

/// Computes `Plan::hash`: the hash of the canonical JSON without `hash` and
/// `phases`.
std::string computeHash(const Plan &plan);

/// Sets the plan's hash; returns the plan as JSON.
std::string seal(Plan &plan);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_PLAN_H
