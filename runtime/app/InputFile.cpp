//===- InputFile.cpp - Batches that a file spells out ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/InputFile.h"
#include "heddle/runtime/app/Steps.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace heddle;
using namespace heddle::rt;
using plan::PortRole;

/// The inputs of the batch that the stages declare, each once.
static std::vector<plan::Port> portsOf(const plan::Plan &plan,
                                       plan::ProgramKind kind) {
  std::vector<plan::Port> ports;
  for (const plan::Stage &stage : plan.stages)
    for (const plan::Program &program : stage.programs)
      for (const plan::Port &port : program.inputs) {
        bool known = std::any_of(
            ports.begin(), ports.end(),
            [&](const plan::Port &other) { return other.name == port.name; });
        if (program.kind == kind && plan::isOfBatch(port.role) && !known)
          ports.push_back(port);
      }
  return ports;
}

static std::string namesOf(const std::vector<plan::Port> &ports) {
  std::string names;
  for (const plan::Port &port : ports)
    names += (names.empty() ? "" : ", ") + port.name;
  return names;
}

InputFile::InputFile(const std::string &path, const plan::Plan &plan,
                     plan::ProgramKind kind)
    : file(path) {
  std::vector<plan::Port> ports = portsOf(plan, kind);
  io::WeightSet file = io::openSafetensors(path);
  std::string help = std::string("the program ") + plan::nameOf(kind) +
                     " takes " + namesOf(ports);
  for (const plan::Port &port : ports)
    if (!file.find(port.name))
      fail("H0366", path + " has no tensor '" + port.name + "'", help);
  for (const io::TensorInfo &info : file.tensors())
    if (std::none_of(ports.begin(), ports.end(), [&](const plan::Port &port) {
          return port.name == info.name;
        }))
      fail("H0366",
           path + " has a tensor '" + info.name + "', which no input takes",
           help);
  for (const plan::Port &port : ports)
    add(file, plan, port);
}

/// The least and the greatest value of an input of whole numbers.
static std::pair<int64_t, int64_t> rangeOf(PortRole role,
                                           const plan::Plan &plan) {
  switch (role) {
  case PortRole::Ids:
  case PortRole::Labels:
    return {0, plan.vocabSize - 1};
  case PortRole::Positions:
    return {0, plan.maxPositions - 1};
  case PortRole::Lengths:
    return {0, plan.seq};
  case PortRole::Segments:
    if (plan.segments > 0)
      return {0, plan.segments - 1};
    [[fallthrough]];
  default:
    return {0, std::numeric_limits<int32_t>::max()};
  }
}

[[noreturn]] static void failValue(const io::TensorInfo &info, int64_t width,
                                   int64_t at, const std::string &value,
                                   const std::string &valid) {
  std::string place = "[" + std::to_string(at / width);
  if (info.shape.size() > 1)
    place += ", " + std::to_string(at % width);
  fail("H0369",
       info.file + ": " + info.name + place + "] is " + value + ", not " +
           valid,
       "change it, or compile for a model that has it");
}

/// Element `at` of a tensor of I32 or I64.
static int64_t integerAt(const uint8_t *data, bool isWide, int64_t at) {
  int64_t wide = 0;
  int32_t narrow = 0;
  if (isWide)
    memcpy(&wide, data + at * 8, 8);
  else
    memcpy(&narrow, data + at * 4, 4);
  return isWide ? wide : narrow;
}

void InputFile::add(const io::WeightSet &file, const plan::Plan &plan,
                    const plan::Port &port) {
  const io::TensorInfo &info = *file.find(port.name);
  bool isFloat = port.role == PortRole::LabelWeights;
  bool isRow = port.role == PortRole::Lengths;
  Tensor tensor;
  tensor.role = port.role;
  tensor.width = isRow ? 1 : plan.seq;
  int64_t count = info.shape.empty() ? 0 : info.shape[0];
  std::vector<int64_t> shape = {count};
  if (!isRow)
    shape.push_back(plan.seq);
  std::string wanted = isFloat ? "F32" : "I32 or I64";
  bool isType = isFloat ? info.dtype == "F32"
                        : info.dtype == "I32" || info.dtype == "I64";
  if (!isType || info.shape != shape || count < 1 ||
      (numRows > 0 && count != numRows))
    fail("H0367",
         info.file + ": " + info.name + " is " + info.dtype + " of shape " +
             io::shapeToString(info.shape),
         "store it as " + wanted + " of shape [" +
             (numRows > 0 ? std::to_string(numRows) : "N") +
             (isRow ? "]" : ", " + std::to_string(plan.seq) + "]") +
             ", with as many rows N as every other tensor");
  numRows = count;
  int64_t elements = info.numElements();
  const uint8_t *data = file.data(info);
  if (isFloat) {
    tensor.floats.resize(elements);
    memcpy(tensor.floats.data(), data, elements * sizeof(float));
    for (int64_t i = 0; i < elements; ++i)
      if (!std::isfinite(tensor.floats[i]) || tensor.floats[i] < 0)
        failValue(info, tensor.width, i, std::to_string(tensor.floats[i]),
                  "a finite number from 0 on");
  } else {
    auto [least, most] = rangeOf(port.role, plan);
    bool mayMiss = port.role == PortRole::Labels;
    tensor.ints.resize(elements);
    for (int64_t i = 0; i < elements; ++i) {
      int64_t value = integerAt(data, info.dtype == "I64", i);
      bool isIgnored = mayMiss && value == noLabel;
      if (!isIgnored && (value < least || value > most))
        failValue(info, tensor.width, i, std::to_string(value),
                  "one from " + std::to_string(least) + " to " +
                      std::to_string(most) +
                      (mayMiss ? ", or -100 for no label" : ""));
      tensor.ints[i] = int32_t(value);
    }
  }
  tensors.emplace(port.name, std::move(tensor));
}

const InputFile::Tensor *InputFile::find(PortRole role) const {
  for (const auto &[name, tensor] : tensors)
    if (tensor.role == role)
      return &tensor;
  return nullptr;
}

int64_t InputFile::countLabels(int64_t first, int64_t rows) const {
  const Tensor *labels = find(PortRole::Labels);
  const Tensor *weights = find(PortRole::LabelWeights);
  int64_t width = labels ? labels->width : 1, count = 0;
  for (int64_t row = first; row < first + rows; ++row)
    for (int64_t i = 0; i < width; ++i) {
      int64_t at = row % numRows * width + i;
      bool isIgnored = labels && (labels->ints[at] == noLabel ||
                                  (weights && weights->floats[at] == 0));
      count += isIgnored ? 0 : 1;
    }
  return count;
}

void heddle::rt::failNoLabel(const InputFile &file) {
  fail("H0309",
       file.path() + ": no label counts in its rows, so no loss is defined",
       "give labels other than -100, which means none");
}
