//===- CodedWeights.cpp - Unpack int4 and int8 weights --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the formats of GPTQ and AWQ, unpacks int4 and int8 codes from 32-bit
// words, and dequantizes them.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/CodedWeights.h"
#include "heddle/runtime/io/Affix.h"
#include "heddle/runtime/io/Checkpoint.h"
#include "heddle/runtime/io/ExtendTable.h"
#include "heddle/runtime/io/File.h"

#include <algorithm>
#include <numeric>

using namespace heddle;
using namespace heddle::io;
using Kind = CodeFormat::Kind;

static constexpr int64_t wordBits = 32;

//===----------------------------------------------------------------------===//
// quantization_config
//===----------------------------------------------------------------------===//

[[noreturn]] static void failFormat(const JsonValue &value,
                                    const std::string &what) {
  value.fail("H0376", what,
             "quantize the model anew, with GPTQ or AWQ, or with heddle "
             "quantize");
}

static bool boolOf(const JsonValue &object, const char *key, bool missing) {
  const JsonValue *found = object.find(key);
  return found && found->kind() == JsonValue::Kind::Bool ? found->asBool()
                                                         : missing;
}

static std::string textOf(const JsonValue &object, const char *key,
                          const char *missing) {
  const JsonValue *found = object.find(key);
  return found && found->kind() == JsonValue::Kind::String ? found->asString()
                                                           : missing;
}

/// Reads GPTQ's parameters; throws for a variant that cannot be read.
static void readGptq(const JsonValue &said, CodeFormat &format) {
  format.even = boolOf(said, "sym", false);
  format.inOrder = !boolOf(said, "desc_act", false);
  std::string layout = textOf(said, "checkpoint_format", "gptq");
  if (boolOf(said, "is_marlin_format", false))
    layout = "marlin";
  if (layout != "gptq" && layout != "gptq_v2")
    failFormat(said, "GPTQ's layout \"" + layout + "\" cannot be read");
  format.storesLess = layout == "gptq";
}

/// Returns the member `name` of `said`, or else the member `other`: some
/// settings have another name in a file that AutoAWQ wrote.
static const JsonValue *eitherOf(const JsonValue &said, const char *name,
                                 const char *other) {
  const JsonValue *found = said.findNonNull(name);
  return found ? found : said.findNonNull(other);
}

/// Reads a quantization configuration. If the configuration names no method,
/// `fallback` is the method.
static CodeFormat readFormat(const JsonValue &said, const char *fallback) {
  std::string method = textOf(said, "quant_method", fallback);
  if (method != "gptq" && method != "awq")
    failFormat(said, "weights quantized by \"" + method + "\" cannot be read");
  CodeFormat format;
  format.kind = method == "gptq" ? Kind::Gptq : Kind::Awq;
  bool isAwq = format.kind == Kind::Awq;
  const JsonValue *bits = eitherOf(said, "bits", "w_bit");
  if (!bits)
    bits = &said.at("bits");
  format.bits = bits->asInteger();
  if (format.bits != 4 && (isAwq || format.bits != 8))
    failFormat(*bits, method + " with codes of " + std::to_string(format.bits) +
                          " bits cannot be read");
  if (const JsonValue *group = eitherOf(said, "group_size", "q_group_size"))
    format.group = std::max<int64_t>(group->asInteger(), 0);
  if (!isAwq) {
    readGptq(said, format);
    return format;
  }
  std::string version = textOf(said, "version", "gemm");
  if (version != "gemm" && version != "GEMM")
    failFormat(said, "AWQ's layout \"" + version + "\" cannot be read");
  return format;
}

std::optional<CodeFormat> io::readCodeFormat(const JsonValue &config,
                                             const std::string &directory) {
  if (const JsonValue *said = config.findNonNull("quantization_config"))
    return readFormat(*said, "");
  const std::pair<const char *, const char *> files[] = {
      {"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}};
  for (const auto &[name, method] : files)
    if (std::string file = directory + "/" + name; pathExists(file))
      return readFormat(parseJsonFile(file, modelJsonCodes), method);
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Quantized codes
//===----------------------------------------------------------------------===//

template <typename Element>
static std::vector<Element> elementsOf(const TensorInfo &info,
                                       const std::string &dtype,
                                       const WeightSet &weights) {
  std::vector<Element> elements(info.numElements());
  weights.read(info, dtype, elements.data());
  return elements;
}

[[noreturn]] static void failGroups(const CodedMatrix &matrix,
                                    const std::string &what,
                                    const std::string &help) {
  fail("H0377", what, help, {matrix.groupOfInput->file, 0, 0});
}

InputGroups::InputGroups(const CodedMatrix &matrix, const WeightSet &weights)
    : ofInput(matrix.inputs), inputAt(matrix.inputs) {
  const int64_t length = matrix.groupLength();
  std::iota(inputAt.begin(), inputAt.end(), 0);
  for (int64_t i = 0; i < matrix.inputs; ++i)
    ofInput[i] = int32_t(i / length);
  if (!matrix.groupOfInput)
    return;
  std::vector<int32_t> inOrder = std::move(ofInput);
  ofInput = elementsOf<int32_t>(*matrix.groupOfInput, "I32", weights);
  for (int64_t i = 0; i < matrix.inputs; ++i)
    if (ofInput[i] < 0 || ofInput[i] >= matrix.groups())
      failGroups(matrix,
                 "input " + std::to_string(i) + " of \"" + matrix.words.name +
                     "\" is of group " + std::to_string(ofInput[i]) + " of " +
                     std::to_string(matrix.groups()),
                 "quantize the model anew");
  if (matrix.format.inOrder && ofInput != inOrder)
    failGroups(matrix,
               "the inputs of \"" + matrix.words.name +
                   "\" are not in the order of their groups, and desc_act does "
                   "not say so",
               "set desc_act of quantization_config to true");
  if (!matrix.isByGroup)
    return;
  std::stable_sort(inputAt.begin(), inputAt.end(), [&](int32_t a, int32_t b) {
    return ofInput[a] < ofInput[b];
  });
  for (int64_t i = 0; i < matrix.inputs; ++i)
    areAlike &= ofInput[inputAt[i]] == inOrder[i];
}

void InputGroups::requireAlike(const CodedMatrix &matrix) const {
  if (!areAlike)
    failGroups(matrix,
               "the groups of \"" + matrix.words.name + "\" do not have " +
                   std::to_string(matrix.groupLength()) + " inputs each",
               "compile for these weights: the values of such codes are "
               "computed with then");
}

CodeReader::CodeReader(const CodedMatrix &matrix, const WeightSet &weights)
    : matrix(matrix), weights(weights),
      zeros(elementsOf<uint32_t>(matrix.zeros, "I32", weights)),
      scales(elementsOf<float>(matrix.scales, "F32", weights)),
      groups(matrix, weights) {
  groups.requireAlike(matrix);
}

/// Returns the code with the index `index` of a word. The order of codes in a
/// word depends on the format: AWQ packs the codes of even columns first, then
/// those of odd columns.
uint32_t CodeReader::field(uint32_t word, int64_t index) const {
  constexpr int64_t awqPlaces[] = {0, 4, 1, 5, 2, 6, 3, 7};
  int64_t place = matrix.format.kind == Kind::Awq ? awqPlaces[index] : index;
  return word >> (place * matrix.format.bits) &
         ((1u << matrix.format.bits) - 1);
}

int32_t CodeReader::code(const std::vector<uint32_t> &words, int64_t input,
                         int64_t output) const {
  int64_t perWord = wordBits / matrix.format.bits;
  if (matrix.format.kind == Kind::Awq)
    return field(words[input * (matrix.outputs / perWord) + output / perWord],
                 output % perWord);
  return field(words[input / perWord * matrix.outputs + output],
               input % perWord);
}

int32_t CodeReader::zero(int64_t group, int64_t output) const {
  int64_t perWord = wordBits / matrix.format.bits;
  uint32_t stored =
      field(zeros[group * (matrix.outputs / perWord) + output / perWord],
            output % perWord);
  // Format 1 of GPTQ stores a zero point minus 1. A zero point of 0 is
  // therefore stored as -1, that is as a code whose bits are all ones. Adding 1
  // overflows the code, and the mask removes the overflow.
  uint32_t mask = (1u << matrix.format.bits) - 1;
  return matrix.format.storesLess ? int32_t((stored + 1) & mask)
                                  : int32_t(stored);
}

std::vector<float> CodeReader::values(bool transposed) const {
  int64_t inputs = matrix.inputs, outputs = matrix.outputs;
  auto words = elementsOf<uint32_t>(matrix.words, "I32", weights);
  std::vector<float> result(inputs * outputs), zerosOf(scales.size());
  for (int64_t group = 0; group < matrix.groups(); ++group)
    for (int64_t o = 0; o < outputs; ++o)
      zerosOf[group * outputs + o] = float(zero(group, o));
  for (int64_t i = 0; i < inputs; ++i) {
    int64_t input = groups.inputAt[i], group = groups.ofInput[input];
    for (int64_t o = 0; o < outputs; ++o)
      result[transposed ? o * inputs + i : i * outputs + o] =
          scales[group * outputs + o] *
          (float(code(words, input, o)) - zerosOf[group * outputs + o]);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Weights of a model
//===----------------------------------------------------------------------===//

namespace heddle::io {

/// Replaces the tensors of codes of each quantized matrix by the matrix itself.
class CodedSet {
public:
  CodedSet(WeightSet &set, CodeFormat format) : set(set), format(format) {}
  void run();

private:
  void add(const TensorInfo &words, const std::string &product);
  void require(const TensorInfo &info, const std::string &dtype,
               const std::vector<int64_t> &shape) const;
  WeightSet &set;
  CodeFormat format;
  std::vector<TensorInfo> all;
};

} // namespace heddle::io

void CodedSet::require(const TensorInfo &info, const std::string &dtype,
                       const std::vector<int64_t> &shape) const {
  if (info.dtype == dtype && info.shape == shape)
    return;
  fail("H0377",
       "\"" + info.name + "\" is " + info.dtype + " " +
           shapeToString(info.shape) + ", not " + dtype + " " +
           shapeToString(shape) + ", as " + std::to_string(format.bits) +
           " bits and groups of " + std::to_string(format.group) + " have",
       "use the config.json that was saved with these weights",
       {info.file, 0, 0});
}

void CodedSet::add(const TensorInfo &words, const std::string &product) {
  auto matrix = std::make_shared<CodedMatrix>();
  matrix->format = format;
  matrix->words = words;
  matrix->zeros = set.at(product + ".qzeros");
  matrix->scales = set.at(product + ".scales");
  int64_t perWord = wordBits / format.bits;
  bool isAwq = format.kind == Kind::Awq;
  if (words.shape.size() != 2)
    require(words, "I32", {0, 0});
  int64_t inputs = words.shape[0] * (isAwq ? 1 : perWord);
  int64_t outputs = words.shape[1] * (isAwq ? perWord : 1);
  matrix->inputs = inputs;
  matrix->outputs = outputs;
  require(words, "I32", words.shape);
  require(matrix->scales, "F16", {matrix->groups(), outputs});
  require(matrix->zeros, "I32", {matrix->groups(), outputs / perWord});
  if (const TensorInfo *order = set.find(product + ".g_idx")) {
    require(*order, "I32", {inputs});
    matrix->groupOfInput = *order;
  }
  TensorInfo info = words;
  info.dtype = "F32";
  info.coded = matrix;
  info.bytes = inputs * outputs * int64_t(sizeof(float));
  auto addBoth = [&](const std::string &end) {
    info.name = words.name + end;
    info.shape = {inputs, outputs};
    info.isTransposed = false;
    all.push_back(info);
    info.name = product + ".weight" + end;
    info.shape = {outputs, inputs};
    info.isTransposed = true;
    all.push_back(info);
  };
  addBoth("");
  if (format.inOrder || !matrix->groupOfInput)
    return;
  auto byGroup = std::make_shared<CodedMatrix>(*matrix);
  byGroup->isByGroup = true;
  info.coded = byGroup;
  addBoth(std::string(byGroupEnd));
  info.name = product + ".order";
  info.dtype = "I32";
  info.shape = {inputs};
  info.bytes = inputs * int64_t(sizeof(int32_t));
  info.isTransposed = false;
  info.isOrder = true;
  all.push_back(info);
}

void CodedSet::run() {
  for (const TensorInfo &info : set.tensors()) {
    if (endsWith(info.name, ".qweight")) {
      add(info, info.name.substr(0, info.name.rfind('.')));
      continue;
    }
    bool isPart = false;
    for (const char *end : {".qzeros", ".scales", ".g_idx"})
      isPart |= endsWith(info.name, end);
    if (!isPart)
      all.push_back(info);
  }
  std::sort(
      all.begin(), all.end(),
      [](const TensorInfo &a, const TensorInfo &b) { return a.name < b.name; });
  set.all = std::move(all);
}

WeightSet io::openModelWeights(const std::string &path) {
  WeightSet set = openWeights(path);
  const std::vector<TensorInfo> &all = set.tensors();
  auto words = std::find_if(all.begin(), all.end(), [](const TensorInfo &info) {
    return endsWith(info.name, ".qweight");
  });
  std::string directory = resolveModel(path);
  if (words == all.end() || !pathExists(directory + "/config.json"))
    return set;
  JsonValue config = parseJsonFile(directory + "/config.json", modelJsonCodes);
  std::optional<CodeFormat> format = readCodeFormat(config, directory);
  if (!format)
    fail("H0399",
         "\"" + words->name +
             "\" has codes, and nothing says how they were made",
         "download quantize_config.json, or the config.json with a "
         "quantization_config, into " +
             directory,
         {words->file, 0, 0});
  CodedSet(set, *format).run();
  return set;
}

std::shared_ptr<const uint8_t> WeightSet::hold(const TensorInfo &info) const {
  if (!info.coded && !info.extension) {
    const uint8_t *bytes = data(info);
    return {mapped.at(info.file), bytes};
  }
  auto share = [](auto values) -> std::shared_ptr<const uint8_t> {
    auto held = std::make_shared<decltype(values)>(std::move(values));
    return {held, reinterpret_cast<const uint8_t *>(held->data())};
  };
  if (info.extension)
    return share(extendedRows(info, *this));
  if (info.isOrder) {
    InputGroups groups(*info.coded, *this);
    groups.requireAlike(*info.coded);
    return share(std::move(groups.inputAt));
  }
  return share(CodeReader(*info.coded, *this).values(info.isTransposed));
}
