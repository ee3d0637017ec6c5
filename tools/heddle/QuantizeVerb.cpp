//===- QuantizeVerb.cpp - heddle quantize ---------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `heddle quantize`: quantizes a model's weights by rounding or by
// GPTQ, and writes a model directory.
//
//===----------------------------------------------------------------------===//

#include "CalibrationJob.h"
#include "Verbs.h"
#include "heddle/Quantize/QuantizeModel.h"
#include "heddle/runtime/io/File.h"
#include <iostream>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::ordered_json;
using quantize::Method;

namespace {

struct QuantizeFlags {
  quantize::QuantizeRequest request;
  CalibrationFlags calibration;
  std::string method = "rtn", bits = "4", report;
};

/// The perplexities of the model before and after quantization.
struct Perplexities {
  double before = 0, after = 0;
};

} // namespace

static const char *nameOf(Method method) {
  return method == Method::Gptq ? "gptq" : "rtn";
}

static ordered_json weightsOf(const quantize::QuantizeReport &report) {
  ordered_json all = ordered_json::array();
  for (const quantize::QuantizedWeight &weight : report.weights) {
    ordered_json row = {{"name", weight.name},
                        {"method", nameOf(weight.method)},
                        {"inputs", weight.shape[0]},
                        {"outputs", weight.shape[1]},
                        {"bytes_before", weight.bytesBefore},
                        {"bytes_after", weight.bytesAfter},
                        {"error", weight.error}};
    if (weight.outputError)
      row["output_error"] = *weight.outputError;
    all.push_back(std::move(row));
  }
  return all;
}

static ordered_json jsonOf(const QuantizeFlags &flags,
                           const quantize::QuantizeReport &report) {
  return {{"method", flags.method},
          {"bits", flags.request.bits},
          {"group", flags.request.group},
          {"zeros", flags.request.zeros},
          {"bytes_before", report.bytesBefore},
          {"bytes_after", report.bytesAfter},
          {"error", report.error}};
}

static int quantizeModel(const QuantizeFlags &flags) {
  const quantize::QuantizeRequest &request = flags.request;
  std::unique_ptr<CalibrationJob> job;
  Perplexities perplexity;
  if (flags.calibration.isThere()) {
    quantize::checkQuantizable(request);
    job = std::make_unique<CalibrationJob>(request.model, flags.calibration,
                                           request.output);
    if (int exitCode = job->compile(request.sequential))
      return exitCode;
    if (job->calibration().rows() > 0)
      std::cerr << "memory: " << job->calibration().memoryText() << "\n";
    perplexity.before = job->calibration().perplexity(job->evaluated());
  }
  quantize::QuantizeReport report =
      quantize::quantizeModel(request, job ? &job->calibration() : nullptr);
  for (const std::string &warning : report.warnings)
    std::cerr << "warning: " << warning << "\n";
  ordered_json json = jsonOf(flags, report);
  std::cout << request.output << ": " << report.weights.size()
            << " weights with " << request.bits << " bits, "
            << report.bytesAfter << " bytes in place of " << report.bytesBefore
            << ", relative error " << report.error << "\n";
  if (job) {
    perplexity.after = job->calibration().perplexity(job->evaluated());
    if (job->calibration().rows() > 0)
      json["calibration"] = {{"data", flags.calibration.file},
                             {"rows", job->calibration().rows()},
                             {"tokens_of_row", job->seq()}};
    json["perplexity"] = {{"data", job->evaluatedName()},
                          {"rows", job->evaluated().rows},
                          {"tokens_of_row", job->seq()},
                          {"before", perplexity.before},
                          {"after", perplexity.after}};
    std::cout << "perplexity " << perplexity.after << ", before "
              << perplexity.before << ", of " << job->evaluatedName() << "\n";
  }
  json["weights"] = weightsOf(report);
  if (!flags.report.empty())
    io::writeText(flags.report, json.dump(2) + "\n");
  return 0;
}

static void checkUse(const QuantizeFlags &flags) {
  if (flags.request.gptq.largestFirst && flags.request.method != Method::Gptq)
    fail("H0113", "--act-order is for --method gptq",
         "add --method gptq, or leave out --act-order");
  if (flags.request.sequential && flags.request.method != Method::Gptq)
    fail("H0113", "--true-sequential is for --method gptq",
         "add --method gptq, or leave out --true-sequential");
  if (flags.request.method == Method::Gptq && flags.calibration.file.empty())
    fail("H0113", "--method gptq needs a text that the model computes",
         "name one: --calibration FILE");
  if (flags.calibration.seq > 0 && !flags.calibration.isThere())
    fail("H0113", "--seq is for rows of a text, and none is named",
         "add --calibration FILE or --eval-data FILE, or leave out --seq");
}

static void addCalibrationFlags(CLI::App &verb, CalibrationFlags &flags) {
  CLI::Option *text =
      io::addFlag(verb, "--calibration", flags.file, io::range::path(),
                  "A text (.txt) or token file that layers are computed on")
          ->default_str("none");
  io::addFlag(verb, "--calibration-rows", flags.rows,
              io::ValueRange::integers(1, 1 << 20),
              "Rows of it that are computed, at most")
      ->needs(text);
  io::addFlag(verb, "--seq", flags.seq, io::ValueRange::integers(0, 1 << 20),
              "Tokens of a row; 0: the model's positions, at most 512");
  io::addFlag(verb, "--eval-data", flags.evalFile, io::range::path(),
              "A text or token file for the perplexity before and after")
      ->default_str("what --calibration has left; none without");
}

void driver::addQuantizeVerb(CLI::App &app, Action &action) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App *verb = app.add_subcommand(
      "quantize", "Write a model with codes of 8 or 4 bits for its weights");
  io::addFlag(*verb, "DIR", flags->request.model, io::range::path(),
              "A Hugging Face directory")
      ->required()
      ->default_str("");
  io::addFlag(*verb, "-o,--output", flags->request.output, io::range::path(),
              "The directory to write, in GPTQ's layout")
      ->required()
      ->default_str("");
  io::addFlag(*verb, "--method", flags->method,
              io::ValueRange::choices({"rtn", "gptq"}),
              "rtn: round to the nearest; gptq: make up for errors, as the "
              "calibration says");
  io::addFlag(*verb, "--bits", flags->bits, io::ValueRange::choices({"8", "4"}),
              "Of a code: 8 or 4");
  io::addFlag(*verb, "--quantize-group,--group", flags->request.group,
              io::ValueRange::integers(0, 1 << 20),
              "Inputs that share a scale; 0: all");
  verb->add_flag("--zeros", flags->request.zeros,
                 "Each group has a zero: for values that are not around 0");
  io::addFlag(*verb, "--keep-16bit", flags->request.keep, io::range::text(),
              "Weights that stay as they are, as '*.mlp.c_proj.weight'")
      ->allow_extra_args(false)
      ->default_str("none");
  addCalibrationFlags(*verb, flags->calibration);
  verb->add_flag("--act-order", flags->request.gptq.largestFirst,
                 "With gptq: round the inputs with the largest values first");
  verb->add_flag(
      "--true-sequential", flags->request.sequential,
      "With gptq: round the products of a layer one after the other, "
      "each with what it reads when those before it are codes");
  io::addFlag(*verb, "--report", flags->report, io::range::path(),
              "A JSON file for sizes, errors and perplexities")
      ->default_str("none");
  verb->callback([flags, &action] {
    action = [flags] {
      io::requireApart(
          {{"DIR", flags->request.model},
           {"--calibration",
            io::TokenSource::parse(flags->calibration.file).path},
           {"--eval-data",
            io::TokenSource::parse(flags->calibration.evalFile).path}},
          {{"-o", flags->request.output}, {"--report", flags->report}});
      flags->request.bits = std::stoll(flags->bits);
      flags->request.method =
          flags->method == "gptq" ? Method::Gptq : Method::Nearest;
      checkUse(*flags);
      return quantizeModel(*flags);
    };
  });
}
