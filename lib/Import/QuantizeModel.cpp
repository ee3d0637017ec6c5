//===- QuantizeModel.cpp - Writes a model with codes ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/QuantizeModel.h"
#include "heddle/Import/ModelSpec.h"
#include "heddle/runtime/core/PackWeights.h"
#include "heddle/runtime/io/Checkpoint.h"
#include <cmath>
#include <deque>
#include <fnmatch.h>
#include <map>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::config;

namespace {

/// Words of 32 bits, row by row of words.
class Words {
public:
  Words(int64_t rows, int64_t columns)
      : columns(columns), words(rows * columns) {}
  void set(int64_t row, int64_t column, int64_t place, int64_t bits,
           int64_t code) {
    uint32_t mask = (1u << bits) - 1;
    words[row * columns + column] |= (uint32_t(code) & mask) << (place * bits);
  }
  const uint32_t *data() const { return words.data(); }
  int64_t bytes() const { return int64_t(words.size() * sizeof(uint32_t)); }

private:
  int64_t columns;
  std::vector<uint32_t> words;
};

/// One matrix as codes.
class Coder {
public:
  Coder(const QuantizeRequest &request, int64_t inputs, int64_t outputs)
      : bits(request.bits), inputs(inputs), outputs(outputs),
        length(request.group == 0 ? inputs : request.group),
        even(!request.zeros), words(inputs / perWord(), outputs),
        zeros(inputs / length, outputs / perWord()),
        scales(inputs / length * outputs) {}

  int64_t perWord() const { return 32 / bits; }
  int64_t groups() const { return inputs / length; }
  /// Of an output the values of its inputs.
  void add(int64_t output, const std::vector<float> &values);

  int64_t bits, inputs, outputs, length;
  bool even;
  Words words, zeros;
  std::vector<uint16_t> scales;
  double squares = 0, errors = 0; ///< Sums over all values.
};

} // namespace

void Coder::add(int64_t output, const std::vector<float> &values) {
  int64_t middle = int64_t(1) << (bits - 1);
  for (int64_t group = 0; group < groups(); ++group) {
    const float *first = &values[group * length];
    rt::GroupCode code = rt::codeOf(first, length, bits, even);
    scales[group * outputs + output] = io::floatToF16(code.scale);
    // Format 1 of GPTQ stores a zero less 1.
    zeros.set(group, output / perWord(), output % perWord(), bits,
              code.zero + middle - 1);
    for (int64_t i = 0; i < length; ++i) {
      int32_t made = rt::quantize(first[i], code, bits);
      int64_t input = group * length + i;
      words.set(input / perWord(), output, input % perWord(), bits,
                made + middle);
      double off = double(code.scale) * (made - code.zero) - first[i];
      errors += off * off;
      squares += double(first[i]) * first[i];
    }
  }
}

namespace {

/// Writes the tensors, one after the other.
class Quantizer {
public:
  explicit Quantizer(const QuantizeRequest &request);
  QuantizeReport run();

private:
  bool isKept(const std::string &name) const;
  void choose();
  void check(const io::TensorInfo &info, bool outIn) const;
  const Coder &code(const io::TensorInfo &info, bool outIn);
  void addCodes(const io::TensorInfo &info, bool outIn);

  const QuantizeRequest &request;
  ModelSpec spec;
  io::WeightSet weights;
  /// The tensors that become codes, and whether they are [out, in].
  std::map<std::string, bool> chosen;
  std::deque<Coder> coders; ///< A deque: tensors are written from them.
  std::vector<io::TensorToWrite> tensors;
  QuantizeReport report;
  double squares = 0, errors = 0;
};

} // namespace

static ModelSpec readModel(const std::string &path) {
  ModelRequest request;
  request.path = path;
  return readModelSpec(request);
}

Quantizer::Quantizer(const QuantizeRequest &request)
    : request(request), spec(readModel(request.model)),
      weights(io::openWeights(spec.directory)) {
  if (spec.codes)
    fail("H0152", spec.directory + " has codes already",
         "give the model that they were made of");
}

bool Quantizer::isKept(const std::string &name) const {
  for (const std::string &pattern : request.keep)
    if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0)
      return true;
  return false;
}

void Quantizer::choose() {
  for (ParameterSpec &parameter : spec.parameters)
    weights::forEachTensor(parameter.source, [&](weights::Source &tensor) {
      if (parameter.isOfLayer && tensor.numbers.size() == 2 &&
          !isKept(parameter.name) && !isKept(tensor.name))
        chosen[tensor.name] = parameter.outIn;
    });
}

void Quantizer::check(const io::TensorInfo &info, bool outIn) const {
  int64_t inputs = info.shape[outIn ? 1 : 0],
          outputs = info.shape[outIn ? 0 : 1];
  int64_t perWord = 32 / request.bits;
  std::string wrong;
  if (inputs % perWord != 0 || outputs % perWord != 0)
    wrong =
        ", which words of " + std::to_string(perWord) + " codes do not divide";
  else if (request.group > 0 && inputs % request.group != 0)
    wrong = ", which groups of " + std::to_string(request.group) +
            " inputs do not divide";
  if (wrong.empty())
    return;
  fail("H0152",
       "\"" + info.name + "\" has " + std::to_string(inputs) + " inputs and " +
           std::to_string(outputs) + " outputs" + wrong,
       "choose another --group, or exempt it: --keep-16bit '" + info.name + "'",
       {info.file, 0, 0});
}

/// Makes the codes of a tensor.
const Coder &Quantizer::code(const io::TensorInfo &info, bool outIn) {
  int64_t inputs = info.shape[outIn ? 1 : 0],
          outputs = info.shape[outIn ? 0 : 1];
  Coder &coder = coders.emplace_back(request, inputs, outputs);
  std::vector<float> values(inputs * outputs), column(inputs);
  weights.read(info, "F32", values.data());
  int64_t bad = io::firstNonFinite(values.data(), "F32", info.numElements());
  if (bad >= 0)
    io::failNonFinite(info, "F32", bad);
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < inputs; ++i)
      column[i] = values[outIn ? o * inputs + i : i * outputs + o];
    coder.add(o, column);
  }
  return coder;
}

void Quantizer::addCodes(const io::TensorInfo &info, bool outIn) {
  check(info, outIn);
  const Coder &coder = code(info, outIn);
  std::string product = info.name.substr(0, info.name.rfind('.'));
  int64_t perWord = coder.perWord();
  tensors.push_back({product + ".qweight",
                     "I32",
                     {coder.inputs / perWord, coder.outputs},
                     coder.words.data(),
                     nullptr});
  tensors.push_back({product + ".qzeros",
                     "I32",
                     {coder.groups(), coder.outputs / perWord},
                     coder.zeros.data(),
                     nullptr});
  tensors.push_back({product + ".scales",
                     "F16",
                     {coder.groups(), coder.outputs},
                     coder.scales.data(),
                     nullptr});
  auto order = [inputs = coder.inputs,
                length = coder.length](const io::TensorToWrite::Sink &sink) {
    std::vector<int32_t> groups(inputs);
    for (int64_t i = 0; i < inputs; ++i)
      groups[i] = int32_t(i / length);
    sink(groups.data(), inputs * int64_t(sizeof(int32_t)));
  };
  tensors.push_back(
      {product + ".g_idx", "I32", {coder.inputs}, nullptr, order});
  int64_t after = coder.words.bytes() + coder.zeros.bytes() +
                  int64_t(coder.scales.size()) * 2 + coder.inputs * 4;
  double error =
      coder.squares > 0 ? std::sqrt(coder.errors / coder.squares) : 0;
  report.weights.push_back(
      {info.name, {coder.inputs, coder.outputs}, info.bytes, after, error});
  report.bytesAfter += after;
  squares += coder.squares;
  errors += coder.errors;
}

QuantizeReport Quantizer::run() {
  choose();
  for (const io::TensorInfo &info : weights.tensors()) {
    report.bytesBefore += info.bytes;
    auto found = chosen.find(info.name);
    if (found != chosen.end()) {
      addCodes(info, found->second);
      continue;
    }
    report.bytesAfter += info.bytes;
    tensors.push_back(
        {info.name, info.dtype, info.shape, weights.data(info), nullptr});
  }
  report.error = squares > 0 ? std::sqrt(errors / squares) : 0;
  auto config = nlohmann::ordered_json::parse(spec.configJson);
  config["quantization_config"] = {
      {"quant_method", "gptq"},
      {"bits", request.bits},
      {"group_size", request.group == 0 ? -1 : request.group},
      {"sym", !request.zeros},
      {"desc_act", false},
      {"checkpoint_format", "gptq"}};
  io::writeModel(spec.directory, request.output, config.dump(2) + "\n",
                 std::move(tensors));
  return std::move(report);
}

QuantizeReport config::quantizeModel(const QuantizeRequest &request) {
  return Quantizer(request).run();
}
