//===- WeightCoverage.cpp - Matches tensors with parameters ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For each parameter, finds by name the tensors that fill it. Checks the
// tensors' shapes and types, and that every other tensor may be ignored.
//
//===----------------------------------------------------------------------===//

#include "WeightCoverage.h"
#include "heddle/runtime/io/ExtendTable.h"
#include <algorithm>
#include <cstring>
#include <set>

using namespace heddle;
using namespace heddle::config;

/// Returns the names that a tensor may have in the weight files: with and
/// without the family's prefix, and in older spellings.
static std::vector<std::string> namesOf(const std::string &plain,
                                        const Family &family) {
  std::vector<std::string> names = {family.sourceName(plain), plain};
  for (const auto &[now, before] : family.renamed) {
    std::string end = now;
    if (plain.size() < end.size() ||
        plain.compare(plain.size() - end.size(), end.size(), end) != 0)
      continue;
    for (size_t i = 0; i < 2; ++i)
      names.push_back(names[i].substr(0, names[i].size() - end.size()) +
                      before);
  }
  return names;
}

/// Returns the tensor of the weight files that has one of the names of `plain`
/// (see `namesOf`), or null.
static const io::TensorInfo *findTensor(const std::string &plain,
                                        const Family &family,
                                        const io::WeightSet &weights) {
  for (const std::string &name : namesOf(plain, family))
    if (const io::TensorInfo *info = weights.find(name))
      return info;
  return nullptr;
}

/// Like findTensor, but throws H0335 if there is no such tensor.
static const io::TensorInfo &findSource(const std::string &plain,
                                        const Family &family,
                                        const io::WeightSet &weights) {
  if (const io::TensorInfo *info = findTensor(plain, family, weights))
    return *info;
  std::vector<std::string> names;
  for (const io::TensorInfo &info : weights.tensors())
    names.push_back(info.name);
  bool hasPrefix =
      std::any_of(names.begin(), names.end(), [&](const std::string &name) {
        return name.rfind(family.prefix, 0) == 0;
      });
  std::string wanted = hasPrefix ? family.sourceName(plain) : plain;
  std::string near = closestMatch(wanted, names);
  fail("H0335", "the tensor \"" + wanted + "\" is missing in the weights",
       near.empty() ? "save the model again, whole; or use --init random with "
                      "its config.json"
                    : "the nearest name in the files is \"" + near + "\"",
       {weights.origin(), 0, 0});
}

static void checkShape(const ParameterSpec &parameter,
                       const std::vector<int64_t> &wanted,
                       const io::TensorInfo &info, const ModelSpec &spec) {
  if (info.shape == wanted)
    return;
  std::string help = "use the config.json that was saved with these weights";
  std::vector<int64_t> turned(wanted.rbegin(), wanted.rend());
  if (info.shape == turned)
    help = "the tensor is transposed: save it as " + io::shapeToString(wanted);
  Diagnostic error{"H0393",
                   "the tensor \"" + info.name + "\" has the shape " +
                       io::shapeToString(info.shape) + ", not " +
                       io::shapeToString(wanted),
                   {info.file, 0, 0},
                   {parameter.shapeReason + " in " + spec.configFile},
                   help};
  throw UserError(std::move(error));
}

static void checkType(const io::TensorInfo &info) {
  if (info.coded)
    return;
  for (const char *known : {"F32", "BF16", "F16"})
    if (info.dtype == known)
      return;
  fail("H0394",
       "the tensor \"" + info.name + "\" has the type " + info.dtype +
           ", which no parameter can have",
       "save it as F32, BF16 or F16", {info.file, 0, 0});
}

bool config::matchesPattern(const std::string &name,
                            const std::string &pattern) {
  size_t star = pattern.find('*');
  if (star == std::string::npos)
    return name == pattern;
  size_t end = name.find_first_not_of("0123456789", star);
  return name.compare(0, star, pattern, 0, star) == 0 && end > star &&
         end != std::string::npos &&
         name.substr(end) == pattern.substr(star + 1);
}

/// Returns the reason why a tensor that fills no parameter may be ignored.
/// Returns "" if it may not be ignored.
static std::string ignoreReason(const std::string &name, const Family &family,
                                const ModelSpec &spec) {
  for (const auto &[pattern, reason] : family.ignored)
    if (matchesPattern(name, pattern))
      return reason;
  // Weight files may contain the head even if the model uses the embedding as
  // its head. If the values of the two differed, the head would be a parameter
  // already (see `hasOtherHead`), so a head that gets here may be ignored.
  if (name == family.head && spec.model && spec.model->tied)
    return "tie_word_embeddings: the head is " + spec.parameters.front().name;
  return "";
}

/// Whether the tensor is the bias of a product with quantized weights. GPTQ
/// tools write a bias for each product. It is filled with zeros if the model
/// has none, so it may then be ignored.
static bool isBiasOfCodes(const io::TensorInfo &info,
                          const io::WeightSet &weights) {
  const std::string end = ".bias";
  size_t size = info.name.size() - std::min(info.name.size(), end.size());
  return info.name.substr(size) == end &&
         weights.find(info.name.substr(0, size) + ".qweight");
}

static bool isZero(const io::TensorInfo &info, const io::WeightSet &weights) {
  std::vector<float> values(info.numElements());
  weights.read(info, "F32", values.data());
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return value == 0; });
}

/// Returns advice for the error about a tensor that neither fills a parameter
/// nor may be ignored.
static std::string helpForUnused(const io::TensorInfo &info,
                                 const io::WeightSet &weights,
                                 const ModelSpec &spec) {
  if (info.name.find(".lora_") != std::string::npos)
    return "merge the adapter into the model, in Python: "
           "model.merge_and_unload().save_pretrained(NEW_DIR)";
  if (isBiasOfCodes(info, weights))
    return "it is a bias that is not zero: use the config.json that was saved "
           "with these weights";
  return "check the number of layers in " + spec.configFile +
         ", or remove the tensor";
}

static void checkUnused(const io::TensorInfo &info, const Family &family,
                        const io::WeightSet &weights, ModelSpec &spec) {
  std::string name = info.name, prefix = family.prefix;
  if (name.rfind(prefix, 0) == 0)
    name = name.substr(prefix.size());
  std::string reason = ignoreReason(name, family, spec);
  if (reason.empty() && isBiasOfCodes(info, weights) && isZero(info, weights))
    reason = "a bias of zeros, which GPTQ's files have for each product";
  if (reason.empty())
    fail("H0395",
         "the tensor \"" + info.name + "\" is no parameter of this " +
             spec.family + " model",
         helpForUnused(info, weights, spec), {info.file, 0, 0});
  spec.ignored.push_back({info.name, std::move(reason)});
}

/// Returns the tensor of a quantized matrix with its dimensions in the order in
/// which the parameter needs them, [in, out] or [out, in].
static const io::TensorInfo &asStored(ParameterSpec &parameter,
                                      const io::TensorInfo &info,
                                      const io::WeightSet &weights,
                                      std::set<std::string> &used) {
  if (!info.coded || info.isOrder)
    return info;
  parameter.isCoded = true;
  used.insert(info.coded->words.name);
  if (parameter.outIn == info.isTransposed)
    return info;
  std::string end(info.coded->isByGroup ? io::byGroupEnd : "");
  return weights.at(info.coded->words.name + end);
}

void config::extendPositions(const Family &family, io::WeightSet &weights,
                             ModelSpec &spec) {
  const io::TensorInfo *table =
      findTensor(spec.extended.tensor, family, weights);
  // An error about a missing table, or one of another shape, follows when
  // tensors are matched with parameters.
  if (!table || table->shape.empty() ||
      table->shape[0] != spec.extended.sourceRows)
    return;
  spec.extended.tensor = table->name;
  io::extendTable(weights, io::TensorInfo(*table), spec.extended);
}

void config::dropMissingHead(const Family &family, const io::WeightSet &weights,
                             ModelSpec &spec) {
  auto isOfHead = [&](const ParameterSpec &parameter) {
    return family.isOfHead(parameter.name);
  };
  auto isThere = [&](const ParameterSpec &parameter) {
    return isOfHead(parameter) && findTensor(parameter.name, family, weights);
  };
  auto &all = spec.parameters;
  if (family.objective != plan::Objective::MaskedToken ||
      std::any_of(all.begin(), all.end(), isThere))
    return;
  auto kept = std::remove_if(all.begin(), all.end(), isOfHead);
  spec.isHeadless = kept != all.end();
  all.erase(kept, all.end());
}

void config::coverWeights(const Family &family, const io::WeightSet &weights,
                          ModelSpec &spec) {
  std::set<std::string> used;
  for (ParameterSpec &parameter : spec.parameters) {
    weights::forEachTensor(parameter.source, [&](weights::Source &tensor) {
      const io::TensorInfo &info = asStored(
          parameter, findSource(tensor.name, family, weights), weights, used);
      checkShape(parameter, tensor.numbers, info, spec);
      checkType(info);
      tensor.name = info.name;
      tensor.type = info.dtype;
      used.insert(info.name);
    });
  }
  for (const io::TensorInfo &info : weights.tensors())
    if (!used.count(info.coded ? info.coded->words.name : info.name))
      checkUnused(info, family, weights, spec);
}

bool config::hasOtherHead(const Family &family, const io::WeightSet &weights,
                          const ModelSpec &spec) {
  const io::TensorInfo *head = findTensor(family.head, family, weights);
  const io::TensorInfo *table =
      findTensor(spec.parameters.front().name, family, weights);
  if (!spec.model->tied || !head || !table || head->coded || table->coded)
    return false;
  if (head->shape != table->shape || head->dtype != table->dtype)
    return true;
  bool isAlike =
      std::memcmp(weights.data(*head), weights.data(*table), head->bytes) == 0;
  weights.forget(*head, 0, head->bytes);
  weights.forget(*table, 0, table->bytes);
  return !isAlike;
}
