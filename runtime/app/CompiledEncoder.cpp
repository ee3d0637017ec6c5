//===- CompiledEncoder.cpp - Embeddings with a compiled binary ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the program for each batch of texts by estimated cost, distributes
// texts over the replicas (groups of ranks along the mesh axis `data`), and
// gathers the embeddings on rank 0.
//
//===----------------------------------------------------------------------===//

#include "CompiledEncoder.h"
#include "heddle/PlanFormat/Serving.h"
#include "heddle/runtime/core/ProgramNeeds.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/Safetensors.h"

#include <algorithm>
#include <cmath>
#include <tuple>

using namespace heddle;
using namespace heddle::rt;

using plan::PortRole;

static const Value &hiddenOf(const LoadedProgram &program) {
  const Value *hidden = program.output(PortRole::Hidden);
  if (!hidden || hidden->shape.size() != 3)
    fail("H0385",
         "the program " + program.program().name + " gives no hidden states",
         "compile the binary again");
  return *hidden;
}

static int64_t rowsOf(const LoadedProgram &program) {
  return hiddenOf(program).shape[0];
}

static int64_t tokensOf(const LoadedProgram &program) {
  return hiddenOf(program).shape[1];
}

static bool givesLogits(const LoadedProgram &program) {
  return program.output(PortRole::Logits) != nullptr;
}

CompiledEncoder::CompiledEncoder(Job &job, Pooling made)
    : job(job), pooling(std::move(made)), programs(job.session()) {
  for (const LoadedProgram &program : job.session().allPrograms())
    if (program.program().kind == plan::ProgramKind::Encode)
      sizes.push_back(&program);
  if (sizes.empty())
    failNoProgram(job.plan(), plan::ProgramKind::Encode);
  auto keyOf = [](const LoadedProgram *program) {
    return std::tuple(tokensOf(*program), rowsOf(*program));
  };
  std::sort(sizes.begin(), sizes.end(),
            [&](const LoadedProgram *a, const LoadedProgram *b) {
              return keyOf(a) < keyOf(b);
            });
  for (const LoadedProgram *program : sizes)
    programs.add(*program);
  const LoadedProgram &largest = *sizes.back();
  const plan::Plan &plan = job.plan();
  costs = costsOf(plan);
  most = {plan.vocabSize, pooling.widthOf(hiddenOf(largest).shape[2]),
          rowsOf(largest) * plan::groupsOf(plan), tokensOf(largest)};
  ownGroup = plan.mesh.coordinate(job.ranks().rank(), plan::groupAxes(plan));
}

const LoadedProgram &CompiledEncoder::choose(int64_t rows, int64_t tokens,
                                             bool logits) const {
  for (const LoadedProgram *program : sizes)
    if (rowsOf(*program) >= rows && tokensOf(*program) >= tokens &&
        givesLogits(*program) == logits)
      return *program;
  if (logits && std::none_of(sizes.begin(), sizes.end(),
                             [](const LoadedProgram *program) {
                               return givesLogits(*program);
                             }))
    fail("H0191", "this binary gives no logits: the model has no head",
         "leave out --logits");
  fail("H0385",
       "no program encodes " + std::to_string(rows) + " texts of " +
           std::to_string(tokens) + " tokens",
       "compile the binary again");
}

int64_t CompiledEncoder::bucketOf(int64_t tokens) const {
  return tokensOf(choose(1, tokens, /*logits=*/false));
}

/// Runs `program` on `texts`, one in each row of the batch. A row without a
/// text gets one token, since attention over no tokens is undefined.
void CompiledEncoder::runOn(const LoadedProgram &program,
                            const std::vector<const EncoderText *> &texts) {
  auto sizeOf = [&](int64_t row) {
    return row < int64_t(texts.size()) ? int64_t(texts[row]->tokens.size()) : 0;
  };
  programs.fill(program, PortRole::Ids, [&](int64_t row, int64_t token) {
    return token < sizeOf(row) ? texts[row]->tokens[token] : 0;
  });
  programs.fill(program, PortRole::Segments,
                [](int64_t, int64_t) { return 0; });
  programs.fill(program, PortRole::Positions,
                [](int64_t, int64_t token) { return int32_t(token); });
  programs.fill(program, PortRole::Lengths, [&](int64_t row, int64_t) {
    return int32_t(std::max<int64_t>(1, sizeOf(row)));
  });
  programs.run(program);
}

void CompiledEncoder::pool(const LoadedProgram &program, int64_t row,
                           const EncoderText &text, float *embedding) {
  const Value &port = hiddenOf(program);
  const int64_t width = port.shape[2], tokens = int64_t(text.tokens.size());
  hidden.resize(tokens * width);
  const char *first = programs.result(program, port) +
                      row * port.shape[1] * width * plan::byteSize(port.type);
  io::convertElements(first, plan::nameOf(port.type), hidden.data(), "F32",
                      tokens * width);
  pooling.apply(hidden.data(), tokens, text.unpooled, width, embedding);
}

void CompiledEncoder::compute(const std::vector<const EncoderText *> &texts,
                              float *embeddings) {
  job.ranks().beginStep(++numRuns);
  const plan::Plan &plan = job.plan();
  const int64_t groups = plan::groupsOf(plan);
  const auto first = texts.begin();
  std::vector<GatheredPart> parts;
  for (int64_t group = 0; group < groups; ++group) {
    int64_t begin = group * int64_t(texts.size()) / groups;
    int64_t end = (group + 1) * int64_t(texts.size()) / groups;
    float *made = embeddings + begin * most.width;
    if (group == ownGroup && begin < end)
      computeOwn({first + begin, first + end}, made);
    int64_t first = plan.mesh.member(0, plan::groupAxes(plan), group);
    parts.push_back({int(first), made,
                     (end - begin) * most.width * int64_t(sizeof(float))});
  }
  job.ranks().gather(parts);
}

void CompiledEncoder::computeOwn(const std::vector<const EncoderText *> &texts,
                                 float *embeddings) {
  size_t tokens = 0;
  for (const EncoderText *text : texts)
    tokens = std::max(tokens, text->tokens.size());
  const int64_t count = int64_t(texts.size());
  const LoadedProgram &one = choose(1, int64_t(tokens), /*logits=*/false);
  const LoadedProgram &all = choose(count, tokensOf(one), /*logits=*/false);
  // Padding takes as long as real tokens. If the texts differ in length or do
  // not fill the batch, it may be faster to run each text alone (`isApart`).
  const bool isApart = double(count) * costs.at(one.program().name) <
                       costs.at(all.program().name);
  const LoadedProgram &program = isApart ? one : all;
  const size_t together = isApart ? 1 : texts.size();
  for (size_t begin = 0; begin < texts.size(); begin += together) {
    auto first = texts.begin() + begin;
    runOn(program, {first, first + together});
    for (size_t row = 0; row < together; ++row)
      pool(program, int64_t(row), *first[row],
           embeddings + (begin + row) * most.width);
  }
}

void CompiledEncoder::score(const EncoderText &text, float *embedding,
                            float *logits) {
  if (ownGroup != 0)
    return;
  const int64_t tokens = int64_t(text.tokens.size());
  const LoadedProgram &program = choose(1, tokens, /*logits=*/true);
  runOn(program, {&text});
  pool(program, 0, text, embedding);
  const Value &port = *program.output(PortRole::Logits);
  io::convertElements(programs.result(program, port), plan::nameOf(port.type),
                      logits, "F32", tokens * most.vocab);
}

//===----------------------------------------------------------------------===//
// Communication between ranks
//===----------------------------------------------------------------------===//

void CompiledEncoder::run(const std::vector<const EncoderText *> &texts,
                          float *embeddings) {
  if (job.ranks().size() > 1) {
    // The message to the other ranks has, for each text, the number of tokens,
    // the number of tokens that are not pooled, and the tokens.
    Tokens told;
    for (const EncoderText *text : texts) {
      told.push_back(int32_t(text->tokens.size()));
      told.push_back(text->unpooled);
      told.insert(told.end(), text->tokens.begin(), text->tokens.end());
    }
    job.ranks().tell({reinterpret_cast<const char *>(told.data()),
                      told.size() * sizeof(int32_t)});
  }
  compute(texts, embeddings);
}

void CompiledEncoder::follow() {
  while (true) {
    std::string told = job.ranks().tell();
    if (told.empty())
      return;
    std::vector<int32_t> words(told.size() / sizeof(int32_t));
    told.copy(reinterpret_cast<char *>(words.data()), told.size());
    std::vector<EncoderText> texts;
    for (auto at = words.begin(); at != words.end();) {
      auto end = at + 2 + *at;
      texts.push_back({Tokens(at + 2, end), at[1]});
      at = end;
    }
    std::vector<const EncoderText *> rows;
    for (const EncoderText &text : texts)
      rows.push_back(&text);
    std::vector<float> embeddings(rows.size() * most.width);
    compute(rows, embeddings.data());
  }
}

void CompiledEncoder::finish() {
  if (job.ranks().size() > 1)
    job.ranks().tell();
}
