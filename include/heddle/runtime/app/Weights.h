//===- Weights.h - Values of a session's states -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_WEIGHTS_H
#define HEDDLE_RUNTIME_APP_WEIGHTS_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/app/SavedTypes.h"
#include "heddle/runtime/io/Checkpoint.h"

namespace heddle::rt {

/// Gives every state its first value: parameters and what is derived of them
/// from `options.weights`, or from where the plan says, or at random from the
/// plan's seed, of which every rank makes what it stores. Throws H0386 when the
/// plan's weights are not those it was compiled with, H0387 when a tensor has
/// another shape, H0307 when a value is not finite.
void loadWeights(Job &job, const JobOptions &options);

/// The weights that a job is to load; none where a seed makes them. Throws
/// H0386 as loadWeights does.
std::optional<io::WeightSet> openJobWeights(const Job &job,
                                            const JobOptions &options);

/// Takes parameters and optimizer state from a checkpoint; what remains to be
/// set up is returned. With `resetOptimizer` the optimizer's states get their
/// first values. Throws H0335 where the checkpoint has not what this optimizer
/// keeps.
io::CheckpointState resumeFrom(Job &job, const std::string &directory,
                               bool resetOptimizer);

/// The states of all stages as a checkpoint stores them, the model in `types`.
/// Pieces point into the session.
io::CheckpointContents describeCheckpoint(Session &session,
                                          const io::CheckpointState &state,
                                          const SavedTypes &types = {});

/// Where a state stands in weight files and checkpoints: as the parameter that
/// it belongs to; one that belongs to none is a tensor of its own name.
std::vector<plan::Piece> sourcesOf(const plan::Stage &stage,
                                   const plan::State &state);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_WEIGHTS_H
