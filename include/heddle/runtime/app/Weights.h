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

/// Sets the initial value of every state. Parameters and derived states come
/// from `options.weights`, else from the plan's weights, else from random
/// numbers of the plan's seed, of which every rank generates its shard. Throws
/// H0386 when the weights are not those of compilation, H0387 for a tensor of
/// another shape, H0307 for a value that is not finite.
void loadWeights(Job &job, const JobOptions &options);

/// Opens the weights that a job loads; none if a seed generates them. Throws
/// H0386 as loadWeights does.
std::optional<io::WeightSet> openJobWeights(const Job &job,
                                            const JobOptions &options);

/// Loads parameters and optimizer states from a checkpoint, and returns the
/// rest of its state. With `resetOptimizer` the optimizer states get their
/// initial values. Throws H0335 when the checkpoint lacks states of this
/// optimizer.
io::CheckpointState resumeFrom(Job &job, const std::string &directory,
                               bool resetOptimizer);

/// Describes the states of all stages as tensors of a checkpoint. `types` gives
/// the types in which the model's tensors are saved. The result refers to the
/// session's memory.
io::CheckpointContents describeCheckpoint(Session &session,
                                          const io::CheckpointState &state,
                                          const SavedTypes &types = {});

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_WEIGHTS_H
