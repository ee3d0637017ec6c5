//===- LayerDrop.h - Which layers a training step may skip ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the settings of layer dropping: progressive, with theta and gamma, or
// with a constant drop rate for each layer.
//
// These functions return an error as a text: its code, a message and what to
// change, as `CODE: MESSAGE; CHANGE`. The text is "" if there is no error.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_LAYERDROP_H
#define HEDDLE_SETTINGS_LAYERDROP_H

#include "heddle/Settings/Settings.h"

#include <string>
#include <vector>

namespace heddle::config {

/// How a layer is dropped; the members are as in plan::Condition.
struct LayerDrop {
  double rate = 0;
  bool isProgressive = false;
  double theta = 1, gamma = 0; ///< Only if `isProgressive`.
};

/// Whether the settings let training steps drop layers.
bool dropsLayers(const Settings &settings);

/// Whether a training step adds gradients to states that it has filled with
/// zeros. It does so if it has several micro-batches, and if it may drop
/// layers, because a dropped layer leaves its gradients as they are.
bool sumsGradients(const Settings &settings);

/// The drop rates that `--layer-drop-schedule` accepts.
io::ValueRange dropRatesRange();

/// Sets `drops` to how each of the model's `layers` layers is dropped. `drops`
/// is empty if no layer is dropped. If the number of layers is not known yet,
/// `layers` is 0, and the number of drop rates is not checked. Returns an error
/// for settings that contradict each other (H0156), for a wrong number of drop
/// rates (H0157), and for rates out of range (H0110).
std::string layerDrops(const Settings &settings, int64_t layers,
                       std::vector<LayerDrop> &drops);

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_LAYERDROP_H
