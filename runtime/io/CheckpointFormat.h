//===- CheckpointFormat.h - File names in a checkpoint ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_CHECKPOINTFORMAT_H
#define HEDDLE_RUNTIME_IO_CHECKPOINTFORMAT_H

#include "heddle/runtime/io/Checkpoint.h"

namespace heddle::io::checkpoint {

inline constexpr const char *configFile = "config.json";
inline constexpr const char *modelFile = "model.safetensors";
inline constexpr const char *indexFile = "model.safetensors.index.json";
inline constexpr const char *ownFolder = "heddle";
inline constexpr const char *optimizerFile = "heddle/optimizer.safetensors";
inline constexpr const char *mastersFile = "heddle/masters.safetensors";
inline constexpr const char *stateFile = "heddle/state.json";
inline constexpr const char *manifestFile = "heddle/manifest.json";
inline constexpr const char *latestFile = "latest";
inline constexpr const char *stepPrefix = "step-";
/// Prefix of directories that are being written or removed; they are never
/// read.
inline constexpr const char *temporaryPrefix = ".heddle-tmp-";
/// Versions of the manifest. A checkpoint with fp32 master weights has version
/// 2, because programs that know only version 1 would ignore the masters.
inline constexpr int manifestVersion = 1, manifestVersionWithMasters = 2;

/// Whether the directory has a manifest, the file that is written last.
bool isCheckpoint(const std::string &path);
/// stepName returns the name of a step's checkpoint. stepOfName returns the
/// step of such a name, or nullopt for any other name.
std::string stepName(int64_t step);
std::optional<int64_t> stepOfName(const std::string &name);
/// Returns the earlier checkpoints of the run that wrote the one at `path`.
std::vector<SavedStep> savedBefore(const std::string &path);
/// Throws if something at the path is not a checkpoint, and so may not be
/// replaced.
void requireReplaceable(const std::string &path);
/// Removes the checkpoints in `saved`, except the last `keep - 1` and the one
/// that `newest` names. A checkpoint that has changed since it was written
/// stays.
void prune(const std::string &directory, const std::string &newest,
           const std::vector<SavedStep> &saved, int64_t keep);

} // namespace heddle::io::checkpoint

#endif // HEDDLE_RUNTIME_IO_CHECKPOINTFORMAT_H
