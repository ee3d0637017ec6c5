//===- Weights.h - Load and save the states of a session --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads the states of a session, from weight files, from a checkpoint or at
// random, and describes them as tensors of a checkpoint. Quantized and other
// derived states are computed here.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_WEIGHTS_H
#define HEDDLE_RUNTIME_APP_WEIGHTS_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/app/SavedTypes.h"
#include "heddle/runtime/io/Checkpoint.h"

namespace heddle::rt {

/// Sets the initial value of every state. Parameters, and states derived from
/// them, are computed from the weights in `options.weights`, or else from the
/// weights that the plan names. If neither exists, each rank generates its
/// shard by random numbers with the plan's seed. Throws H0386 when the weights
/// differ from those that the binary was compiled with, H0387 for a tensor of
/// another shape, and H0307 for a value that is not finite.
void loadWeights(Job &job, const JobOptions &options);

/// Opens the weight files that a job loads. Returns nothing if the weights are
/// random. Throws H0386 as loadWeights does.
std::optional<io::WeightSet> openJobWeights(const Job &job,
                                            const JobOptions &options);

/// Loads parameters and optimizer states from a checkpoint. Returns the other
/// contents of the checkpoint, such as the step. If `resetOptimizer`, optimizer
/// states get their initial values; if `resetErrors`, the errors of compressed
/// averages do, as they always do after a run with another number of ranks.
/// Throws H0335 when the checkpoint lacks states that the plan's optimizer
/// needs.
io::CheckpointState resumeFrom(Job &job, const std::string &directory,
                               bool resetOptimizer, bool resetErrors = false);

/// Describes the states of all pipeline stages as tensors of a checkpoint.
/// `types` gives the element types in which the model's tensors are saved. The
/// result has pointers to the session's memory.
io::CheckpointContents describeCheckpoint(Session &session,
                                          const io::CheckpointState &state,
                                          const SavedTypes &types = {});

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_WEIGHTS_H
