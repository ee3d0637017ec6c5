//===- OffloadedRoles.h - States that can be offloaded ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The roles of states (for example gradients) that `--place` can offload. The
// readers of flags and ds_config.json use this list, and so does `fit`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SETTINGS_OFFLOADEDROLES_H
#define HEDDLE_SETTINGS_OFFLOADEDROLES_H

#include "heddle/Settings/Settings.h"

namespace heddle::config {

/// A name of a role that `--place` accepts, and the setting that says in which
/// kind of memory states of the role are.
struct OffloadedRole {
  const char *name, *key;
  MemoryKind Settings::*place;
};

/// The roles, in the order in which `heddle fit` tries to offload them if the
/// model does not fit into memory: the one that causes the least traffic comes
/// first.
inline constexpr OffloadedRole offloadedRoles[] = {
    {"optimizer", "place_optimizer", &Settings::placeOptimizer},
    {"gradients", "place_gradients", &Settings::placeGradients},
    {"parameters", "place_parameters", &Settings::placeParameters},
    {"activations", "place_activations", &Settings::placeActivations}};

/// The role of this name, or null.
inline const OffloadedRole *findOffloadedRole(std::string_view name) {
  for (const OffloadedRole &role : offloadedRoles)
    if (role.name == name)
      return &role;
  return nullptr;
}

} // namespace heddle::config

#endif // HEDDLE_SETTINGS_OFFLOADEDROLES_H
