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

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace heddle::plan {

/// Names of the ELF sections that the compiler adds to the runtime.
inline constexpr const char *planSectionName = ".heddle.plan";
inline constexpr const char *kernelSectionName = ".heddle.kernels";

/// Element types, named as safetensors names them in `dtypeName`.
enum class DType { F32, BF16, F16, I32, I64, U8 };
int64_t byteSize(DType type);
const char *dtypeName(DType type);
std::optional<DType> parseDType(const std::string &name);

/// The memory that a `Ref` counts from.
enum class Space {
  Persistent, ///< States: one allocation that lives as long as the process.
  Frame,      ///< The running sequence's own frame in the arena.
  Arg,        ///< An argument of the running sequence: `index` says which.
};

/// The address of a command's operand: a base, a byte offset, and a byte
/// stride for each iteration of the innermost enclosing loop.
struct Ref {
  Space space = Space::Frame;
  int64_t index = 0;  ///< Only for Space::Arg.
  int64_t offset = 0; ///< In bytes.
  int64_t stride = 0; ///< In bytes per iteration of the enclosing loop.
  int64_t bytes = 0;  ///< Bytes reachable through this operand.
};

/// A launch's integer operand: a constant, an integer argument of the
/// sequence, or the iteration number of the innermost enclosing loop.
struct Scalar {
  enum class Kind { Constant, Arg, LoopIndex } kind = Kind::Constant;
  int64_t value = 0; ///< The constant, or the number of the scalar argument.
};

struct Command {
  enum class Kind {
    Launch, ///< Run kernel `target` on every thread of the pool.
    Call,   ///< Run sequence `target`; its frame stands at `frameOffset`.
    Loop,   ///< Run sequence `target` `count` times in the same frame; its
            ///< refs advance by their strides, its loop index is 0..count-1.
    Copy,   ///< refs[0] <- refs[1], refs[0].bytes bytes.
    Fill,   ///< refs[0] <- zero, refs[0].bytes bytes.
  } kind = Kind::Launch;
  int64_t target = 0;
  std::vector<Ref> refs;
  std::vector<Scalar> scalars;
  int64_t frameOffset = 0; ///< Call, Loop: within the caller's frame.
  int64_t count = 0;       ///< Loop.
  std::string path;        ///< Module path, as `h.3`, for traces and errors.
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
  std::string name;  ///< Also its symbol.
  std::string ops;   ///< The operations it computes, for people.
  std::string hash;  ///< Of its body and target.
  double flops = 0;  ///< Per launch.
  double bytes = 0;  ///< Read and written per launch.
  int64_t calls = 0; ///< Launches per training step, loops included.
  int64_t scratchBytes = 0;
};

/// How a state gets its first value when no weights are loaded.
struct Init {
  enum class Kind { Zeros, Constant, Normal } kind = Kind::Zeros;
  double value = 0;  ///< Constant: the value; Normal: the mean.
  double stddev = 0; ///< Normal.
};

/// A tensor that lives across steps: parameter, moment, gradient, ...
struct State {
  std::string name;      ///< Module path, as `h.0.attn.c_attn.weight`.
  std::string role;      ///< parameter, compute-copy, gradient, exp_avg,
                         ///< exp_avg_sq, accumulator
  std::string parameter; ///< For the others: the parameter they belong to.
  DType type = DType::F32;
  std::vector<int64_t> shape;
  int64_t offset = 0; ///< In the persistent region.
  bool trainable = false;
  bool checkpointed = false;
  bool decays = false;    ///< Weight decay applies.
  std::string sourceName; ///< The tensor's name in the weight files.
  DType sourceType = DType::F32;
  Init init;
  int64_t numElements() const;
  int64_t numBytes() const { return numElements() * byteSize(type); }
};

/// A named value that the runtime writes before a step or reads after it. It
/// lives in the program's frame, outside every command's frame.
struct Port {
  std::string name; ///< Inputs: ids, labels, rng, lr, bias_correction1,
                    ///< bias_correction2, position. Outputs: loss, grad_norm,
                    ///< logits, value.<path>.
  DType type = DType::F32;
  std::vector<int64_t> shape;
  Ref ref;
};

/// One step program: what `train`, `eval` or `generate` runs.
struct Program {
  std::string kind; ///< train, eval or generate.
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
  int64_t persistentBytes = 0; ///< Rounded up to pages, as it is mapped.
  int64_t arenaBytes = 0;      ///< Rounded up to pages, as it is mapped.
  int64_t peakBytes() const { return persistentBytes + arenaBytes; }
  int64_t scratchOffset = 0; ///< Of the per-thread scratch in the arena.
  int64_t scratchBytesPerThread = 0;
  std::vector<Owner> owners; ///< Sums to peakBytes().
};

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

struct Plan {
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
  std::vector<State> states;
  std::vector<Kernel> kernels;
  std::string kernelImageHash; ///< Of `.heddle.kernels`; empty: not checked.
  std::vector<Sequence> sequences;
  std::vector<Program> programs;
  Memory memory;
  std::vector<PhaseTime> phases;
  /// The rest of the strategy, for `explain` (mesh, zero, schedule ...).
  nlohmann::json strategy = nlohmann::json::object();

  const Program *findProgram(const std::string &kind) const;
};

void to_json(nlohmann::json &json, const Plan &plan);
/// Throws nlohmann::json::exception when a key is missing or has another type.
void from_json(const nlohmann::json &json, Plan &plan);

/// XXH3-128 of the bytes, hexadecimal.
std::string hashBytes(const void *data, size_t size);

/// The hash that `Plan::hash` holds: of the canonical JSON, without the hash
/// itself and the phases' times.
std::string computeHash(const Plan &plan);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_PLAN_H
