//===- SettingReaders.h - What rows of Settings.def call --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions that read the flags and keys of settings for which the setting's
// type is not enough, and functions that tell when a setting has no effect. The
// rows of Settings.def refer to these functions.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_SETTINGREADERS_H
#define HEDDLE_LIB_IMPORT_SETTINGREADERS_H

#include "SettingsMerge.h"

namespace heddle::config {

//===----------------------------------------------------------------------===//
// Flags (SettingFlags.cpp)
//===----------------------------------------------------------------------===//

/// Reads a flag by the setting's type. Throws H0114 if another flag gives
/// another value.
void mergeFlag(const SettingFlag &flag, const std::string &text,
               Merger &merger);
/// Reads a mesh: `data=2,tensor=4`.
void mergeMesh(const SettingFlag &flag, const std::string &text,
               Merger &merger);
/// Reads targets: `sm_90`, or several with commas. `auto` is the GPU of this
/// machine.
void mergeTargets(const SettingFlag &flag, const std::string &text,
                  Merger &merger);
/// Names of targets, each at most once, or auto.
io::ValueRange targetsRange();
/// Raises the ZeRO stage to 1 if it is lower.
void mergeDistributedOptimizer(const SettingFlag &flag, const std::string &text,
                               Merger &merger);
/// Reads a size: `16GiB`.
void mergeByteSize(const SettingFlag &flag, const std::string &text,
                   Merger &merger);
/// Reads budgets: `16GiB`, or `device=8GiB,file=1TiB`.
void mergeBudgets(const SettingFlag &flag, const std::string &text,
                  Merger &merger);
/// Sizes in the form that `mergeBudgets` reads.
io::ValueRange budgetsRange();
/// Sizes of requests to offload files.
io::ValueRange swapBlockRange();
/// Reads placements of states: `optimizer=file,gradients=host`.
void mergePlace(const SettingFlag &flag, const std::string &text,
                Merger &merger);
/// Reads both betas: `0.9,0.999`.
void mergeBetas(const SettingFlag &flag, const std::string &text,
                Merger &merger);
/// Does nothing: `mergeScheduleFlags` reads these flags.
void mergeNothing(const SettingFlag &flag, const std::string &text,
                  Merger &merger);
/// Reads parameter groups, one a line: `REGEX:frozen` and the like.
void mergeGroups(const SettingFlag &flag, const std::string &text,
                 Merger &merger);
/// Two numbers that can be betas.
io::ValueRange betasRange();

//===----------------------------------------------------------------------===//
// Keys of a ds_config.json (DsConfig.cpp, DsOffload.cpp,
// DsOptimizer.cpp)
//===----------------------------------------------------------------------===//

/// Reads a key by the setting's type. "auto" leaves the setting open, and null
/// is ignored.
void readKey(const SettingField &field, const io::JsonValue &value,
             Merger &merger);
/// Reads the size of an axis of the mesh. 0 is ignored.
void readAxis(const SettingField &field, const io::JsonValue &value,
              Merger &merger);
/// Reads the largest gradient norm. Infinity means no limit.
void readClipping(const SettingField &field, const io::JsonValue &value,
                  Merger &merger);
/// Reads a boolean: true means bf16, false fp32.
void readSwitchOfPrecision(const SettingField &field,
                           const io::JsonValue &value, Merger &merger);
/// Reads `zero_optimization` as a boolean.
void readSwitchOfZero(const SettingField &field, const io::JsonValue &value,
                      Merger &merger);
/// Reads none, cpu or nvme. On a CPU target, cpu has no meaning.
void readOffloadDevice(const SettingField &field, const io::JsonValue &value,
                       Merger &merger);
/// Reads a boolean: true means cpu, as in `readOffloadDevice`.
void readSwitchOfOffload(const SettingField &field, const io::JsonValue &value,
                         Merger &merger);
/// Reads a list of both betas.
void readBetas(const SettingField &field, const io::JsonValue &value,
               Merger &merger);
/// Does nothing: the function in the row's `dsAfter` reads these keys.
void readNothing(const SettingField &field, const io::JsonValue &value,
                 Merger &merger);

/// `mergePinnedOptimizer` and `mergePinnedParameters` choose pinned memory
/// where a ds_config.json asks for host memory with `pin_memory`.
void mergePinnedOptimizer(const io::JsonValue &root, Merger &merger);
void mergePinnedParameters(const io::JsonValue &root, Merger &merger);
/// Reads the directories of offload files.
void mergeSwapPaths(const io::JsonValue &root, Merger &merger);
/// Reads the part of the optimizer's states that the host updates.
void mergeHostUpdates(const io::JsonValue &root, Merger &merger);
/// Reads the types in which gradients are communicated, with and without
/// sequence parallelism.
void mergeCommunication(const io::JsonValue &root, Merger &merger);
/// The optimizer that a value of `optimizer.type` names, ignoring case.
std::optional<Optimizer> findOptimizer(const io::JsonValue &type);
/// Reads the section `optimizer`, and sets the default of its weight decay.
void mergeOptimizer(const io::JsonValue &root, Merger &merger);
/// Reads the section `scheduler`.
void mergeScheduler(const io::JsonValue &root, Merger &merger);
/// The parameters of all schedules.
std::vector<DsKey> scheduleKeys();

//===----------------------------------------------------------------------===//
// Values of two sources (SettingsMerge.cpp)
//===----------------------------------------------------------------------===//

/// Combines the directories of offload files from two sources, role by role.
/// The weaker source gives the directories of roles for which the stronger one
/// has none.
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
const char *whyNoContext(const Settings &values);
const char *whyNoCache(const Settings &values);
const char *whyNothingTrains(const Settings &values);
const char *whyNotLamb(const Settings &values);
const char *whyNothingIsPlaced(const Settings &values);
const char *whyNothingOnFile(const Settings &values);
const char *whyTraining(const Settings &values);
const char *whyNoSchedule(const Settings &values);

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_SETTINGREADERS_H
