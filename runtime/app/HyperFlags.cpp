//===- HyperFlags.cpp - Hyperparameters at run time -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"

using namespace heddle;
using namespace heddle::rt;
using io::addFlag;

void heddle::rt::addHyperFlags(CLI::App &verb, HyperOptions &hyper) {
  io::ValueRange number = io::ValueRange::numbersFrom(0);
  addFlag(verb, "--lr", hyper.lr, number,
          "Learning rate, and the highest of a warm-up (default of this and "
          "the next ones: as compiled, or as the resumed run was told)");
  addFlag(verb, "--min-lr", hyper.minLr, number,
          "Lowest learning rate of the schedule");
  addFlag(verb, "--warmup-steps", hyper.warmupSteps, io::range::count(0),
          "Steps in which the rate rises");
  addFlag(verb, "--train-steps", hyper.trainSteps, io::range::count(1),
          "Steps until the rate has fallen");
  addFlag(verb, "--weight-decay", hyper.weightDecay, number,
          "Of all parameters but those of --no-decay, and of groups with their "
          "own");
  addFlag(verb, "--clip", hyper.clip, number,
          "Largest global norm of the gradients, 0: any");
}

HyperValues HyperOptions::values() const {
  HyperValues values;
  auto add = [&](const char *name, const auto &value) {
    if (value)
      values[name] = double(*value);
  };
  add("lr", lr);
  add("min_lr", minLr);
  add("warmup_steps", warmupSteps);
  add("train_steps", trainSteps);
  add("weight_decay", weightDecay);
  add("clip", clip);
  return values;
}
