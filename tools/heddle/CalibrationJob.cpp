//===- CalibrationJob.cpp - Prepares the calibration of `heddle quantize` -===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prepares the calibration of a quantization: writes token files of its texts,
// and compiles the model such that each layer's activations can be read.
//
//===----------------------------------------------------------------------===//

#include "CalibrationJob.h"
#include "CompileJob.h"
#include "heddle/runtime/io/CacheDirectory.h"
#include "heddle/runtime/io/FileKind.h"
#include "heddle/runtime/io/TokenFile.h"
#include <algorithm>

using namespace heddle;
using namespace heddle::driver;

/// The number of tokens of one run of the model. It is large enough for fast
/// products, and small enough that the logits of the tokens fit memory.
static constexpr int64_t tokensOfRun = 1024;
static constexpr int64_t defaultSeq = 512;

static config::ModelSpec readModel(const std::string &path) {
  config::ModelRequest request;
  request.path = path;
  config::ModelSpec spec = config::readModelSpec(request);
  if (spec.objective != plan::Objective::NextToken)
    fail("H0113", path + " predicts masked tokens, which no text is read for",
         "leave out --calibration and --eval-data");
  return spec;
}

/// Returns the prefix that the paths of all temporary files begin with. The
/// files are in the directory of the output.
static std::string stemOf(std::string output) {
  while (output.size() > 1 && output.back() == '/')
    output.pop_back();
  return output + ".calibration-";
}

CalibrationJob::CalibrationJob(const std::string &model,
                               const CalibrationFlags &flags,
                               const std::string &output)
    : spec(readModel(model)),
      directory(stemOf(output), io::Temporary::Kind::Directory, output),
      rowTokens(flags.seq > 0 ? flags.seq
                              : std::min(spec.maxPositions, defaultSeq)) {
  bool calibrates = !flags.file.empty();
  text.file =
      tokensOf(calibrates ? flags.file : flags.evalFile, "calibration.bin");
  text.rows = rowsIn(text.file);
  if (calibrates)
    text.rows = std::min(flags.rows, text.rows);
  rowsOfRun = std::clamp<int64_t>(tokensOfRun / rowTokens, 1, text.rows);
  text.rows -= text.rows % rowsOfRun;
  if (calibrates) {
    chooseEvaluated(flags);
    return;
  }
  name = flags.evalFile;
  evaluation = text;
  text.rows = 0;
}

std::string CalibrationJob::pathOf(const char *file) const {
  return directory.path() + "/" + file;
}

/// Returns the path of a token file: `file` itself if it is one, otherwise a
/// new file with the tokens of the text in `file`.
std::string CalibrationJob::tokensOf(const std::string &file,
                                     const char *as) const {
  // If the model has no tokenizer, the bytes of a text are its tokens.
  if (!io::pathExists(spec.directory + "/tokenizer.json") ||
      !io::pathExists(file) ||
      !io::isText(*io::MappedFile::open(file, "H0340")))
    return file;
  io::PrepareOptions options;
  options.inputs = {file};
  options.tokenizer = spec.directory;
  options.output = pathOf(as);
  io::prepareTokens(options);
  return options.output;
}

/// Returns the number of rows in a token file. Throws an error if there is
/// none.
int64_t CalibrationJob::rowsIn(const std::string &file) const {
  io::TokenFile tokens = io::TokenFile::open(file, spec.vocabSize);
  tokens.requireSize(rowTokens + 1,
                     "one row of " + std::to_string(rowTokens) + " tokens");
  return (tokens.size() - 1) / rowTokens;
}

/// Chooses the text for the perplexity. It is the text of --eval-data, if that
/// is given. Otherwise it is the rows of the calibration text that the
/// calibration does not use, or all its rows if it uses all of them.
void CalibrationJob::chooseEvaluated(const CalibrationFlags &flags) {
  auto whole = [&](int64_t rows) {
    rows = std::min(rows, flags.rows);
    return rows - rows % rowsOfRun;
  };
  if (!flags.evalFile.empty()) {
    name = flags.evalFile;
    evaluation.file = tokensOf(flags.evalFile, "evaluation.bin");
    evaluation.rows = whole(rowsIn(evaluation.file));
    io::TokenFile::open(evaluation.file, spec.vocabSize)
        .requireSize(rowsOfRun * rowTokens + 1,
                     std::to_string(rowsOfRun) + " rows of " +
                         std::to_string(rowTokens) + " tokens");
    return;
  }
  io::TokenFile tokens = io::TokenFile::open(text.file, spec.vocabSize);
  int64_t rows = whole(rowsIn(text.file) - text.rows);
  if (rows == 0) {
    name = "the rows of the calibration";
    evaluation = text;
    return;
  }
  name = "the rows after those of the calibration";
  evaluation = {pathOf("evaluation.bin"), rows};
  std::vector<int32_t> ids(rows * rowTokens + 1);
  tokens.read(text.rows * rowTokens, int64_t(ids.size()), spec.vocabSize,
              ids.data());
  io::TokenWriter writer(evaluation.file, spec.vocabSize);
  writer.append(ids.data(), int64_t(ids.size()));
  writer.finish();
}

int CalibrationJob::compile(bool sequential) {
  std::string rows = std::to_string(rowsOfRun);
  CompileJob job;
  job.settings = config::resolveSettings({{"--batch", rows},
                                          {"--micro-batch", rows},
                                          {"--seq", std::to_string(rowTokens)},
                                          {"--max-context", "1"}},
                                         "");
  job.model = spec;
  settleSettings(job);
  job.output = pathOf("layers");
  job.cache = io::cacheDirectory();
  job.splitLayers =
      sequential ? LayerPrograms::Sequential : LayerPrograms::AtOnce;
  if (int exitCode = runCompileJob(job).exitCode)
    return exitCode;
  ready = std::make_unique<quantize::Calibration>(job.output, text);
  return 0;
}
