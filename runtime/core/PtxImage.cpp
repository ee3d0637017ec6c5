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
                                   elements, low, high, step)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlainKernel::Result, type, elements, columns,
                                   leadingDimension, tie, tolerance)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlainKernel, text, launches, terms,
                                   scratchBytes, arguments, results)
} // namespace heddle::plan

static std::string write(const json &value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Whether `terms` (how many terms of a sum a thread adds up) has one entry for
/// each launch of the kernel. Users of the parsed kernel rely on this.
static bool isWhole(const plan::PlainKernel &kernel) {
  return kernel.terms.size() == kernel.launches.size();
}

/// The image begins with JSON: the PTX, and the sizes of the binary parts. A
/// zero byte follows, then the cubins one after the other, and last the ELF
/// object with the kernels for the host.
std::string plan::writePtxImage(const PtxImage &image) {
  json sizes = json::array();
  std::string cubins;
  for (const std::string &cubin : image.cubins) {
    sizes.push_back(cubin.size());
    cubins += cubin;
  }
  return write({{"format", "ptx"},
                {"texts", image.texts},
                {"cubins", sizes},
                {"plain", image.plain},
                {"host", image.host.size()}}) +
         '\0' + cubins + image.host;
}

std::optional<plan::PtxImage> plan::readPtxImage(std::string_view bytes) {
  size_t end = bytes.find('\0');
  if (end == std::string_view::npos)
    return std::nullopt;
  try {
    json source = json::parse(bytes.substr(0, end));
    if (source.at("format") != "ptx")
      return std::nullopt;
    PtxImage image;
    image.texts = source.at("texts").get<std::vector<std::string>>();
    image.plain = source.at("plain").get<std::vector<PlainKernel>>();
    if (!std::all_of(image.plain.begin(), image.plain.end(), isWhole))
      return std::nullopt;
    std::string_view rest = bytes.substr(end + 1);
    for (auto size : source.at("cubins").get<std::vector<size_t>>()) {
      if (size > rest.size())
        return std::nullopt;
      image.cubins.emplace_back(rest.substr(0, size));
      rest.remove_prefix(size);
    }
    if (source.at("host").get<size_t>() != rest.size())
      return std::nullopt;
    image.host = rest;
    return image;
  } catch (const json::exception &) {
    return std::nullopt;
  }
}

std::string plan::writePlainKernel(const PlainKernel &kernel) {
  return write(kernel);
}

std::optional<plan::PlainKernel> plan::readPlainKernel(std::string_view text) {
  try {
    auto kernel = json::parse(text).get<PlainKernel>();
    if (isWhole(kernel))
      return kernel;
    return std::nullopt;
  } catch (const json::exception &) {
    return std::nullopt;
  }
}
