//===- Settings.h - The settings of a compilation ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The settings that a compilation depends on: a field for each row of
// Settings.def. The settings are read from flags and from the user's files. The
// strategy attribute of a module stores them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_SETTINGS_H
#define HEDDLE_SETTINGS_SETTINGS_H

#include "heddle/runtime/io/OffloadDirectories.h"
#include "heddle/runtime/io/ValueRange.h"
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace heddle::config {

/// The words by which users name the values of an enum, in the order of the
/// values. The word "" marks the value that a setting has if the user leaves
/// the setting out. Users cannot name this value.
template <typename E> struct Words;

enum class Precision { FP32, BF16, FP16 };
template <> struct Words<Precision> {
  static constexpr std::array all = {"fp32", "bf16", "fp16"};
};

/// What runs kernels: an x86-64 processor, or a GPU of a compute capability.
enum class Target { X86_64, SM_80, SM_90 };
template <> struct Words<Target> {
  static constexpr std::array all = {"x86-64", "sm_80", "sm_90"};
};

/// The implementation of matrix products on a GPU.
enum class Gemm { Auto, Library, Generated };
template <> struct Words<Gemm> {
  static constexpr std::array all = {"auto", "library", "generated"};
};

/// The precision of fp32 matrix products on a GPU.
enum class Matmul { Ieee, Tf32 };
template <> struct Words<Matmul> {
  static constexpr std::array all = {"ieee", "tf32"};
};

/// The instruction set of an x86-64 processor.
enum class March { Native, V3, V4, AMX, AMXFP16 };
template <> struct Words<March> {
  static constexpr std::array all = {"native", "x86-64-v3", "x86-64-v4", "amx",
                                     "amx-fp16"};
};

/// The memory that a state is in.
enum class MemoryKind { Device, Host, Pinned, File };
template <> struct Words<MemoryKind> {
  static constexpr std::array all = {"device", "host", "pinned", "file"};
};

/// Which activations are computed again in the backward pass instead of saved.
enum class Recompute { None, Selective, Full };
template <> struct Words<Recompute> {
  static constexpr std::array all = {"none", "selective", "full"};
};

enum class PipelineSchedule { GPipe, OneFOneB, Interleaved, ZBH1 };
template <> struct Words<PipelineSchedule> {
  static constexpr std::array all = {"gpipe", "1f1b", "interleaved", "zb-h1"};
};

/// How attention works if ranks split the sequence.
enum class Context { Ulysses, Ring };
template <> struct Words<Context> {
  static constexpr std::array all = {"ulysses", "ring"};
};

enum class Collectives { Fixed, Library };
template <> struct Words<Collectives> {
  static constexpr std::array all = {"fixed", "library"};
};

/// A row of `targetTable`: facts about a target that settings, passes and the
/// driver need. The back end, which generates the code, is a `codegen::Target`
/// instead. The defaults of the fields are the facts of x86-64.
struct TargetFacts {
  /// Whether kernels are functions that run on the host's cores, so that a
  /// process can call them.
  bool kernelsRunOnHost = true;
  /// Whether the device has memory of its own. States that are offloaded to
  /// `host` or `pinned` then take none of it.
  bool hasDeviceMemory = false;
  /// Whether each thread of a launch has its own scratch memory. Otherwise all
  /// threads of a launch share the same scratch memory.
  bool hasScratchPerThread = true;
  /// Alignment in bytes of every buffer of the plan.
  int64_t bufferAlignment = 64;
  /// The alignment of a kernel's operands, in bytes: the width of its widest
  /// access.
  int64_t operandAlignment = 1;
  /// Whether the device runs a step as one CUDA graph. If so, each transfer
  /// must end in the step that starts it.
  bool stepIsGraph = false;
  /// The default of `--collectives`.
  Collectives collectives = Collectives::Fixed;
  /// Whether `--collectives library` means NCCL. NCCL has its own staging
  /// memory, and pairs the sends and receives of two ranks in their order.
  bool libraryIsNccl = false;
  /// Whether the settings `--gemm` and `--matmul` may be used. They choose how
  /// matrices are multiplied.
  bool hasGemmSettings = false;
};

inline constexpr TargetFacts gpuFacts = {
    /*kernelsRunOnHost=*/false,
    /*hasDeviceMemory=*/true,
    /*hasScratchPerThread=*/false,
    /*bufferAlignment=*/256,
    /*operandAlignment=*/16,
    /*stepIsGraph=*/true,
    /*collectives=*/Collectives::Library,
    /*libraryIsNccl=*/true,
    /*hasGemmSettings=*/true};

/// The facts of each target, in the order of `Target`.
inline constexpr TargetFacts targetTable[] = {
    TargetFacts(), // X86_64
    gpuFacts,      // SM_80
    gpuFacts,      // SM_90
};
static_assert(std::size(targetTable) == Words<Target>::all.size());

constexpr const TargetFacts &factsOf(Target target) {
  return targetTable[static_cast<size_t>(target)];
}

/// The type in which gradients are communicated. With None it is the type of
/// --precision.
enum class CommunicationType { None, FP32, BF16, FP16 };
template <> struct Words<CommunicationType> {
  static constexpr std::array all = {"", "fp32", "bf16", "fp16"};
};

enum class Optimizer {
  AdamW,
  Adam,
  Lion,
  Lamb,
  OneBitAdam,
  ZeroOneAdam,
  OneBitLamb
};
template <> struct Words<Optimizer> {
  static constexpr std::array all = {"AdamW",     "Adam",       "Lion",
                                     "Lamb",      "OneBitAdam", "ZeroOneAdam",
                                     "OneBitLamb"};
};

/// Whether replicas send what the optimizer averages in one bit for each
/// element, in some phase of a run.
constexpr bool sendsSigns(Optimizer optimizer) {
  return optimizer == Optimizer::OneBitAdam ||
         optimizer == Optimizer::ZeroOneAdam ||
         optimizer == Optimizer::OneBitLamb;
}

/// Learning-rate schedules, under the names that DeepSpeed gives them.
/// Whether weights are quantized around zero while they are trained.
enum class MoqType { Symmetric, Asymmetric };
template <> struct Words<MoqType> {
  static constexpr std::array all = {"symmetric", "asymmetric"};
};

enum class Scheduler {
  None,
  WarmupLR,
  WarmupDecayLR,
  WarmupCosineLR,
  OneCycle,
  LRRangeTest
};
template <> struct Words<Scheduler> {
  static constexpr std::array all = {
      "",         "WarmupLR",   "WarmupDecayLR", "WarmupCosineLR",
      "OneCycle", "LRRangeTest"};
};

/// What the labels of a batch are. OfModel means the objective of the model
/// family, or of the user's module.
enum class Objective { OfModel, Causal, MaskedToken };
template <> struct Words<Objective> {
  static constexpr std::array all = {"", "causal", "mlm"};
};

/// The purpose of a binary.
enum class Mode { Train, Serve, Encode };
template <> struct Words<Mode> {
  static constexpr std::array all = {"train", "serve", "encode"};
};

/// The type of keys and values in the cache. With OfModel it is the type of
/// --precision.
enum class CacheType { OfModel, FP32, BF16, FP16, Int8 };
template <> struct Words<CacheType> {
  static constexpr std::array all = {"", "fp32", "bf16", "fp16", "int8"};
};

/// The type to which the weights of matrix products are quantized, in programs
/// that do not train.
enum class Quantize { None, Int8, Int4 };
template <> struct Words<Quantize> {
  static constexpr std::array all = {"none", "int8", "int4"};
};

/// Which operations may share a kernel. With `None` no two operations share
/// one. With `Generic`, element-wise and row-wise operations may share one.
/// With `Deep`, matrix products may also share a kernel with the operations
/// before and after them, and so may writes to the cache.
enum class Fusion { None, Generic, Deep };
template <> struct Words<Fusion> {
  static constexpr std::array all = {"none", "generic", "deep"};
};

/// The type to which activations are quantized for products with quantized
/// weights. Auto is replaced by the target's choice before there is a plan.
enum class QuantizeActivations { None, Int8, Auto };
template <> struct Words<QuantizeActivations> {
  static constexpr std::array all = {"none", "int8", "auto"};
};

/// Returns the word by which users name an enum's value.
template <typename E> const char *wordOf(E value) {
  return Words<E>::all[static_cast<size_t>(value)];
}

/// Returns the value of an enum that the word names, or nullopt if the word is
/// unknown.
template <typename E> std::optional<E> parseWord(const std::string &word) {
  for (size_t i = 0; i < Words<E>::all.size(); ++i)
    if (word == Words<E>::all[i])
      return static_cast<E>(i);
  return std::nullopt;
}

/// The ranges of values that the rows of Settings.def use.
struct Range : io::ValueRange {
  static io::ValueRange any() { return matching("", nullptr); }
  template <typename E> static io::ValueRange wordsOf() {
    std::vector<std::string> words(Words<E>::all.begin(), Words<E>::all.end());
    if (words.front().empty())
      words.erase(words.begin());
    return choices(std::move(words));
  }
};

/// The values of all settings, with their defaults.
struct Settings {
  static constexpr int64_t noLimit = std::numeric_limits<int64_t>::max();
  /// The range of loss scales. All numbers in it are normal fp32 numbers.
  static constexpr double leastScale = 1e-30, mostScale = 1e38;

#define HEDDLE_SETTING(TYPE, MEMBER, DEFAULT, ...) TYPE MEMBER = DEFAULT;
#include "heddle/Settings/Settings.def"
};

/// The value of any setting. The value of an enum is represented by its word.
using SettingValue =
    std::variant<int64_t, double, bool, std::string, std::vector<std::string>>;

/// Converts the value of a field of `Settings` to a SettingValue.
template <typename T> SettingValue toSettingValue(const T &field) {
  if constexpr (std::is_enum_v<T>)
    return std::string(wordOf(field));
  else
    return field;
}

/// Sets a field of `Settings` to a value. Returns false if the field is an enum
/// and the value is an unknown word.
template <typename T> bool setFromValue(T &field, const SettingValue &value) {
  if constexpr (std::is_enum_v<T>) {
    std::optional<T> parsed = parseWord<T>(std::get<std::string>(value));
    field = parsed.value_or(field);
    return parsed.has_value();
  } else {
    field = std::get<T>(value);
    return true;
  }
}

/// The part of a row of Settings.def that is about the setting's value: its
/// names, its range, and how it is read and set.
struct Setting {
  std::string key; ///< The name that users see.
  /// The path of the setting in the attribute that stores all settings in a
  /// module: SECTION.NAME, or NAME alone.
  std::string path;
  io::ValueRange range;
  SettingValue (*get)(const Settings &);
  /// Sets the value. Returns false if the value is an unknown word.
  bool (*set)(Settings &, const SettingValue &);

  /// `section` and `name` are the parts of `path` before and after the dot. If
  /// `path` has no dot, the section is "".
  std::string section() const;
  std::string name() const;
  /// Whether the value of this setting in `settings` is in range.
  bool holds(const Settings &settings) const;
};

/// All settings, in the order of Settings.def.
const std::vector<Setting> &allSettings();

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_SETTINGS_H
