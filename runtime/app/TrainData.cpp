//===- TrainData.cpp - The data of a training run -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses between --data and --inputs, checks all tokens, and finds the
// position of a resumed run.
//
//===----------------------------------------------------------------------===//

#include "TrainData.h"

#include <array>
#include <chrono>

using namespace heddle;
using namespace heddle::rt;

TrainData::TrainData(Job &job, const TrainOptions &options)
    : job(job), options(options),
      batch(batchOf(job.plan(), plan::ProgramKind::Train)) {
  job.ranks().together([&] {
    if (!options.inputs.empty()) {
      given = std::make_unique<InputFile>(options.inputs, job.plan(),
                                          plan::ProgramKind::Train);
      if (!given->hasLabels(0, given->rows()))
        failNoLabel(*given);
    } else {
      masking = Masking::of(job.plan(), options.mask);
      source = std::make_unique<DataFeed>(parseData(options.data), batch);
      for (int64_t i = 0; i < source->numFiles(); ++i)
        if (std::string remark = source->file(i).remark(); !remark.empty())
          lines.push_back(remark);
    }
  });
}

void TrainData::read(const BatchInputs &inputs, int64_t step) {
  if (given)
    return inputs.read(*given, step * batch.rows);
  inputs.read(*source, (step - first) * batch.rows,
              masking ? &*masking : nullptr,
              {seed, 0, uint32_t(step), Masking::training});
}

io::DataState TrainData::stateAfter(int64_t steps) {
  if (source)
    return source->state((steps - first) * batch.rows);
  io::DataState state;
  state.rows = steps * batch.rows;
  state.tokens = state.rows * batch.seq;
  state.batch = batch.rows;
  state.seq = batch.seq;
  return state;
}

//===----------------------------------------------------------------------===//
// Check of all tokens
//===----------------------------------------------------------------------===//

void TrainData::check(const Evaluation *validation) {
  if (options.dataCheck != "all" || (given && !validation))
    return;
  auto begin = std::chrono::steady_clock::now();
  int64_t tokens = 0, bytes = 0;
  auto look = [&](const io::TokenFile &file, int64_t count) {
    tokens += count;
    bytes += count * file.tokenBytes();
    std::string digest = scanTokens(job, file, count);
    isWhole &= !digest.empty();
    return digest;
  };
  for (int64_t i = 0; source && i < source->numFiles(); ++i)
    source->setDigest(i, look(source->file(i), source->file(i).size()));
  if (validation)
    look(validation->file(), validation->tokensRead());
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  std::array<char, 96> text;
  snprintf(text.data(), text.size(),
           "checked %lld tokens in %.3f s (%.2f GB/s)",
           static_cast<long long>(tokens), time.count(),
           double(bytes) / 1e9 / time.count());
  lines.push_back(text.data());
}

//===----------------------------------------------------------------------===//
// Start and resumption
//===----------------------------------------------------------------------===//

void TrainData::begin(uint64_t newSeed) {
  seed = newSeed;
  if (options.shuffle)
    source->shuffle(seed);
}

static std::string describe(const std::string &file, int64_t tokens,
                            const std::string &digest) {
  return file + " (" + std::to_string(tokens) + " tokens" +
         (digest.empty() ? "" : ", xxh3 " + digest) + ")";
}

/// Describes how the given data differs from the data of the saved run, so that
/// the run cannot continue at the saved position. Returns "" if it does not
/// differ.
static std::string differenceOf(const io::DataState &saved,
                                const io::DataState &given) {
  if (saved.sources.size() != given.sources.size())
    return "it read " + std::to_string(saved.sources.size()) +
           " files, and there are " + std::to_string(given.sources.size());
  for (size_t i = 0; i < saved.sources.size(); ++i) {
    const io::DataSourceState &was = saved.sources[i], &is = given.sources[i];
    bool known = !was.digest.empty() && !is.digest.empty();
    if (known ? was.digest != is.digest : was.tokens != is.tokens)
      return "it read " + describe(was.file, was.tokens, was.digest) +
             ", not " + describe(is.file, is.tokens, is.digest);
  }
  if (saved.shuffle && !given.shuffle)
    return "its rows were permuted (--shuffle)";
  if (!saved.shuffle && given.shuffle)
    return "its rows were not permuted (--shuffle)";
  if (saved.shuffle != given.shuffle)
    return "its rows were permuted with --seed " +
           std::to_string(*saved.shuffle);
  return "";
}

/// Throws H0368 if this run cannot continue at the next token because its data
/// differs from that of the saved run. The user may allow other data by
/// --data-position keep.
void TrainData::requireSame(const io::DataState &saved) const {
  io::DataState given = source->state(0);
  std::string difference = differenceOf(saved, given);
  bool cuts = saved.shuffle && given.shuffle && saved.seq != given.seq;
  bool sameFiles = saved.sources.size() == given.sources.size();
  std::string start = "--data-position start to begin the data again";
  if (cuts || (!sameFiles && !difference.empty()))
    fail("H0368",
         "the data cannot go on where the checkpoint ends: " +
             (sameFiles
                  ? "it was in the middle of permuted rows of " +
                        std::to_string(saved.seq) + " tokens, and rows have " +
                        std::to_string(given.seq)
                  : difference),
         "give what the run had that saved it, or " + start);
  if (!difference.empty() && options.dataPosition != "keep")
    fail("H0368", "the checkpoint was saved with other data: " + difference,
         "give the same, or --data-position keep to go on with the same token "
         "of this, or " +
             start);
}

void TrainData::resumeOld(const io::CheckpointState &state) {
  if (source->numFiles() > 1 ||
      (state.shuffled != options.shuffle && options.dataPosition != "keep"))
    fail("H0368",
         std::string("the checkpoint was saved with other data: it read one "
                     "file, ") +
             (state.shuffled ? "with" : "without") + " --shuffle",
         "give the same, or --data-position start to begin the data again");
  source->resumeSteps(state.dataSteps);
  if (state.planHash != job.plan().hash)
    lines.push_back("the checkpoint does not say which batch it was saved "
                    "with: the data goes on after " +
                    std::to_string(state.dataSteps) + " batches of " +
                    std::to_string(batch.rows) + " x " +
                    std::to_string(batch.seq) + " tokens");
}

void TrainData::resume(const io::CheckpointState &state, uint64_t newSeed) {
  first = state.step;
  if (given) // The rows of --inputs depend only on the step number.
    return;
  begin(newSeed);
  // If a signal ended the check of tokens early, the data has no hash to
  // compare with that of the checkpoint.
  if (options.dataPosition == "start" || !isWhole)
    return;
  job.ranks().together([&] {
    if (!state.data)
      return resumeOld(state);
    const io::DataState &saved = *state.data;
    requireSame(saved);
    bool sameMix = true;
    io::DataState given = source->state(0);
    for (size_t i = 0; i < saved.sources.size(); ++i)
      sameMix &= saved.sources[i].weight == given.sources[i].weight &&
                 saved.sources[i].tokens == given.sources[i].tokens;
    source->resume(saved, sameMix);
    if (saved.batch == batch.rows && saved.seq == batch.seq)
      return;
    io::DataSourceState first = source->state(0).sources.front();
    lines.push_back("the batch was " + std::to_string(saved.batch) + " x " +
                    std::to_string(saved.seq) +
                    " tokens: the data goes on at token " +
                    std::to_string(first.origin + first.row * batch.seq) +
                    " of " + first.file);
  });
}
