//===- SavedStates.cpp - States as tensors of a checkpoint ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FrozenStates.h"
#include "QuantizedCopies.h"
#include "SavedLayouts.h"
#include "heddle/runtime/app/StateTensors.h"
#include "heddle/runtime/app/Weights.h"

using namespace heddle;
using namespace heddle::rt;

io::CheckpointContents
heddle::rt::describeCheckpoint(Session &session,
                               const io::CheckpointState &state,
                               const SavedTypes &types) {
  const plan::Plan &plan = session.plan();
  io::CheckpointContents contents;
  contents.config = plan.modelConfig;
  contents.state = state;
  contents.layouts = layoutsOf(plan);
  // If several pipeline stages hold a state, such as tied embeddings, the first
  // of these stages saves it.
  SharedStates model(session), optimizer(session), masters(session);
  std::set<std::string> trained;
  for (size_t number = 0; number < plan.stages.size(); ++number) {
    const plan::Stage &stage = plan.stages[number];
    for (size_t i = 0; i < stage.states.size(); ++i) {
      const plan::State &source = stage.states[i];
      const bool isParameter = source.role == plan::StateRole::Parameter;
      if (!isParameter && !source.checkpointed)
        continue;
      if (isParameter && source.trainable)
        for (const plan::WeightSlice &piece : sourcesOf(stage, source))
          trained.insert(piece.tensor);
      bool isHere = int64_t(number) == session.stage();
      auto add = [&](SharedStates &file, size_t index) {
        file.add(checkpointPrefix(source), source.name,
                 sourcesOf(stage, source), stage.states[index].type,
                 isHere ? &session.state(index) : nullptr,
                 isHere ? &session.shard(index) : nullptr);
      };
      // Layers compute with a quantized copy, so the model is the copy.
      std::optional<size_t> copy =
          isParameter ? quantizedCopyOf(stage, source) : std::nullopt;
      if (copy)
        add(masters, i);
      add(isParameter ? model : optimizer, copy.value_or(i));
    }
  }
  contents.model = model.take();
  contents.optimizer = optimizer.take();
  contents.masters = masters.take();
  types.apply(contents, trained);
  return contents;
}
