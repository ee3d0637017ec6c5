//===- QuantizeModel.cpp - Writes a quantized model -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Quantize/QuantizeModel.h"
#include "heddle/Import/ModelSpec.h"
#include "heddle/Settings/QuantizeGroups.h"
#include "heddle/runtime/io/Checkpoint.h"
#include <fnmatch.h>
#include <map>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::quantize;

static std::vector<float> transposed(const std::vector<float> &values,
                                     int64_t rows, int64_t columns) {
  std::vector<float> result(values.size());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      result[column * rows + row] = values[row * columns + column];
  return result;
}

namespace {

/// Integers packed into words of 32 bits; words are stored row by row.
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

/// A quantized matrix as files store it.
struct CodedTensors {
  explicit CodedTensors(const RoundedMatrix &matrix);

  CodeShape shape;
  Words words, zeros;
  std::vector<uint16_t> scales;
  int64_t bytes() const {
    return words.bytes() + zeros.bytes() + int64_t(scales.size()) * 2 +
           shape.inputs * int64_t(sizeof(int32_t));
  }
};

} // namespace

CodedTensors::CodedTensors(const RoundedMatrix &matrix)
    : shape(matrix.shape), words(shape.inputs * shape.bits / 32, shape.outputs),
      zeros(shape.groups(), shape.outputs * shape.bits / 32),
      scales(matrix.groups.size()) {
  const int64_t bits = shape.bits, perWord = 32 / bits;
  const int64_t middle = int64_t(1) << (bits - 1);
  for (int64_t input = 0; input < shape.inputs; ++input)
    for (int64_t output = 0; output < shape.outputs; ++output)
      words.set(input / perWord, output, input % perWord, bits,
                matrix.codes[input * shape.outputs + output] + middle);
  for (int64_t group = 0; group < shape.groups(); ++group)
    for (int64_t output = 0; output < shape.outputs; ++output) {
      const rt::GroupScale &code =
          matrix.groups[group * shape.outputs + output];
      scales[group * shape.outputs + output] = io::floatToF16(code.scale);
      // GPTQ's format 1 stores zero points minus 1.
      zeros.set(group, output / perWord, output % perWord, bits,
                code.zero + middle - 1);
    }
}

namespace {

/// A tensor that is quantized.
struct Chosen {
  bool outIn = false;    ///< Whether the tensor is [out, in].
  std::string parameter; ///< The parameter that consists of it, or contains it.
};

/// Quantizes weights and writes the tensors.
class Quantizer {
public:
  Quantizer(const QuantizeRequest &request, Calibration *calibration);
  void check() const;
  QuantizeReport run();

private:
  bool isKept(const std::string &name) const;
  void choose();
  std::string whatIsWrong(const CodeShape &shape) const;
  std::string whatDivides() const;
  CodeShape shapeOf(const io::TensorInfo &info, bool outIn) const;
  std::vector<float> readWeight(const io::TensorInfo &info,
                                const CodeShape &shape, bool outIn) const;
  void code(const std::string &name, const Moments *moments);
  void codeLayers();
  void addCodes(const io::TensorInfo &info);
  void write();

  const QuantizeRequest &request;
  Calibration *calibration;
  /// The thread pool for quantization. Null if there is a calibration, whose
  /// thread pool is then used.
  std::unique_ptr<rt::ThreadPool> ownThreads;
  rt::ThreadPool &threads;
  config::ModelSpec spec;
  io::WeightSet weights;
  std::map<std::string, Chosen> chosen; ///< The tensors to quantize, by name.
  std::map<std::string, CodedTensors> coded;
  std::map<std::string, QuantizedWeight> results;
  std::vector<io::TensorToWrite> tensors;
  QuantizeReport report;
  double squares = 0, errors = 0;
};

} // namespace

static config::ModelSpec readModel(const std::string &path) {
  config::ModelRequest request;
  request.path = path;
  return config::readModelSpec(request);
}

Quantizer::Quantizer(const QuantizeRequest &request, Calibration *calibration)
    : request(request), calibration(calibration),
      ownThreads(calibration ? nullptr
                             : std::make_unique<rt::ThreadPool>(
                                   rt::availableThreads())),
      threads(calibration ? calibration->threadPool() : *ownThreads),
      spec(readModel(request.model)), weights(io::openWeights(spec.directory)) {
  if (spec.codes)
    fail("H0152", spec.directory + " has codes already",
         "give the model that they were made of");
  choose();
}

bool Quantizer::isKept(const std::string &name) const {
  for (const std::string &pattern : request.keep)
    if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0)
      return true;
  return false;
}

void Quantizer::choose() {
  for (config::ParameterSpec &parameter : spec.parameters)
    weights::forEachTensor(parameter.source, [&](weights::Source &tensor) {
      if (parameter.isOfLayer && tensor.numbers.size() == 2 &&
          !isKept(parameter.name) && !isKept(tensor.name))
        chosen[tensor.name] = {parameter.outIn, parameter.name};
    });
}

CodeShape Quantizer::shapeOf(const io::TensorInfo &info, bool outIn) const {
  int64_t inputs = info.shape[outIn ? 1 : 0];
  return {inputs, info.shape[outIn ? 0 : 1], request.bits,
          request.group == 0 ? inputs : request.group, !request.zeros};
}

std::string Quantizer::whatIsWrong(const CodeShape &shape) const {
  int64_t perWord = 32 / request.bits;
  if (shape.inputs % perWord != 0 || shape.outputs % perWord != 0)
    return ", which words of " + std::to_string(perWord) +
           " codes do not divide";
  if (shape.inputs % shape.length != 0)
    return ", which groups of " + std::to_string(shape.length) +
           " inputs do not divide";
  return "";
}

std::string Quantizer::whatDivides() const {
  const int64_t perWord = 32 / request.bits;
  std::vector<config::QuantizeCandidate> all;
  for (const io::TensorInfo &info : weights.tensors())
    if (auto found = chosen.find(info.name); found != chosen.end()) {
      CodeShape shape = shapeOf(info, found->second.outIn);
      all.push_back(
          {info.name, shape.inputs,
           shape.inputs % perWord == 0 && shape.outputs % perWord == 0});
    }
  return config::flagsToQuantize(all, perWord, request.group);
}

void Quantizer::check() const {
  for (const io::TensorInfo &info : weights.tensors()) {
    auto found = chosen.find(info.name);
    if (found == chosen.end())
      continue;
    CodeShape shape = shapeOf(info, found->second.outIn);
    if (std::string wrong = whatIsWrong(shape); !wrong.empty())
      fail("H0152",
           "\"" + info.name + "\" has " + std::to_string(shape.inputs) +
               " inputs and " + std::to_string(shape.outputs) + " outputs" +
               wrong,
           "use " + whatDivides(), {info.file, 0, 0});
  }
}

/// The values of a tensor as [inputs][outputs].
std::vector<float> Quantizer::readWeight(const io::TensorInfo &info,
                                         const CodeShape &shape,
                                         bool outIn) const {
  std::vector<float> values(info.numElements());
  weights.read(info, "F32", values.data());
  int64_t bad = io::firstNonFinite(values.data(), "F32", info.numElements());
  if (bad >= 0)
    io::failNonFinite(info, "F32", bad);
  return outIn ? transposed(values, shape.outputs, shape.inputs) : values;
}

/// Quantizes a tensor, and gives the rounded values to the calibration.
/// `moments` are the moments of the inputs of the product that uses the tensor;
/// null if they are not known.
void Quantizer::code(const std::string &name, const Moments *moments) {
  const io::TensorInfo &info = weights.at(name);
  bool outIn = chosen.at(name).outIn;
  CodeShape shape = shapeOf(info, outIn);
  std::vector<float> weight = readWeight(info, shape, outIn);
  // A parameter may consist of several tensors that are joined along the
  // inputs. The moments are then of the inputs of all these tensors, so they do
  // not fit a single one.
  if (moments && int64_t(moments->size()) != shape.inputs * shape.inputs)
    moments = nullptr;
  bool isGptq = moments && request.method == Method::Gptq;
  RoundedMatrix matrix =
      isGptq ? roundWithGptq(shape, weight, *moments, request.gptq, threads)
             : roundToNearest(shape, weight, threads);
  const CodedTensors &made = coded.emplace(name, matrix).first->second;
  QuantizedWeight result = {
      name, {shape.inputs, shape.outputs},           info.bytes,  made.bytes(),
      0,    isGptq ? Method::Gptq : Method::Nearest, std::nullopt};
  SquareSums sums = squareSums(weight, matrix);
  squares += sums.weight;
  errors += sums.error;
  result.error = relativeNorm(sums.error, sums.weight);
  if (moments)
    result.outputError = outputError(weight, matrix, *moments, threads);
  results[name] = result;
  if (!calibration)
    return;
  std::vector<float> values = matrix.values();
  calibration->replace(
      name, outIn ? transposed(values, shape.inputs, shape.outputs) : values);
}

/// Quantizes the weights of all layers' matrix products in the order in which
/// the model computes them, because the calibration computes the inputs of a
/// product from the weights that were quantized before. A stage of a layer has
/// the products that are quantized together.
void Quantizer::codeLayers() {
  for (int64_t layer = 0; layer < calibration->layers(); ++layer) {
    for (int64_t stage = 0; stage < calibration->stages(); ++stage) {
      std::map<std::string, Moments> moments = calibration->moments(stage);
      for (const auto &[name, of] : chosen)
        if (auto found = moments.find(of.parameter);
            found != moments.end() && !coded.count(name))
          code(name, &found->second);
    }
    calibration->advance();
  }
}

void Quantizer::addCodes(const io::TensorInfo &info) {
  const CodedTensors &made = coded.at(info.name);
  const CodeShape &shape = made.shape;
  std::string product = info.name.substr(0, info.name.rfind('.'));
  int64_t perWord = 32 / shape.bits;
  tensors.push_back({product + ".qweight",
                     "I32",
                     {shape.inputs / perWord, shape.outputs},
                     made.words.data(),
                     nullptr});
  tensors.push_back({product + ".qzeros",
                     "I32",
                     {shape.groups(), shape.outputs / perWord},
                     made.zeros.data(),
                     nullptr});
  tensors.push_back({product + ".scales",
                     "F16",
                     {shape.groups(), shape.outputs},
                     made.scales.data(),
                     nullptr});
  auto order = [inputs = shape.inputs,
                length = shape.length](const io::TensorToWrite::Sink &sink) {
    std::vector<int32_t> groups(inputs);
    for (int64_t i = 0; i < inputs; ++i)
      groups[i] = int32_t(i / length);
    sink(groups.data(), inputs * int64_t(sizeof(int32_t)));
  };
  tensors.push_back(
      {product + ".g_idx", "I32", {shape.inputs}, nullptr, order});
  report.weights.push_back(results.at(info.name));
  report.bytesAfter += made.bytes();
}

void Quantizer::write() {
  auto settings = nlohmann::ordered_json::parse(spec.configJson);
  settings["quantization_config"] = {
      {"quant_method", "gptq"},
      {"bits", request.bits},
      {"group_size", request.group == 0 ? -1 : request.group},
      {"sym", !request.zeros},
      {"desc_act", false},
      {"true_sequential", request.sequential},
      {"checkpoint_format", "gptq"}};
  io::writeModel(spec.directory, request.output, settings.dump(2) + "\n",
                 std::move(tensors));
}

QuantizeReport Quantizer::run() {
  if (calibration && calibration->rows() > 0)
    codeLayers();
  for (const io::TensorInfo &info : weights.tensors()) {
    report.bytesBefore += info.bytes;
    if (chosen.count(info.name)) {
      if (!coded.count(info.name))
        code(info.name, nullptr);
      addCodes(info);
      continue;
    }
    report.bytesAfter += info.bytes;
    tensors.push_back(
        {info.name, info.dtype, info.shape, weights.data(info), nullptr});
  }
  report.error = relativeNorm(errors, squares);
  report.warnings = spec.warnings;
  write();
  return std::move(report);
}

void quantize::checkQuantizable(const QuantizeRequest &request) {
  Quantizer(request, nullptr).check();
}

QuantizeReport quantize::quantizeModel(const QuantizeRequest &request,
                                       Calibration *calibration) {
  Quantizer quantizer(request, calibration);
  quantizer.check();
  return quantizer.run();
}
