//===- ModelText.h - How the tokens of a model are texts ------ -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_MODELTEXT_H
#define HEDDLE_RUNTIME_APP_MODELTEXT_H

#include "heddle/runtime/app/Options.h"
#include "heddle/runtime/core/Loader.h"
#include "heddle/runtime/io/Tokenizer.h"

#include <memory>

namespace heddle::rt {

/// The directory of the weights that a job takes; empty for random ones.
std::string modelDirectory(const plan::Plan &plan, const JobOptions &options);

/// The tokenizer beside the weights; without one, bytes are tokens where the
/// vocabulary is about that of bytes. Null where there is none.
std::unique_ptr<io::Tokenizer> findTokenizer(const plan::Plan &plan,
                                             const JobOptions &options);
/// The same; throws H0195 where there is none.
std::unique_ptr<io::Tokenizer> requireTokenizer(const plan::Plan &plan,
                                                const JobOptions &options);

/// The tokens that end a text, by the model's config.json and, where the
/// weights have one beside them, generation_config.json.
std::vector<int64_t> endTokens(const plan::Plan &plan,
                               const JobOptions &options);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_MODELTEXT_H
