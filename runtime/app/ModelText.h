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
#include "heddle/runtime/serve/Sampler.h"

#include <memory>

namespace heddle::rt {

/// The directory of the model that a job takes: of its tokenizer and, unless
/// they are random, of its weights. Empty where there is none.
std::string modelDirectory(const plan::Plan &plan, const JobOptions &options);
/// The same, but empty for random weights.
std::string readDirectory(const plan::Plan &plan, const JobOptions &options);
/// Throws H0330 if the weights that the binary was compiled with are not where
/// they were.
void requireCompiledWeights(const plan::Plan &plan);

/// The tokenizer beside the weights; without one, bytes are tokens where the
/// vocabulary is about that of bytes. Null where there is none; throws H0370
/// for one with tokens that the model does not know. With `lowersCase` it puts
/// texts into lower case first.
std::unique_ptr<io::Tokenizer> findTokenizer(const plan::Plan &plan,
                                             const JobOptions &options,
                                             bool lowersCase = false);
/// The same; throws H0195 with this help where there is none.
std::unique_ptr<io::Tokenizer> requireTokenizer(const plan::Plan &plan,
                                                const JobOptions &options,
                                                const std::string &help,
                                                bool lowersCase = false);

/// How a model's makers continue texts.
struct TextDefaults {
  std::vector<int64_t> ends; ///< The tokens that end a text.
  /// Greedy, with a penalty where the files have one; or, with `samples`, what
  /// they say of drawing tokens.
  SamplingOptions sampling;
  bool samples = false;
};

/// By the model's config.json, which names ends alone, and what the weights
/// have beside them: the end that the tokenizer names, if there is one (null),
/// and generation_config.json. Throws H0370 for a token in that file which the
/// model does not know, and H0373 for a value that nothing can be drawn with.
TextDefaults textDefaults(const plan::Plan &plan, const JobOptions &options,
                          const io::Tokenizer *tokenizer);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_MODELTEXT_H
