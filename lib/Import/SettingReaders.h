//===- SettingReaders.h - What rows of Settings.def call --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is special about a setting: how its flags and keys are read where that
// is not as its type says, and when it changes nothing.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_SETTINGREADERS_H
#define HEDDLE_LIB_IMPORT_SETTINGREADERS_H

#include "SettingsMerge.h"

namespace heddle::config {

//===----------------------------------------------------------------------===//
// Flags (SettingFlags.cpp)
//===----------------------------------------------------------------------===//

/// As the setting's type is written; H0114 when another flag says otherwise.
void mergeFlag(const SettingFlag &flag, const std::string &text,
               Merger &merger);
/// `data=2,tensor=4`.
void mergeMesh(const SettingFlag &flag, const std::string &text,
               Merger &merger);
/// `sm_90`, or several with commas; `auto` is the GPU that is here.
void mergeTargets(const SettingFlag &flag, const std::string &text,
                  Merger &merger);
/// Words of targets, each once, or auto.
io::ValueRange targetsRange();
/// ZeRO's first stage at least.
void mergeDistributedOptimizer(const SettingFlag &flag, const std::string &text,
                               Merger &merger);
/// `16GiB`.
void mergeByteSize(const SettingFlag &flag, const std::string &text,
                   Merger &merger);
/// `16GiB`, or `device=8GiB,file=1TiB`.
void mergeBudgets(const SettingFlag &flag, const std::string &text,
                  Merger &merger);
/// Sizes as `mergeBudgets` reads them.
io::ValueRange budgetsRange();
/// Sizes of requests to swap files.
io::ValueRange swapBlockRange();
/// `optimizer=file,gradients=host`.
void mergePlace(const SettingFlag &flag, const std::string &text,
                Merger &merger);
/// `0.9,0.999`.
void mergeBetas(const SettingFlag &flag, const std::string &text,
                Merger &merger);
/// What `mergeScheduleFlags` reads.
void mergeNothing(const SettingFlag &flag, const std::string &text,
                  Merger &merger);
/// `REGEX:frozen` and the like, one a line.
void mergeGroups(const SettingFlag &flag, const std::string &text,
                 Merger &merger);
/// Two numbers that are betas.
io::ValueRange betasRange();

//===----------------------------------------------------------------------===//
// Keys of a ds_config.json (DsConfig.cpp, DsOffload.cpp,
// DsOptimizer.cpp)
//===----------------------------------------------------------------------===//

/// As the setting's type is written; "auto" leaves it open, null says nothing.
void readKey(const SettingField &field, const io::JsonValue &value,
             Merger &merger);
/// The size of an axis of the mesh, where 0 says nothing.
void readAxis(const SettingField &field, const io::JsonValue &value,
              Merger &merger);
/// A largest norm; infinity is none.
void readClipping(const SettingField &field, const io::JsonValue &value,
                  Merger &merger);
/// True is bf16, false fp32.
void readSwitchOfPrecision(const SettingField &field,
                           const io::JsonValue &value, Merger &merger);
/// `zero_optimization` as true or false.
void readSwitchOfZero(const SettingField &field, const io::JsonValue &value,
                      Merger &merger);
/// none, cpu or nvme; cpu has no meaning where it is what computes.
void readOffloadDevice(const SettingField &field, const io::JsonValue &value,
                       Merger &merger);
/// True is cpu, as `readOffloadDevice` reads it.
void readSwitchOfOffload(const SettingField &field, const io::JsonValue &value,
                         Merger &merger);
/// A list of both betas.
void readBetas(const SettingField &field, const io::JsonValue &value,
               Merger &merger);
/// What the row's `dsAfter` reads.
void readNothing(const SettingField &field, const io::JsonValue &value,
                 Merger &merger);

/// Pinned memory in place of the host's, where a file asks for both.
void mergePinnedOptimizer(const io::JsonValue &root, Merger &merger);
void mergePinnedParameters(const io::JsonValue &root, Merger &merger);
/// The directories of swap files.
void mergeSwapPaths(const io::JsonValue &root, Merger &merger);
/// The part of the optimizer's states that the host updates.
void mergeHostUpdates(const io::JsonValue &root, Merger &merger);
/// The types in which gradients travel, with and without sequence parallelism.
void mergeCommunication(const io::JsonValue &root, Merger &merger);
/// The optimizer that a value of `optimizer.type` names, without case.
std::optional<Optimizer> findOptimizer(const io::JsonValue &type);
/// The section `optimizer`, and the default of its weight decay.
void mergeOptimizer(const io::JsonValue &root, Merger &merger);
/// The section `scheduler`.
void mergeScheduler(const io::JsonValue &root, Merger &merger);
/// The parameters of all schedules.
std::vector<DsKey> scheduleKeys();

//===----------------------------------------------------------------------===//
// Values of two sources (SettingsMerge.cpp)
//===----------------------------------------------------------------------===//

/// Directories of roles, which a weaker source names where a stronger does not.
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
