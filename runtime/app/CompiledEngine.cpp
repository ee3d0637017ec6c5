//===- CompiledEngine.cpp - Generation with a compiled binary -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fills the inputs of prefill and decode programs with tokens, runs the
// programs, and gathers logits on rank 0. Rank 0 also tells the other ranks
// which tokens of which sequences to run.
//
//===----------------------------------------------------------------------===//

#include "CompiledEngine.h"
#include "heddle/PlanFormat/Draft.h"
#include "heddle/PlanFormat/Serving.h"
#include "heddle/runtime/core/ProgramNeeds.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/Safetensors.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;

using plan::PortRole;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Returns the program's input with the role `role` (what the input is for).
/// The program must have this input. Callers ask for the lengths of rows and
/// the positions of tokens, which are inputs of the programs of every pipeline
/// stage.
static const Value &inputOf(const LoadedProgram &program, PortRole role) {
  const Value *input = program.input(role);
  if (!input)
    fail("H0385",
         "the program " + program.program().name + " has no input \"" +
             plan::nameOf(role) + "\"",
         "compile the binary again");
  return *input;
}

int64_t CompiledEngine::rowsOf(const LoadedProgram &program) {
  return inputOf(program, PortRole::Positions).shape.at(0);
}

int64_t CompiledEngine::tokensOf(const LoadedProgram &program) {
  return inputOf(program, PortRole::Positions).shape.at(1);
}

CompiledEngine::CompiledEngine(Job &job) : job(job), programs(job.session()) {
  for (const LoadedProgram &program : job.session().allPrograms())
    switch (program.program().kind) {
    case plan::ProgramKind::Prefill:
      prefills.push_back(&program);
      break;
    case plan::ProgramKind::Decode:
      decodes.push_back(&program);
      break;
    case plan::ProgramKind::Score:
      scoring = &program;
      break;
    default:
      break;
    }
  if (prefills.empty())
    failNoProgram(job.plan(), plan::ProgramKind::Prefill);
  if (decodes.empty())
    failNoProgram(job.plan(), plan::ProgramKind::Decode);
  auto sizeOf = [](const LoadedProgram *program) {
    return rowsOf(*program) * tokensOf(*program);
  };
  for (auto *sizes : {&prefills, &decodes}) {
    std::sort(sizes->begin(), sizes->end(),
              [&](const LoadedProgram *a, const LoadedProgram *b) {
                return sizeOf(a) < sizeOf(b);
              });
    for (const LoadedProgram *program : *sizes)
      programs.add(*program);
  }
  if (scoring)
    programs.add(*scoring);
  const plan::Plan &plan = job.plan();
  const std::map<std::string, double> costs = costsOf(plan);
  std::vector<PromptCuts::Program> choices;
  for (const LoadedProgram *program : prefills)
    choices.push_back({tokensOf(*program), costs.at(program->program().name)});
  cuts = PromptCuts(choices);
  most = {plan.vocabSize,       plan.serving.maxBatch,
          cuts.most(),          plan::cachePageTokens,
          plan.serving.pages,   plan.serving.maxContext,
          plan.serving.window,  plan::mostGuesses(plan),
          plan::groupsOf(plan), scoring ? tokensOf(*scoring) : 0};
  ownGroup = plan.mesh.coordinate(job.ranks().rank(), plan::groupAxes(plan));
  findSpeakers();
}

/// Returns the pipeline stage whose programs have logits.
static int64_t stageOfLogits(const plan::Plan &plan) {
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (const plan::Program &program : plan.stages[stage].programs)
      for (const plan::Port &port : program.outputs)
        if (program.kind == plan::ProgramKind::Decode &&
            port.role == PortRole::Logits)
          return int64_t(stage);
  fail("H0385", "no program that continues texts gives logits",
       "compile the binary again");
}

void CompiledEngine::findSpeakers() {
  const plan::Plan &plan = job.plan();
  const plan::AxisNames axes = plan::groupAxes(plan);
  const int64_t stage = stageOfLogits(plan);
  hasLogits = plan.mesh.stageOf(job.ranks().rank()) == stage;
  logitsRanks.assign(most.groups, -1);
  for (int64_t rank = plan.mesh.ranks(); rank-- > 0;)
    if (plan.mesh.stageOf(rank) == stage)
      logitsRanks[plan.mesh.coordinate(rank, axes)] = rank;
}

const LoadedProgram &CompiledEngine::decodeProgram(int64_t texts) const {
  for (const LoadedProgram *program : decodes)
    if (rowsOf(*program) >= texts)
      return *program;
  return *decodes.back();
}

std::vector<const LoadedProgram *>
CompiledEngine::prefillPrograms(int64_t tokens) const {
  std::vector<const LoadedProgram *> programs;
  while (tokens > 0) {
    programs.push_back(prefills[cuts.firstOf(tokens)]);
    tokens -= tokensOf(*programs.back());
  }
  return programs;
}

//===----------------------------------------------------------------------===//
// Inputs and outputs
//===----------------------------------------------------------------------===//

/// Writes the inputs of a program. Each row of the batch gets the tokens of one
/// feed (a sequence's tokens for this run). A row's length is the number of its
/// tokens; rows without a feed have length 0, and tokens after the length are
/// ignored.
void CompiledEngine::fill(const LoadedProgram &program,
                          const std::vector<const Feed *> &feeds) {
  auto isThere = [&](int64_t row, int64_t token) {
    return row < int64_t(feeds.size()) &&
           token < int64_t(feeds[row]->tokens.size());
  };
  programs.fill(program, PortRole::Ids, [&](int64_t row, int64_t token) {
    return isThere(row, token) ? feeds[row]->tokens[token] : 0;
  });
  programs.fill(program, PortRole::Positions, [&](int64_t row, int64_t token) {
    return isThere(row, token) ? int32_t(feeds[row]->position + token) : 0;
  });
  programs.fill(program, PortRole::Lengths, [&](int64_t row, int64_t) {
    return isThere(row, 0) ? int32_t(feeds[row]->tokens.size()) : 0;
  });
  programs.fill(program, PortRole::Pages, [&](int64_t row, int64_t number) {
    return isThere(row, 0) && number < int64_t(feeds[row]->pages.size())
               ? std::max(feeds[row]->pages[number], 0) // May be noPage.
               : 0;
  });
  programs.fill(program, PortRole::Position, [&](int64_t, int64_t) {
    return int32_t(feeds[0]->tokens.size()) - 1;
  });
}

void CompiledEngine::runOn(const LoadedProgram &program,
                           const std::vector<const Feed *> &feeds) {
  fill(program, feeds);
  programs.run(program);
}

void CompiledEngine::takeLogits(const LoadedProgram &program, int64_t row,
                                float *logits) {
  if (!hasLogits)
    return;
  const Value *port = program.output(PortRole::Logits);
  if (!port)
    fail("H0385", "the program " + program.program().name + " gives no logits",
         "compile the binary again");
  int64_t width = port->shape.back() * plan::byteSize(port->type);
  const char *data = programs.result(program, *port) + row * width;
  io::convertElements(data, plan::nameOf(port->type), logits, "F32",
                      most.vocab);
}

//===----------------------------------------------------------------------===//
// Running feeds
//===----------------------------------------------------------------------===//

/// Returns a feed that has only one token of `feed`. The decode program takes
/// one token per row, so several tokens of a sequence need several rows. A row
/// attends to the tokens of the rows before it, because in every layer all rows
/// write to the key-value cache before any row reads it. The compiler keeps to
/// that only if a draft guesses tokens: if `maxGuesses` is not 0.
static Feed rowOf(const Feed &feed, size_t token) {
  return {feed.sequence,
          {feed.tokens[token]},
          feed.position + int64_t(token),
          feed.pages,
          0,
          feed.group};
}

void CompiledEngine::compute(const std::vector<Feed> &feeds, float *logits) {
  job.ranks().beginStep(++numRuns);
  std::vector<Feed> rows;
  // Where to write the logits of each row; null for a row whose logits are not
  // wanted.
  std::vector<float *> places;
  for (const Feed &feed : feeds) {
    float *place = logits;
    int64_t count = int64_t(feed.tokens.size());
    logits += feed.numLogits * most.vocab;
    if (feed.group != ownGroup)
      continue;
    if (count <= 1 + most.maxGuesses) {
      for (int64_t token = 0; token < count; ++token) {
        bool isWanted = token >= count - feed.numLogits;
        rows.push_back(rowOf(feed, size_t(token)));
        places.push_back(isWanted ? place : nullptr);
        place += isWanted ? most.vocab : 0;
      }
      continue;
    }
    if (feed.numLogits > 1) {
      score(feed, place);
      continue;
    }
    prefill(feed, place);
  }
  if (rows.empty())
    return;
  std::vector<const Feed *> pointers;
  for (const Feed &row : rows)
    pointers.push_back(&row);
  const LoadedProgram &program = decodeProgram(int64_t(rows.size()));
  runOn(program, pointers);
  for (size_t row = 0; row < rows.size(); ++row)
    if (places[row])
      takeLogits(program, int64_t(row), places[row]);
}

void CompiledEngine::prefill(const Feed &feed, float *logits) {
  Feed part = feed;
  auto at = feed.tokens.begin();
  for (const LoadedProgram *program :
       prefillPrograms(int64_t(feed.tokens.size()))) {
    int64_t count =
        std::min<int64_t>(tokensOf(*program), feed.tokens.end() - at);
    part.tokens.assign(at, at + count);
    runOn(*program, {&part});
    at += count;
    part.position += count;
    if (at == feed.tokens.end() && feed.numLogits > 0)
      takeLogits(*program, 0, logits);
  }
}

int64_t CompiledEngine::scoreTokens() const {
  if (!scoring)
    failNoProgram(job.plan(), plan::ProgramKind::Score);
  return tokensOf(*scoring);
}

void CompiledEngine::score(const Feed &feed, float *logits) {
  if (feed.group != ownGroup)
    return;
  runOn(*scoring, {&feed});
  for (size_t token = 0; token < feed.tokens.size(); ++token)
    takeLogits(*scoring, int64_t(token), logits + token * most.vocab);
}

//===----------------------------------------------------------------------===//
// Communication between ranks
//===----------------------------------------------------------------------===//

std::pair<std::unique_ptr<CompiledEngine>, std::unique_ptr<CompiledEngine>>
CompiledEngine::withDraft(Job &job, Job &draft) {
  auto model = std::make_unique<CompiledEngine>(job);
  auto guesses = std::make_unique<CompiledEngine>(draft);
  guesses->isDraft = true;
  model->draft = guesses.get();
  return {std::move(model), std::move(guesses)};
}

/// The first byte of rank 0's message to other ranks. It says whether the
/// target model or its draft model computes the tokens in the message.
static constexpr char forModel = '+', forDraft = '?';

/// Returns the message that tells the other ranks which tokens to compute.
/// `whose` is `forModel` or `forDraft`: the model that computes them.
static std::string pack(char whose, const std::vector<Feed> &feeds) {
  std::string text(1, whose);
  auto add = [&](const void *data, size_t bytes) {
    text.append(static_cast<const char *>(data), bytes);
  };
  auto addList = [&](const std::vector<int32_t> &list) {
    uint64_t size = list.size();
    add(&size, sizeof size);
    add(list.data(), size * sizeof(int32_t));
  };
  for (const Feed &feed : feeds) {
    add(&feed.sequence, sizeof feed.sequence);
    add(&feed.position, sizeof feed.position);
    add(&feed.numLogits, sizeof feed.numLogits);
    add(&feed.group, sizeof feed.group);
    addList(feed.tokens);
    addList(feed.pages);
  }
  return text;
}

static std::vector<Feed> unpack(const std::string &text) {
  std::vector<Feed> feeds;
  size_t at = 1;
  auto take = [&](void *data, size_t bytes) {
    text.copy(static_cast<char *>(data), bytes, at);
    at += bytes;
  };
  auto takeList = [&](std::vector<int32_t> &list) {
    uint64_t size = 0;
    take(&size, sizeof size);
    list.resize(size);
    take(list.data(), size * sizeof(int32_t));
  };
  while (at < text.size()) {
    Feed &feed = feeds.emplace_back();
    take(&feed.sequence, sizeof feed.sequence);
    take(&feed.position, sizeof feed.position);
    take(&feed.numLogits, sizeof feed.numLogits);
    take(&feed.group, sizeof feed.group);
    takeList(feed.tokens);
    takeList(feed.pages);
  }
  return feeds;
}

void CompiledEngine::gatherLogits(const std::vector<Feed> &feeds,
                                  float *logits) {
  std::vector<GatheredPart> parts;
  for (const Feed &feed : feeds) {
    int64_t count = feed.numLogits * most.vocab;
    if (count > 0)
      parts.push_back({int(logitsRank(feed.group)), logits,
                       count * int64_t(sizeof(float))});
    logits += count;
  }
  job.ranks().gather(parts);
}

void CompiledEngine::run(const std::vector<Feed> &feeds, float *logits) {
  if (job.ranks().size() > 1)
    job.ranks().tell(pack(isDraft ? forDraft : forModel, feeds));
  compute(feeds, logits);
  gatherLogits(feeds, logits);
}

void CompiledEngine::follow() {
  std::vector<float> logits;
  while (true) {
    std::string told = job.ranks().tell();
    if (told.empty())
      return;
    std::vector<Feed> feeds = unpack(told);
    logits.resize(countLogits(feeds) * most.vocab);
    CompiledEngine &whose = told.front() == forDraft ? *draft : *this;
    whose.compute(feeds, logits.data());
    whose.gatherLogits(feeds, logits.data());
  }
}

void CompiledEngine::finish() {
  if (job.ranks().size() > 1)
    job.ranks().tell();
}
