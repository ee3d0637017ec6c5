//===- SafetensorsWriter.cpp - Writing of safetensors -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SafetensorsTypes.h"
#include "heddle/runtime/io/Safetensors.h"
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::io;

/// Bytes of a tensor that is to be written.
static int64_t bytesOf(const TensorToWrite &tensor) {
  int64_t bitsEach = dtypeBits(tensor.dtype);
  std::optional<int64_t> bits = tensorBits(tensor.shape, bitsEach);
  if (bitsEach == 0 || !bits || *bits % 8 != 0)
    fail("H0902", "tensor \"" + tensor.name + "\" of dtype " + tensor.dtype +
                      " and shape " + shapeToString(tensor.shape) +
                      " cannot be written");
  return *bits / 8;
}

/// The header's text, padded with spaces to a multiple of 8.
static std::string
headerText(const std::vector<TensorToWrite> &tensors,
           const std::map<std::string, std::string> &metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const TensorToWrite &tensor : tensors) {
    int64_t end = offset + bytesOf(tensor);
    nlohmann::ordered_json entry;
    entry["dtype"] = tensor.dtype;
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {offset, end};
    // Appending a pair skips the linear search for an equal key.
    header.get_ref<nlohmann::ordered_json::object_t &>().emplace_back(
        tensor.name, std::move(entry));
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

WrittenFile
io::writeSafetensors(const std::string &path,
                     std::vector<TensorToWrite> tensors,
                     const std::map<std::string, std::string> &metadata) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorToWrite &a, const TensorToWrite &b) {
              int rankA = dtypeRank(a.dtype), rankB = dtypeRank(b.dtype);
              return rankA != rankB ? rankA > rankB : a.name < b.name;
            });
  std::string text = headerText(tensors, metadata);
  OutputFile out(path);
  uint8_t length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<uint8_t>(uint64_t(text.size()) >> (8 * i));
  out.write(length, sizeof length);
  out.write(text.data(), text.size());
  for (const TensorToWrite &tensor : tensors) {
    int64_t end = out.size() + bytesOf(tensor);
    if (tensor.data)
      out.write(tensor.data, end - out.size());
    else if (tensor.produce)
      tensor.produce(
          [&out](const void *data, int64_t bytes) { out.write(data, bytes); });
    if (out.size() != end)
      fail("H0902", "tensor \"" + tensor.name + "\" was written with " +
                        std::to_string(out.size() - end) + " bytes too many");
  }
  out.commit();
  return {std::filesystem::path(path).filename().string(), out.size(),
          out.digest()};
}
