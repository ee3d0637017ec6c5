//===- InputFile.cpp - Batches from a file of tensors ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks the tensors of `--inputs` against the inputs of the program, supplies
// defaults for missing tensors, and counts labels.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/InputFile.h"
#include "heddle/runtime/app/Steps.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

using namespace heddle;
using namespace heddle::rt;
using plan::PortRole;

/// Hugging Face's name for the mask of tokens that are not padding.
static const std::string maskName = "attention_mask";

/// Returns the inputs that are read from the batch, such as tokens and labels.
/// An input of several pipeline stages is returned once.
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

/// Returns the tensor's name in Hugging Face's batches; "" if there is none.
static std::string hubName(PortRole role) {
  switch (role) {
  case PortRole::Ids:
    return "input_ids";
  case PortRole::Segments:
    return "token_type_ids";
  case PortRole::Positions:
    return "position_ids";
  default:
    return "";
  }
}

static const io::TensorInfo *findInput(const io::WeightSet &file,
                                       const plan::Port &port) {
  const io::TensorInfo *info = file.find(port.name);
  std::string other = hubName(port.role);
  return info || other.empty() ? info : file.find(other);
}

/// Whether an input with this role gets default values if the file has no
/// tensor for it.
static bool hasUsual(PortRole role) {
  return role == PortRole::Segments || role == PortRole::Lengths ||
         role == PortRole::Positions || role == PortRole::LabelWeights;
}

/// Throws H0366 for a missing or an unknown tensor.
static void checkNames(const io::WeightSet &file,
                       const std::vector<plan::Port> &ports,
                       plan::ProgramKind kind) {
  std::set<std::string> used = {maskName};
  std::string takes = std::string("the program ") + plan::nameOf(kind) +
                      " takes " + namesOf(ports);
  for (const plan::Port &port : ports)
    if (const io::TensorInfo *info = findInput(file, port)) {
      used.insert(info->name);
      if (port.role == PortRole::Lengths)
        used.erase(maskName);
    } else if (!hasUsual(port.role))
      fail("H0366", file.origin() + " has no tensor '" + port.name + "'",
           takes);
  for (const io::TensorInfo &info : file.tensors())
    if (!used.count(info.name))
      fail("H0366",
           file.origin() + " has a tensor '" + info.name +
               "', which no input takes",
           takes);
}

/// Returns the least and greatest value of an integer input.
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

InputFile::InputFile(const std::string &path, const plan::Plan &plan,
                     plan::ProgramKind kind)
    : file(path) {
  std::vector<plan::Port> ports = portsOf(plan, kind);
  io::WeightSet file = io::openSafetensors(path);
  checkNames(file, ports, kind);
  for (const plan::Port &port : ports)
    if (const io::TensorInfo *info = findInput(file, port))
      tensors.emplace(port.name, read(*info, file, port.role, plan.seq,
                                      rangeOf(port.role, plan)));
  std::vector<int32_t> lengths = readMask(file, plan.seq);
  for (const plan::Port &port : ports)
    if (!tensors.count(port.name))
      addUsual(port, plan.seq, lengths);
  if (plan.objective == plan::Objective::NextToken)
    checkShifted(plan.seq);
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

/// Returns element `at` of an I32 or I64 tensor.
static int64_t integerAt(const uint8_t *data, bool isWide, int64_t at) {
  int64_t wide = 0;
  int32_t narrow = 0;
  if (isWide)
    memcpy(&wide, data + at * 8, 8);
  else
    memcpy(&narrow, data + at * 4, 4);
  return isWide ? wide : narrow;
}

InputFile::Tensor InputFile::read(const io::TensorInfo &info,
                                  const io::WeightSet &file, PortRole role,
                                  int64_t seq, Range range) {
  bool isFloat = role == PortRole::LabelWeights;
  bool isRow = role == PortRole::Lengths;
  Tensor tensor;
  tensor.role = role;
  tensor.width = isRow ? 1 : seq;
  int64_t count = info.shape.empty() ? 0 : info.shape[0];
  std::vector<int64_t> shape = {count};
  if (!isRow)
    shape.push_back(seq);
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
             (isRow ? "]" : ", " + std::to_string(seq) + "]") +
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
    auto [least, most] = range;
    bool mayMiss = role == PortRole::Labels;
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
  return tensor;
}

/// Returns the number of tokens in each row, as the attention mask gives it. A
/// row of the mask must be ones followed by zeros. Empty if the file has no
/// mask.
std::vector<int32_t> InputFile::readMask(const io::WeightSet &file,
                                         int64_t seq) {
  const io::TensorInfo *info = file.find(maskName);
  if (!info)
    return {};
  Tensor mask = read(*info, file, PortRole::Segments, seq, {0, 1});
  std::vector<int32_t> lengths;
  for (int64_t row = 0; row < numRows; ++row) {
    auto begin = mask.ints.begin() + row * seq, end = begin + seq;
    auto last = std::find(begin, end, 0);
    auto next = std::find(last, end, 1);
    if (next != end)
      failValue(*info, seq, next - mask.ints.begin(), "1 after a 0",
                "0: padding is at the end of a row");
    lengths.push_back(last - begin);
  }
  return lengths;
}

void InputFile::addUsual(const plan::Port &port, int64_t seq,
                         const std::vector<int32_t> &lengths) {
  Tensor tensor;
  tensor.role = port.role;
  tensor.width = port.role == PortRole::Lengths ? 1 : seq;
  int64_t elements = numRows * tensor.width;
  if (port.role == PortRole::LabelWeights)
    tensor.floats.assign(elements, 1);
  else
    tensor.ints.assign(elements, 0);
  if (port.role == PortRole::Lengths && !lengths.empty())
    tensor.ints = lengths;
  else if (port.role == PortRole::Lengths)
    tensor.ints.assign(elements, seq);
  else if (port.role == PortRole::Positions)
    for (int64_t i = 0; i < elements; ++i)
      tensor.ints[i] = i % seq;
  tensors.emplace(port.name, std::move(tensor));
}

void InputFile::checkShifted(int64_t seq) const {
  const Tensor *ids = find(PortRole::Ids), *labels = find(PortRole::Labels);
  if (!ids || !labels)
    return;
  bool isNext = true;
  for (int64_t i = 0; i < int64_t(labels->ints.size()); ++i) {
    if (labels->ints[i] == noLabel)
      continue;
    if (labels->ints[i] != ids->ints[i])
      return;
    isNext &= (i + 1) % seq == 0 || labels->ints[i] == ids->ints[i + 1];
  }
  if (!isNext)
    fail("H0369", file + ": every label is the token at its own place",
         "labels are compared as they are: label t is the token t + 1, where "
         "Hugging Face's models shift them");
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
