//===- PtxImage.cpp - The kernels of a binary for NVIDIA GPUs -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/PlanFormat/PtxImage.h"

#include <nlohmann/json.hpp>

using namespace heddle;
using nlohmann::json;

std::string plan::writePtxImage(const PtxImage &image) {
  return json{{"format", "ptx"}, {"texts", image.texts}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

std::optional<plan::PtxImage> plan::readPtxImage(std::string_view bytes) {
  try {
    json source = json::parse(bytes);
    if (source.at("format") != "ptx")
      return std::nullopt;
    return PtxImage{source.at("texts").get<std::vector<std::string>>()};
  } catch (const json::exception &) {
    return std::nullopt;
  }
}
