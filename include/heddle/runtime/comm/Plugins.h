//===- Plugins.h - The MPI plug-ins that this binary carries ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_COMM_PLUGINS_H
#define HEDDLE_RUNTIME_COMM_PLUGINS_H

#include <cstddef>

namespace heddle::rt {

/// A shared object; of size 0: the MPI's headers were not there at the build.
struct EmbeddedPlugin {
  const unsigned char *begin = nullptr;
  size_t size = 0;
};

EmbeddedPlugin openMpiPlugin();
EmbeddedPlugin mpichPlugin();

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_PLUGINS_H
