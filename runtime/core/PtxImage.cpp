//===- PtxImage.cpp - The kernels of a binary for NVIDIA GPUs -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/PtxImage.h"
#include "runtime/core/GridLaunchJson.h"

using namespace heddle;
using nlohmann::json;

namespace heddle::plan {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlainKernel::Argument, isScalar, type,
                                   elements, low, high)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlainKernel::Result, type, elements, tie,
                                   tolerance)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlainKernel, text, launches, scratchBytes,
                                   arguments, results)
} // namespace heddle::plan

static std::string write(const json &value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string plan::writePtxImage(const PtxImage &image) {
  return write(
      {{"format", "ptx"}, {"texts", image.texts}, {"plain", image.plain}});
}

std::optional<plan::PtxImage> plan::readPtxImage(std::string_view bytes) {
  try {
    json source = json::parse(bytes);
    if (source.at("format") != "ptx")
      return std::nullopt;
    return PtxImage{source.at("texts").get<std::vector<std::string>>(),
                    source.at("plain").get<std::vector<PlainKernel>>()};
  } catch (const json::exception &) {
    return std::nullopt;
  }
}

std::string plan::writePlainKernel(const PlainKernel &kernel) {
  return write(kernel);
}

std::optional<plan::PlainKernel> plan::readPlainKernel(std::string_view text) {
  try {
    return json::parse(text).get<PlainKernel>();
  } catch (const json::exception &) {
    return std::nullopt;
  }
}
