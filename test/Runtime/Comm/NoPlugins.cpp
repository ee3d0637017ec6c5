//===- NoPlugins.cpp - A build without the headers of any MPI -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Takes the place of runtime/comm/Plugins.cpp.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Plugins.h"

heddle::rt::EmbeddedPlugin heddle::rt::openMpiPlugin() { return {}; }
heddle::rt::EmbeddedPlugin heddle::rt::mpichPlugin() { return {}; }
