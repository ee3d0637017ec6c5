//===- QuantizeVerb.cpp - heddle quantize ---------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Verbs.h"
#include "heddle/Import/QuantizeModel.h"
#include "heddle/runtime/io/File.h"
#include <iostream>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::driver;

static std::string jsonOf(const config::QuantizeRequest &request,
                          const config::QuantizeReport &report) {
  nlohmann::ordered_json all = {{"method", "rtn"},
                                {"bits", request.bits},
                                {"group", request.group},
                                {"zeros", request.zeros},
                                {"bytes_before", report.bytesBefore},
                                {"bytes_after", report.bytesAfter},
                                {"error", report.error},
                                {"weights", nlohmann::ordered_json::array()}};
  for (const config::QuantizedWeight &weight : report.weights)
    all["weights"].push_back({{"name", weight.name},
                              {"inputs", weight.shape[0]},
                              {"outputs", weight.shape[1]},
                              {"bytes_before", weight.bytesBefore},
                              {"bytes_after", weight.bytesAfter},
                              {"error", weight.error}});
  return all.dump(2) + "\n";
}

static int quantize(const config::QuantizeRequest &request,
                    const std::string &reportFile) {
  config::QuantizeReport report = config::quantizeModel(request);
  if (!reportFile.empty())
    io::writeText(reportFile, jsonOf(request, report));
  std::cout << request.output << ": " << report.weights.size()
            << " weights with " << request.bits << " bits, "
            << report.bytesAfter << " bytes in place of " << report.bytesBefore
            << ", relative error " << report.error << "\n";
  return 0;
}

void driver::addQuantizeVerb(CLI::App &app, Action &action) {
  struct Flags {
    config::QuantizeRequest request;
    std::string bits = "4", report;
  };
  auto flags = std::make_shared<Flags>();
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
  io::addFlag(*verb, "--bits", flags->bits, io::ValueRange::choices({"8", "4"}),
              "Of a code: 8 or 4");
  io::addFlag(*verb, "--group", flags->request.group,
              io::ValueRange::integers(0, 1 << 20),
              "Inputs that share a scale; 0: all");
  verb->add_flag("--zeros", flags->request.zeros,
                 "Each group has a zero: for values that are not around 0");
  io::addFlag(*verb, "--keep-16bit", flags->request.keep, io::range::text(),
              "Weights that stay as they are, as '*.mlp.c_proj.weight'")
      ->allow_extra_args(false)
      ->default_str("none");
  io::addFlag(*verb, "--report", flags->report, io::range::path(),
              "A JSON file for sizes and errors")
      ->default_str("none");
  verb->callback([flags, &action] {
    action = [flags] {
      io::requireApart(
          {{"DIR", flags->request.model}},
          {{"-o", flags->request.output}, {"--report", flags->report}});
      flags->request.bits = std::stoll(flags->bits);
      return quantize(flags->request, flags->report);
    };
  });
}
