//===- Pooling.h - What the vector of a text is ---------------- -*- C++
//-*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_POOLING_H
#define HEDDLE_RUNTIME_APP_POOLING_H

#include "heddle/runtime/app/Options.h"

namespace heddle::rt {

/// What makes one vector of the hidden states of a text's tokens.
struct Pooling {
  bool takesFirst = false; ///< That of the first token, not the mean of all.
  bool normalizes = false; ///< The vector is divided by its length.
};

/// What the flags say; where they do not, what sentence-transformers saved in
/// `directory`: the modules of modules.json, and the config.json of the one
/// that pools. Without that file it is the mean as it is. Throws H0398 where a
/// module does what Heddle does not.
Pooling findPooling(const std::string &directory,
                    const PoolingOptions &options);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_POOLING_H
