//===- ModelText.h - Tokenizer of a model -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the tokenizer of a model, and its defaults for generation, in the
// directory of the weights.
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

/// Returns the directory of the job's model. It has the tokenizer, and the
/// weights unless they are random. "" if there is no such directory.
std::string modelDirectory(const plan::Plan &plan, const JobOptions &options);
/// Returns the same directory as `modelDirectory`, but "" if the weights are
/// random.
std::string readDirectory(const plan::Plan &plan, const JobOptions &options);
/// Throws H0330 if the weights with which the binary was compiled are no longer
/// there.
void requireCompiledWeights(const plan::Plan &plan);

/// Opens the tokenizer beside the weights. Without one, tokens are bytes if the
/// vocabulary has about 256 entries, else the result is null. Throws H0370 for
/// a tokenizer with tokens outside the vocabulary. With `lowersCase` texts are
/// converted to lower case first.
std::unique_ptr<io::Tokenizer> findTokenizer(const plan::Plan &plan,
                                             const JobOptions &options,
                                             bool lowersCase = false);
/// Opens the tokenizer as `findTokenizer` does. Throws H0195 with the help
/// `help` if there is none.
std::unique_ptr<io::Tokenizer> requireTokenizer(const plan::Plan &plan,
                                                const JobOptions &options,
                                                const std::string &help,
                                                bool lowersCase = false);

/// Defaults of generation for a model.
struct TextDefaults {
  std::vector<int64_t> ends; ///< Tokens that end a sequence.
  /// Sampling parameters of the model's generation_config.json, if that file
  /// asks for sampling; `samples` is then true. Otherwise generation is greedy,
  /// and only the repetition penalty comes from the file.
  SamplingOptions sampling;
  bool samples = false;
};

/// Reads the defaults from the model's config.json (end tokens only), from the
/// tokenizer's end token if `tokenizer` is not null, and from
/// generation_config.json. Throws H0370 if generation_config.json has a token
/// outside the vocabulary, and H0373 if it has an impossible sampling
/// parameter.
TextDefaults textDefaults(const plan::Plan &plan, const JobOptions &options,
                          const io::Tokenizer *tokenizer);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_MODELTEXT_H
