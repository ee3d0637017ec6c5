//===- Encode.cpp - The verb encode ---------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `encode` computes the embeddings of the texts on its command line or in a
// file.
//
//===----------------------------------------------------------------------===//

#include "CompiledEncoder.h"
#include "ModelText.h"
#include "Prompt.h"
#include "SentenceText.h"
#include "heddle/runtime/app/Weights.h"
#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/Process.h"
#include "heddle/runtime/io/Safetensors.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::rt;

/// Returns the tokens of all texts, truncated as the model or a flag says.
static std::vector<EncoderText> readTexts(const EncodeOptions &options,
                                          const Job &job, int64_t maxTokens) {
  const plan::Plan &plan = job.plan();
  SentenceText sentence = readSentenceText(
      modelDirectory(plan, options.job), plan.maxPositions, options.promptName);
  if (options.truncates)
    sentence.rules.cutAt(maxTokens);
  const int64_t cutAt = sentence.rules.maxTokens;
  std::vector<EncoderText> texts;
  for (const std::string &ids : options.ids)
    texts.push_back({parseIds(ids, "--ids")});
  auto isCut = [&](const EncoderText &text) {
    return cutAt > 0 && int64_t(text.tokens.size()) > cutAt;
  };
  std::unique_ptr<io::Tokenizer> tokenizer;
  if (!options.texts.empty())
    tokenizer = requireTokenizer(plan, options.job,
                                 "give the texts as tokens: --ids 1,2,3",
                                 sentence.lowersCase);
  else if (std::any_of(texts.begin(), texts.end(), isCut))
    // A text that is given as token ids is too long and will be truncated.
    // Truncation must keep the special tokens at the end of the text, and only
    // the tokenizer can tell which these are.
    tokenizer = findTokenizer(plan, options.job);
  const TextPreparer preparer(tokenizer.get(), sentence.rules);
  for (const std::string &text : options.texts)
    texts.push_back(preparer.prepare(text, *preparer.findPrompt("")));
  const char *fuller = "give texts with --text, or tokens with --ids";
  if (texts.empty())
    fail("H0195", "there is no text", fuller);
  int64_t cuts = 0;
  for (EncoderText &text : texts) {
    checkPrompt(text.tokens, plan.vocabSize, fuller);
    cuts += isCut(text) && preparer.cut(text, cutAt);
    checkPromptLength(text.tokens, maxTokens,
                      "give a shorter text, or --truncate");
  }
  if (cuts > 0 && !options.truncates && job.isFirst())
    fprintf(stderr, "%lld of %lld texts cut at %lld tokens: %s\n",
            static_cast<long long>(cuts), static_cast<long long>(texts.size()),
            static_cast<long long>(cutAt), sentence.cutBy.c_str());
  return texts;
}

namespace {

/// The results of all texts.
struct Encoded {
  /// The embeddings, with the shape [texts][width].
  std::vector<float> embeddings;
  /// Logits [texts][tokens of the longest text][vocab]; 0 after the end of a
  /// text.
  std::vector<float> logits;
  std::vector<int32_t> lengths;
  int64_t longest = 0;
};

} // namespace

/// Encodes all texts in batches. Texts of similar length, which use the same
/// program, are encoded together.
static void encodeTogether(CompiledEncoder &encoder,
                           const std::vector<EncoderText> &texts,
                           Encoded &made) {
  const int64_t width = encoder.limits().width;
  std::vector<size_t> left(texts.size());
  for (size_t i = 0; i < left.size(); ++i)
    left[i] = i;
  while (!left.empty()) {
    std::vector<const EncoderText *> waiting;
    for (size_t i : left)
      waiting.push_back(&texts[i]);
    std::vector<size_t> batch = nextBatch(encoder, waiting);
    std::vector<const EncoderText *> rows;
    for (size_t i : batch)
      rows.push_back(waiting[i]);
    std::vector<float> found(rows.size() * width);
    encoder.compute(rows, found.data());
    for (size_t row = 0; row < batch.size(); ++row)
      std::copy_n(found.data() + row * width, width,
                  made.embeddings.data() + left[batch[row]] * width);
    for (size_t row = batch.size(); row-- > 0;)
      left.erase(left.begin() + batch[row]);
  }
}

/// Encodes texts one by one, and computes the logits of each text.
static void scoreEach(CompiledEncoder &encoder,
                      const std::vector<EncoderText> &texts, Encoded &made) {
  const EncoderLimits &limits = encoder.limits();
  made.logits.resize(texts.size() * made.longest * limits.vocab);
  for (size_t i = 0; i < texts.size(); ++i)
    encoder.score(texts[i], made.embeddings.data() + i * limits.width,
                  made.logits.data() + i * made.longest * limits.vocab);
}

static void write(const EncodeOptions &options, const EncoderLimits &limits,
                  const Encoded &made) {
  int64_t texts = made.lengths.size();
  std::vector<io::TensorToWrite> tensors = {{"embeddings",
                                             "F32",
                                             {texts, limits.width},
                                             made.embeddings.data(),
                                             nullptr}};
  if (options.logits) {
    tensors.push_back({"logits",
                       "F32",
                       {texts, made.longest, limits.vocab},
                       made.logits.data(),
                       nullptr});
    tensors.push_back(
        {"lengths", "I32", {texts}, made.lengths.data(), nullptr});
  }
  io::writeSafetensors(options.output, tensors);
}

/// Prints one line: the shape, and each vector's length and first elements.
static void print(const EncoderLimits &limits, const Encoded &made) {
  auto norms = nlohmann::ordered_json::array(), firsts = norms;
  for (size_t i = 0; i < made.lengths.size(); ++i) {
    const float *row = made.embeddings.data() + i * limits.width;
    double squares = 0;
    for (int64_t j = 0; j < limits.width; ++j)
      squares += double(row[j]) * row[j];
    norms.push_back(std::sqrt(squares));
    firsts.push_back(
        std::vector<float>(row, row + std::min<int64_t>(4, limits.width)));
  }
  nlohmann::ordered_json json;
  json["shape"] = {int64_t(made.lengths.size()), limits.width};
  json["tokens"] = made.lengths;
  json["norms"] = norms;
  json["first"] = firsts;
  printf("%s\n", json.dump().c_str());
  io::flushStandardOutput();
}

int heddle::rt::runEncode(const EncodeOptions &options, Ranks &ranks) {
  Job job(options.job, ranks);
  std::unique_ptr<CompiledEncoder> encoder;
  std::vector<EncoderText> texts;
  Encoded made;
  ranks.together([&] {
    io::requireApart({{"--weights", readDirectory(job.plan(), options.job)}},
                     {{"-o", options.output}});
    encoder = std::make_unique<CompiledEncoder>(
        job,
        findPooling(modelDirectory(job.plan(), options.job), options.pooling));
    texts = readTexts(options, job, encoder->limits().maxTokens);
    made.embeddings.resize(texts.size() * encoder->limits().width);
    for (const EncoderText &text : texts) {
      made.lengths.push_back(int32_t(text.tokens.size()));
      made.longest = std::max(made.longest, int64_t(text.tokens.size()));
    }
  });
  loadWeights(job, options.job);
  if (options.logits)
    scoreEach(*encoder, texts, made);
  else
    encodeTogether(*encoder, texts, made);
  ranks.together([&] {
    if (job.isFirst() && !options.output.empty())
      write(options, encoder->limits(), made);
    else if (job.isFirst())
      print(encoder->limits(), made);
  });
  return 0;
}
