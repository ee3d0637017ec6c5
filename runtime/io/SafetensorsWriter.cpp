//===- SafetensorsWriter.cpp - Write safetensors ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes safetensors files in the order of the reference writer, from one
// process or from all ranks.
//
//===----------------------------------------------------------------------===//

#include "SafetensorsTypes.h"
#include "heddle/runtime/io/Safetensors.h"
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace heddle;
using namespace heddle::io;

/// Returns the size in bytes of a tensor that is to be written.
template <typename Tensor> static int64_t bytesOf(const Tensor &tensor) {
  int64_t bitsEach = dtypeBits(tensor.dtype);
  std::optional<int64_t> bits = tensorBits(tensor.shape, bitsEach);
  if (bitsEach == 0 || !bits || *bits % 8 != 0)
    fail("H0902", "tensor \"" + tensor.name + "\" of dtype " + tensor.dtype +
                      " and shape " + shapeToString(tensor.shape) +
                      " cannot be written");
  return *bits / 8;
}

/// Sorts tensors as the reference writer does.
template <typename Tensor> static void sortTensors(std::vector<Tensor> &list) {
  std::sort(list.begin(), list.end(), [](const Tensor &a, const Tensor &b) {
    int rankA = dtypeRank(a.dtype), rankB = dtypeRank(b.dtype);
    return rankA != rankB ? rankA > rankB : a.name < b.name;
  });
}

/// Returns the bytes before the tensors: a length, and JSON padded with spaces
/// to a multiple of 8.
template <typename Tensor>
static std::string
headerOf(const std::vector<Tensor> &tensors,
         const std::map<std::string, std::string> &metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const Tensor &tensor : tensors) {
    int64_t end = offset + bytesOf(tensor);
    nlohmann::ordered_json entry;
    entry["dtype"] = tensor.dtype;
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {offset, end};
    // Appending a pair avoids a linear search for an equal key.
    header.get_ref<nlohmann::ordered_json::object_t &>().emplace_back(
        tensor.name, std::move(entry));
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length;
  for (int i = 0; i < 8; ++i)
    length += static_cast<char>(uint64_t(text.size()) >> (8 * i));
  return length + text;
}

WrittenFile
io::writeSafetensors(const std::string &path,
                     std::vector<TensorToWrite> tensors,
                     const std::map<std::string, std::string> &metadata) {
  sortTensors(tensors);
  std::string header = headerOf(tensors, metadata);
  OutputFile out(path);
  out.write(header.data(), header.size());
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

/// Writes the byte ranges of the tensors that this rank has to write. The first
/// tensor begins at offset `begin` of the file.
static void writePieces(SharedFile &file, int64_t begin,
                        const std::vector<SharedTensor> &tensors) {
  for (const SharedTensor &tensor : tensors) {
    int64_t size = bytesOf(tensor);
    auto write = [&](int64_t offset, const void *data, int64_t bytes) {
      if (offset < 0 || bytes < 0 || offset + bytes > size)
        fail("H0902",
             "tensor \"" + tensor.name + "\" has a piece outside of its bytes");
      file.write(begin + offset, data, bytes);
    };
    if (tensor.pieces)
      tensor.pieces(write);
    begin += size;
  }
  file.commit();
}

void io::requireShared(const std::string &path, Peers &peers) {
  if (peers.size() > 1 && isDevice(path))
    fail("H0185", "several ranks write one file, but " + path + " is none",
         "name a file");
  requireWritableOutput(path);
}

void io::writeShared(const std::string &path, std::vector<SharedTensor> tensors,
                     Peers &peers) {
  sortTensors(tensors);
  std::string header = headerOf(tensors, {{"format", "pt"}});
  // Set on rank 0 only.
  std::unique_ptr<PendingOutput> output;
  std::string temporary;
  peers.together([&] {
    if (peers.rank() != 0)
      return;
    requireShared(path, peers);
    int64_t bytes = header.size();
    for (const SharedTensor &tensor : tensors)
      bytes += bytesOf(tensor);
    output = std::make_unique<PendingOutput>(path);
    temporary = output->temporaryPath();
    if (ftruncate(output->descriptor(), bytes) != 0)
      failToWrite(path, errno);
    SharedFile file(temporary);
    file.write(0, header.data(), header.size());
    file.commit();
  });
  temporary = peers.exchange(temporary).front();
  peers.together([&] {
    SharedFile file(temporary);
    writePieces(file, header.size(), tensors);
  });
  peers.together([&] {
    if (output)
      output->commit();
  });
}
