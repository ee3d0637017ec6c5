//===- InputOrders.cpp - Inputs in the order of their groups --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InputOrders.h"
#include "heddle/runtime/io/CodedWeights.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <algorithm>
#include <map>

using namespace heddle;
using namespace heddle::config;

static constexpr const char *weightEnd = ".weight", *orderEnd = ".order";

namespace {

/// The weights of one product, in all layers.
struct Product {
  std::vector<ParameterSpec *> weights;
  std::vector<std::string> tensors; ///< The order of each, in the files.
  std::vector<std::vector<int32_t>> orders;

  bool isInOrder() const {
    return std::all_of(orders.begin(), orders.end(), [](const auto &order) {
      return std::is_sorted(order.begin(), order.end());
    });
  }
};

} // namespace

/// `layers.*.mlp.up_proj.weight` of `layers.3.mlp.up_proj.weight`.
static std::string withoutLayer(const ParameterSpec &parameter) {
  std::string name = parameter.name;
  size_t begin = parameter.isOfLayer ? name.find_first_of("0123456789")
                                     : std::string::npos;
  if (begin == std::string::npos)
    return name;
  size_t end = name.find_first_not_of("0123456789", begin);
  return name.replace(begin, end - begin, "*");
}

static std::string orderName(const ParameterSpec &weight) {
  std::string name = weight.name;
  return name.erase(name.rfind(weightEnd)) + orderEnd;
}

/// Adds the weight, if it is a matrix of codes that has an order.
static void addWeight(ParameterSpec &parameter, const io::WeightSet &weights,
                      std::map<std::string, Product> &products,
                      std::vector<Product *> &inTurn) {
  std::string tensor;
  std::vector<int32_t> order;
  weights::forEachTensor(parameter.source, [&](weights::Source &part) {
    const io::TensorInfo &info = weights.at(part.name);
    std::string words = info.coded ? info.coded->words.name : "";
    const io::TensorInfo *found =
        weights.find(words.substr(0, words.rfind('.')) + orderEnd);
    if (!found)
      return;
    auto held = weights.hold(*found);
    auto *first = reinterpret_cast<const int32_t *>(held.get());
    std::vector<int32_t> own(first, first + found->numElements());
    if (!tensor.empty() && own != order)
      fail("H0377",
           "the parameter \"" + parameter.name +
               "\" is made of matrices whose inputs are in different orders",
           "quantize the model anew, without desc_act", {info.file, 0, 0});
    tensor = found->name;
    order = std::move(own);
  });
  if (tensor.empty())
    return;
  auto [entry, isNew] = products.try_emplace(withoutLayer(parameter));
  if (isNew)
    inTurn.push_back(&entry->second);
  entry->second.weights.push_back(&parameter);
  entry->second.tensors.push_back(tensor);
  entry->second.orders.push_back(std::move(order));
}

void config::orderInputs(const io::WeightSet &weights, ModelSpec &spec) {
  std::map<std::string, Product> products;
  std::vector<Product *> inTurn;
  for (ParameterSpec &parameter : spec.parameters)
    addWeight(parameter, weights, products, inTurn);
  std::vector<ParameterSpec> added;
  for (size_t number = 0; number < inTurn.size(); ++number) {
    Product &product = *inTurn[number];
    if (product.isInOrder())
      continue;
    const Product *first = &product;
    for (size_t other = 0; other < number && first == &product; ++other)
      if (inTurn[other]->orders == product.orders)
        first = inTurn[other];
    for (size_t i = 0; i < product.weights.size(); ++i) {
      ParameterSpec &weight = *product.weights[i];
      weight.order = orderName(*first->weights[i]);
      weights::forEachTensor(weight.source, [](weights::Source &tensor) {
        tensor.name += io::byGroupEnd;
      });
      if (first != &product)
        continue;
      ParameterSpec &order = added.emplace_back();
      order.name = weight.order;
      order.shape = {int64_t(product.orders[i].size())};
      order.source = weights::tensor(product.tensors[i], order.shape, "I32");
      order.decays = false;
      order.isOfLayer = weight.isOfLayer;
      order.isOrder = true;
    }
  }
  spec.parameters.insert(spec.parameters.end(), added.begin(), added.end());
}
