//===- ConvertWeights.cpp - Convert or reshard weights --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `heddle checkpoint convert`: writes weights in another element type, or
// divides them into other files.
//
//===----------------------------------------------------------------------===//

#include "NewDirectory.h"
#include "heddle/runtime/io/Checkpoint.h"
#include <algorithm>
#include <cstdio>
#include <filesystem>

using namespace heddle;
using namespace heddle::io;
namespace fs = std::filesystem;

/// Elements converted at a time.
static constexpr int64_t blockElements = int64_t(1) << 16;

/// Returns the converted tensor, which reads `weights` while it is written.
static TensorToWrite convertTensor(const WeightSet &weights,
                                   const TensorInfo &info,
                                   const std::string &dtype) {
  if (dtype.empty() || dtype == info.dtype || !isFloatType(info.dtype))
    return {info.name, info.dtype, info.shape, weights.data(info), nullptr};
  auto produce = [&weights, &info, dtype](const TensorToWrite::Sink &sink) {
    int64_t from = dtypeBits(info.dtype) / 8, to = dtypeBits(dtype) / 8;
    int64_t count = info.numElements();
    std::vector<uint8_t> block(std::min(count, blockElements) * to);
    const uint8_t *source = weights.data(info);
    for (int64_t first = 0; first < count; first += blockElements) {
      int64_t number = std::min(blockElements, count - first);
      convertElements(source + first * from, info.dtype, block.data(), dtype,
                      number);
      sink(block.data(), number * to);
    }
  };
  return {info.name, dtype, info.shape, nullptr, produce};
}

static int64_t bytesOf(const TensorToWrite &tensor) {
  int64_t elements = 1;
  for (int64_t dim : tensor.shape)
    elements *= dim;
  return elements * dtypeBits(tensor.dtype) / 8;
}

/// Divides the tensors, in order, into files of at most `limit` bytes. A larger
/// tensor gets its own file.
static std::vector<std::vector<TensorToWrite>>
divide(std::vector<TensorToWrite> tensors, int64_t limit) {
  std::vector<std::vector<TensorToWrite>> shards(1);
  int64_t used = 0;
  for (TensorToWrite &tensor : tensors) {
    int64_t bytes = bytesOf(tensor);
    if (limit > 0 && !shards.back().empty() && used + bytes > limit) {
      shards.emplace_back();
      used = 0;
    }
    used += bytes;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

static std::string shardName(size_t index, size_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "model-%05zu-of-%05zu.safetensors",
                index + 1, count);
  return text;
}

static void writeShards(const std::string &output,
                        const std::vector<std::vector<TensorToWrite>> &shards) {
  if (shards.size() == 1) {
    writeSafetensors(output + "/model.safetensors", shards[0]);
    return;
  }
  nlohmann::ordered_json index;
  nlohmann::json map = nlohmann::json::object();
  int64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    std::string name = shardName(i, shards.size());
    for (const TensorToWrite &tensor : shards[i]) {
      map[tensor.name] = name;
      total += bytesOf(tensor);
    }
    writeSafetensors(output + "/" + name, shards[i]);
  }
  index["metadata"]["total_size"] = total;
  index["weight_map"] = map;
  writeText(output + "/model.safetensors.index.json", index.dump(2) + "\n");
}

/// Copies the files beside the weights: configuration, tokenizer.
static void copyCompanions(const std::string &from, const std::string &to) {
  for (const std::string &name : listDirectory(from, "H0330")) {
    bool wanted = name == "merges.txt" || name == "vocab.txt" ||
                  name == "tokenizer.model" || name == "chat_template.jinja" ||
                  (fs::path(name).extension() == ".json" &&
                   name.find(".index.json") == std::string::npos);
    if (!wanted)
      continue;
    std::shared_ptr<const MappedFile> file =
        MappedFile::open(from + "/" + name, "H0301");
    OutputFile out(to + "/" + name);
    out.write(file->data(), file->size());
    out.commit();
  }
}

void io::writeModel(const std::string &from, const std::string &output,
                    const std::string &config,
                    std::vector<TensorToWrite> tensors) {
  NewDirectory directory(output);
  copyCompanions(from, directory.temporaryPath());
  writeText(directory.temporaryPath() + "/config.json", config);
  writeSafetensors(directory.temporaryPath() + "/model.safetensors",
                   std::move(tensors));
  directory.commit();
}

/// Writes the new type of the tensors into config.json: transformers loads them
/// with the type that is named there.
static void updateConfig(const std::string &file, const std::string &dtype) {
  if (dtype.empty() || !pathExists(file))
    return;
  auto config = nlohmann::ordered_json::parse(readText(file, "H0301"), nullptr,
                                              /*allow_exceptions=*/false);
  if (!config.is_object())
    return;
  setConfigType(config, dtype);
  writeText(file, config.dump(2) + "\n");
}

void io::convertWeights(const ConvertOptions &options) {
  if (!options.dtype.empty() && !isFloatType(options.dtype))
    fail("H0182", "\"" + options.dtype + "\" is not a type to convert to",
         "choose F32, BF16, F16 or F64");
  requireConvertible(options.input);
  WeightSet weights = openWeights(options.input);
  if (std::optional<WeightSet> masters =
          openMasters(fs::path(weights.files()[0]).parent_path().string());
      masters && !options.dtype.empty())
    weights.replace(*masters);
  std::vector<TensorToWrite> tensors;
  for (const TensorInfo &info : weights.tensors())
    tensors.push_back(convertTensor(weights, info, options.dtype));
  NewDirectory output(options.output);
  copyCompanions(fs::path(weights.files()[0]).parent_path().string(),
                 output.temporaryPath());
  updateConfig(output.temporaryPath() + "/config.json", options.dtype);
  writeShards(output.temporaryPath(),
              divide(std::move(tensors), options.maxShardBytes));
  output.commit();
}
