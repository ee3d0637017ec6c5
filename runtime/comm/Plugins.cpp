//===- Plugins.cpp - MPI plug-ins inside the binary -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Embeds the MPI plug-ins. If the build has found the headers of an MPI, it
// defines a macro with the path of that MPI's plug-in.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Plugins.h"

using namespace heddle::rt;

#define EMBED(NAME, FILE)                                                      \
  asm(".pushsection .rodata." #NAME ",\"a\",@progbits\n"                       \
      ".balign 16\n" #NAME "Begin:\n"                                          \
      ".incbin \"" FILE "\"\n" #NAME "End:\n"                                  \
      ".popsection\n");                                                        \
  extern "C" __attribute__((visibility("hidden")))                             \
  const unsigned char NAME##Begin[],                                           \
      NAME##End[];

#ifdef HEDDLE_OPENMPI_PLUGIN
EMBED(heddleOpenMpiPlugin, HEDDLE_OPENMPI_PLUGIN)
#endif
#ifdef HEDDLE_MPICH_PLUGIN
EMBED(heddleMpichPlugin, HEDDLE_MPICH_PLUGIN)
#endif

EmbeddedPlugin heddle::rt::openMpiPlugin() {
#ifdef HEDDLE_OPENMPI_PLUGIN
  return {heddleOpenMpiPluginBegin,
          size_t(heddleOpenMpiPluginEnd - heddleOpenMpiPluginBegin)};
#else
  return {};
#endif
}

EmbeddedPlugin heddle::rt::mpichPlugin() {
#ifdef HEDDLE_MPICH_PLUGIN
  return {heddleMpichPluginBegin,
          size_t(heddleMpichPluginEnd - heddleMpichPluginBegin)};
#else
  return {};
#endif
}
