//===- Plugins.h - MPI plug-ins inside the binary ---------------*- C++ -*-===//
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

/// A shared object inside the binary. Its size is 0 if the MPI's headers were
/// missing when the binary was built.
struct EmbeddedPlugin {
  const unsigned char *begin = nullptr;
  size_t size = 0;
};

EmbeddedPlugin openMpiPlugin();
EmbeddedPlugin mpichPlugin();

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_COMM_PLUGINS_H
