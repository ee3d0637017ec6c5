//===- CheckpointFormat.h - Names inside a checkpoint -----------*- C++ -*-===//
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
/// Directories that are being written or removed; none is ever read.
inline constexpr const char *temporaryPrefix = ".heddle-tmp-";
/// Version 2 has masters, which a reader of version 1 would pass over.
inline constexpr int manifestVersion = 1, manifestVersionWithMasters = 2;

/// Whether a directory has a manifest, which is written last.
bool isCheckpoint(const std::string &path);
/// The name of the checkpoint after a step, and the step of such a name.
std::string stepName(int64_t step);
std::optional<int64_t> stepOfName(const std::string &name);
/// Those that the run which wrote a checkpoint had written before it.
std::vector<SavedStep> savedBefore(const std::string &path);
/// Fails where something at the path is no checkpoint: it is somebody else's.
void requireReplaceable(const std::string &path);
/// Removes the checkpoints of `saved` but the last `keep - 1` and the one that
/// `newest` names. Only what is still as it was written is removed.
void prune(const std::string &directory, const std::string &newest,
           const std::vector<SavedStep> &saved, int64_t keep);

} // namespace heddle::io::checkpoint

#endif // HEDDLE_RUNTIME_IO_CHECKPOINTFORMAT_H
