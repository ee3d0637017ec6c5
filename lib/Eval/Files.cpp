//===- Files.cpp - Files of the interpreter ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements Files.h. This file is compiled with exceptions and turns them into
// diagnostics.
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/Files.h"

#include "heddle/runtime/app/InitialValues.h"
#include "heddle/runtime/app/StateTensors.h"
#include "heddle/runtime/core/Arena.h"
#include "heddle/runtime/devices/cpu/CpuFeatures.h"
#include "heddle/runtime/io/Checkpoint.h"
#include "heddle/runtime/io/CodedWeights.h"

using namespace heddle;
using namespace heddle::eval;

/// Runs `body`. If it throws an exception, sets `error` and returns false.
template <typename Body> static bool guarded(Diagnostic &error, Body body) {
  try {
    body();
    return true;
  } catch (const UserError &caught) {
    error = caught.diagnostic;
  } catch (const std::exception &caught) {
    error.code = "H0900";
    error.message = caught.what();
  }
  return false;
}

static HostTensor copyTensor(const io::WeightSet &set,
                             const io::TensorInfo &info) {
  HostTensor tensor{info.name, info.dtype, info.shape, {}};
  const char *data = reinterpret_cast<const char *>(set.data(info));
  tensor.bytes.assign(data, data + info.bytes);
  return tensor;
}

bool eval::readTensors(const std::string &path,
                       std::vector<HostTensor> &tensors, Diagnostic &error) {
  return guarded(error, [&] {
    io::WeightSet set = io::openSafetensors(path);
    for (const io::TensorInfo &info : set.tensors())
      tensors.push_back(copyTensor(set, info));
  });
}

bool eval::writeTensors(const std::string &path,
                        const std::vector<HostTensor> &tensors,
                        Diagnostic &error) {
  return guarded(error, [&] {
    std::vector<io::TensorToWrite> output;
    for (const HostTensor &tensor : tensors) {
      io::TensorToWrite entry;
      entry.name = tensor.name;
      entry.dtype = tensor.dtype;
      entry.shape = tensor.shape;
      entry.data = tensor.bytes.data();
      output.push_back(std::move(entry));
    }
    io::writeSafetensors(path, std::move(output));
  });
}

bool eval::readWeights(const std::string &directory,
                       const std::map<std::string, std::string> &orders,
                       const plan::ExtendedTable &extended,
                       std::vector<FileWeight> &weights, Diagnostic &error) {
  return guarded(error, [&] {
    io::Peers alone;
    io::requireWholeModel(directory, alone);
    io::WeightSet set = io::openModelWeights(directory);
    rt::requireOrders(set, orders);
    rt::extendPositions(set, extended);
    for (FileWeight &weight : weights) {
      HostTensor &tensor = weight.tensor;
      rt::SourceReader reader(set, weight.pieces, tensor.name);
      reader.requireConvertible(tensor.dtype);
      int64_t count = 1;
      for (int64_t extent : tensor.shape)
        count *= extent;
      tensor.bytes.resize(count * io::dtypeBits(tensor.dtype) / 8);
      int64_t bad = reader.read(0, count, tensor.dtype, tensor.bytes.data());
      if (bad >= 0)
        reader.failNonFinite(tensor.dtype, bad);
      if (weight.packed)
        weight.codes = reader.scalesFor(*weight.packed);
    }
  });
}

std::vector<float> eval::initialValues(const plan::Init &init,
                                       const std::string &name,
                                       const std::vector<int64_t> &whole,
                                       uint64_t seed, int64_t count) {
  std::vector<float> values(count);
  rt::initialValues(init, name, whole, seed, 0, count, values.data());
  return values;
}

bool eval::partRuns(const plan::Placement &placement,
                    const std::vector<int64_t> &shape, const plan::Mesh &mesh,
                    int64_t rank, std::vector<rt::ElementRange> &runs,
                    Diagnostic &error) {
  return guarded(error, [&] {
    runs = rt::RankShard(placement, shape, mesh, rank).runs();
  });
}

bool eval::takeTiles(Diagnostic &error) {
  return guarded(error, [] {
    if (rt::hasCpuFeature("amx-tile"))
      rt::requireCpuFeatures({"amx-tile"}, "native");
  });
}

std::shared_ptr<char> eval::mapGuarded(int64_t bytes, Diagnostic &error) {
  std::shared_ptr<char> memory;
  guarded(error, [&] {
    auto arena = std::make_shared<rt::Arena>(bytes, "the interpreter", true);
    memory = std::shared_ptr<char>(arena, arena->data());
  });
  return memory;
}
