//===- SettingReaders.h - What rows of Settings.def call --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions to which the rows of Settings.def refer. Some read flags and keys
// that need a parser of their own. Others say whether a setting has an effect.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_SETTINGREADERS_H
#define HEDDLE_LIB_IMPORT_SETTINGREADERS_H

#include "SettingsMerge.h"

namespace heddle::config {

//===----------------------------------------------------------------------===//
// Flags (SettingFlags.cpp)
//===----------------------------------------------------------------------===//

/// Reads the text of a flag by the setting's type. Throws H0114 if another flag
/// gives the setting another value.
void mergeFlag(const SettingFlag &flag, const std::string &text,
               Merger &merger);
/// Reads the sizes of the mesh's axes, for example `data=2,tensor=4`.
void mergeMesh(const SettingFlag &flag, const std::string &text,
               Merger &merger);
/// Reads targets: `sm_90`, or several of them separated by commas. `auto` means
/// the GPU of this machine.
void mergeTargets(const SettingFlag &flag, const std::string &text,
                  Merger &merger);
/// The range of --target: names of targets, each at most once, or auto.
io::ValueRange targetsRange();
/// Reads a flag that asks for a distributed optimizer: raises the ZeRO stage to
/// 1 if it is lower.
void mergeDistributedOptimizer(const SettingFlag &flag, const std::string &text,
                               Merger &merger);
/// Reads a size in bytes, for example `16GiB`.
void mergeByteSize(const SettingFlag &flag, const std::string &text,
                   Merger &merger);
/// Reads the size of the key-value cache. `auto` is 0 bytes: the compiler or
/// the binary chooses the size.
void mergeCacheSize(const SettingFlag &flag, const std::string &text,
                    Merger &merger);
/// The range of --kv-cache, in the form that `mergeCacheSize` reads.
io::ValueRange cacheSizeRange();
/// Reads memory budgets, for example `16GiB` or `device=8GiB,file=1TiB`.
void mergeBudgets(const SettingFlag &flag, const std::string &text,
                  Merger &merger);
/// The range of memory budgets: sizes in the form that `mergeBudgets` reads.
io::ValueRange budgetsRange();
/// The range of --swap-block-size: how many bytes one request reads from or
/// writes to an offload file.
io::ValueRange swapBlockRange();
/// Reads the placements of states in kinds of memory, for example
/// `optimizer=file,gradients=host`.
void mergePlace(const SettingFlag &flag, const std::string &text,
                Merger &merger);
/// Reads both betas of Adam, for example `0.9,0.999`.
void mergeBetas(const SettingFlag &flag, const std::string &text,
                Merger &merger);
/// The limit of theta(t) in progressive layer dropping, if it is enabled
/// without a theta. DeepSpeed has the same default.
inline constexpr double usualTheta = 0.5;
/// Reads theta and gamma of progressive layer dropping, for example
/// `theta=0.5,gamma=0.001`. One of the two may be missing.
void mergeLayerDrop(const SettingFlag &flag, const std::string &text,
                    Merger &merger);
/// The range of --layer-drop, in the form that `mergeLayerDrop` reads.
io::ValueRange layerDropRange();
/// Leaves a flag to `mergeScheduleFlags`, which reads it later.
void mergeNothing(const SettingFlag &flag, const std::string &text,
                  Merger &merger);
/// Reads parameter groups, one on each line, for example `REGEX:frozen`.
void mergeGroups(const SettingFlag &flag, const std::string &text,
                 Merger &merger);
/// Reads groups of modules whose weights are quantized while they are trained,
/// one on each line.
void mergeMoq(const SettingFlag &flag, const std::string &text, Merger &merger);
/// The range of both betas of Adam.
io::ValueRange betasRange();

//===----------------------------------------------------------------------===//
// Keys of a ds_config.json (DsConfig.cpp, DsOffload.cpp, DsOptimizer.cpp,
// DsReports.cpp)
//===----------------------------------------------------------------------===//

/// Reads the value of a key by the setting's type. "auto" leaves the setting to
/// other sources, and null is ignored.
void readKey(const SettingField &field, const io::JsonValue &value,
             Merger &merger);
/// Reads the size of an axis of the mesh. The value 0 is ignored.
void readAxis(const SettingField &field, const io::JsonValue &value,
              Merger &merger);
/// Reads the largest gradient norm. Infinity means no limit.
void readClipping(const SettingField &field, const io::JsonValue &value,
                  Merger &merger);
/// Reads a boolean that chooses the precision: true means bf16, false means
/// fp32.
void readSwitchOfPrecision(const SettingField &field,
                           const io::JsonValue &value, Merger &merger);
/// Reads `zero_optimization` as a boolean.
void readSwitchOfZero(const SettingField &field, const io::JsonValue &value,
                      Merger &merger);
/// Reads the device to which states are offloaded: none, cpu or nvme. On a CPU
/// target, cpu has no effect, since the states are in host memory anyway.
void readOffloadDevice(const SettingField &field, const io::JsonValue &value,
                       Merger &merger);
/// Reads a boolean that offloads states: true means cpu, as in
/// `readOffloadDevice`.
void readSwitchOfOffload(const SettingField &field, const io::JsonValue &value,
                         Merger &merger);
/// Reads a list of both betas of Adam.
void readBetas(const SettingField &field, const io::JsonValue &value,
               Merger &merger);
/// Leaves a key to another function, which reads it later: the one that the
/// setting's row in Settings.def names as `dsAfter`.
void readNothing(const SettingField &field, const io::JsonValue &value,
                 Merger &merger);

/// If a ds_config.json offloads optimizer states or parameters to the host and
/// sets `pin_memory`, these functions change the placement to pinned memory.
void mergePinnedOptimizer(const io::JsonValue &root, Merger &merger);
void mergePinnedParameters(const io::JsonValue &root, Merger &merger);
/// Reads the directories of offload files.
void mergeSwapPaths(const io::JsonValue &root, Merger &merger);
/// Reads the fraction of the optimizer's states that the host updates.
void mergeHostUpdates(const io::JsonValue &root, Merger &merger);
/// Reads the types in which gradients are communicated, with and without
/// sequence parallelism.
void mergeCommunication(const io::JsonValue &root, Merger &merger);
/// Returns the optimizer that a value of `optimizer.type` names, whatever the
/// case of its letters. Returns nothing if there is none.
std::optional<Optimizer> findOptimizer(const io::JsonValue &type);
/// Reads the section `optimizer`. Sets the default of weight decay, which
/// depends on the optimizer that the section names.
void mergeOptimizer(const io::JsonValue &root, Merger &merger);
/// Reads the section `progressive_layer_drop`. If it is enabled, gives the
/// settings of progressive layer dropping their values, or DeepSpeed's
/// defaults.
void mergeProgressiveLayerDrop(const io::JsonValue &root, Merger &merger);
/// Reads the section `flops_profiler`. If it is enabled, gives the settings of
/// the profile their values, or DeepSpeed's defaults.
void mergeFlopsProfiler(const io::JsonValue &root, Merger &merger);
/// Sets `wall_clock_breakdown` if `activation_checkpointing.profile` is true.
void mergeCheckpointProfile(const io::JsonValue &root, Merger &merger);
/// Read the sections `tensorboard` and `csv_monitor`. If they are enabled, give
/// the settings `log_tensorboard` and `log_csv` the path that DeepSpeed makes
/// of `output_path` and `job_name`.
void mergeTensorBoard(const io::JsonValue &root, Merger &merger);
void mergeCsvMonitor(const io::JsonValue &root, Merger &merger);
/// Reads the section `scheduler`.
void mergeScheduler(const io::JsonValue &root, Merger &merger);
/// Reads the section `fp16`: the precision and the loss scale. Throws H0171 if
/// the section `bf16` is enabled, too.
void mergeFp16(const io::JsonValue &root, Merger &merger);
/// Reads the section `sparse_attention`: the options of an attention layout.
void mergeSparseAttention(const io::JsonValue &root, Merger &merger);
/// Reads the sections `quantize_training` and
/// `compression_training.weight_quantization`: which weights are quantized
/// while they are trained. Throws H0108 if both are enabled.
void mergeQuantizeTraining(const io::JsonValue &root, Merger &merger);
/// Returns the keys of the parameters of all schedules.
std::vector<DsKey> scheduleKeys();

//===----------------------------------------------------------------------===//
// Values of two sources (SettingsMerge.cpp)
//===----------------------------------------------------------------------===//

/// Combines the directories of offload files from two sources. There may be a
/// directory for each kind of offloaded state, such as `optimizer`. The
/// stronger source's directory is used if it has one for the kind, else the
/// weaker source's.
SettingValue combineDirectories(const SettingValue &stronger,
                                const SettingValue &weaker);

//===----------------------------------------------------------------------===//
// Settings that change nothing (ExplainSettings.cpp)
//===----------------------------------------------------------------------===//

const char *whyNothingIsSplit(const Settings &values);
const char *whyNothingIsGathered(const Settings &values);
const char *whyNothingIsBrought(const Settings &values);
const char *whyNoPipeline(const Settings &values);
const char *whyOneTensorRank(const Settings &values);
const char *whyNothingIsAlike(const Settings &values);
const char *whyOneSeqRank(const Settings &values);
const char *whyOneRank(const Settings &values);
const char *whyNoGradientTravels(const Settings &values);
const char *whyNoGpu(const Settings &values);
const char *whyNoCache(const Settings &values);
const char *whyNothingTrains(const Settings &values);
const char *whyNotLamb(const Settings &values);
const char *whyNotOneBitLamb(const Settings &values);
const char *whyNothingFreezes(const Settings &values);
const char *whyNoTensorIsDense(const Settings &values);
const char *whyNotZeroOneAdam(const Settings &values);
const char *whyNotProgressive(const Settings &values);
const char *whyNothingIsQuantized(const Settings &values);
const char *whyNothingIsProfiled(const Settings &values);
const char *whyNotDynamic(const Settings &values);
const char *whyNothingIsPlaced(const Settings &values);
const char *whyNothingOnFile(const Settings &values);
const char *whyTraining(const Settings &values);
const char *whyNoSchedule(const Settings &values);

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_SETTINGREADERS_H
