//===- InputOrders.cpp - Inputs in the order of their groups --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPTQ with desc_act may put any inputs of a matrix into the same quantization
// group. The inputs, sorted by group, are the matrix's input order. This file
// compares the input orders of all quantized matrices, and adds a parameter for
// each order that the model needs.
//
//===----------------------------------------------------------------------===//

#include "InputOrders.h"
#include "heddle/runtime/io/CodedWeights.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

using namespace heddle;
using namespace heddle::config;

static constexpr const char *weightEnd = ".weight", *orderEnd = ".order";

namespace {

/// The weights of one matrix product, one for each layer. A quantized weight is
/// loaded with its inputs sorted by quantization group, if a tensor g_idx gives
/// the group of each input. A weight that is made of several matrices, for
/// example q, k and v, has one g_idx for each matrix. For each weight whose
/// matrices have the same order of inputs, `orders` has this order, and
/// `tensors` has the names of the tensors that give it (see `Orders`).
struct Product {
  std::vector<ParameterSpec *> weights;
  std::vector<std::set<std::string>> tensors;
  std::vector<std::vector<int32_t>> orders;
  bool isEven = true; ///< All groups have the same number of inputs.

  /// Whether both products can multiply the same reordered activations: their
  /// weights have equal input orders in every layer.
  bool isLike(const Product &other) const {
    return orders == other.orders &&
           weights.front()->isOfLayer == other.weights.front()->isOfLayer;
  }
  bool isInOrder() const {
    return std::all_of(orders.begin(), orders.end(), [](const auto &order) {
      return std::is_sorted(order.begin(), order.end());
    });
  }
};

} // namespace

/// Returns the parameter's name with `*` in place of the layer's index:
/// `layers.*.mlp.up_proj.weight` for `layers.3.mlp.up_proj.weight`.
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

/// Makes the parameter that holds the order of a weight's inputs. The model
/// permutes activations in this order before it multiplies them by the weight.
static ParameterSpec orderOf(const ParameterSpec &weight,
                             const std::string &tensor) {
  ParameterSpec order;
  order.name = weight.order;
  order.shape = {weight.shape[weight.outIn ? 1 : 0]};
  order.source = weights::tensor(tensor, order.shape, "I32");
  order.decays = false;
  order.isOfLayer = weight.isOfLayer;
  order.isOrder = true;
  return order;
}

namespace {

/// Finds the order of the inputs of quantized matrices, sorted by quantization
/// group. The tensor g_idx of the weight files gives the group of each input.
/// Each g_idx is read only once.
class Orders {
public:
  explicit Orders(const io::WeightSet &weights) : weights(weights) {}
  /// Returns the name of the tensor with the order of a matrix's inputs, which
  /// is computed from g_idx; "" if there is none.
  std::string tensorOf(const std::string &matrix) const;
  /// Returns the indices of a matrix's inputs, sorted by quantization group.
  /// `tensor` is the result of `tensorOf`. Returns nothing if the groups have
  /// different numbers of inputs.
  const std::optional<std::vector<int32_t>> &at(const std::string &tensor);

private:
  const io::WeightSet &weights;
  std::map<std::string, std::optional<std::vector<int32_t>>> known;
};

} // namespace

std::string Orders::tensorOf(const std::string &matrix) const {
  const io::TensorInfo &info = weights.at(matrix);
  if (!info.coded)
    return "";
  const std::string &words = info.coded->words.name;
  std::string tensor = words.substr(0, words.rfind('.')) + orderEnd;
  return weights.find(tensor) ? tensor : "";
}

const std::optional<std::vector<int32_t>> &
Orders::at(const std::string &tensor) {
  auto [entry, isNew] = known.try_emplace(tensor);
  if (isNew) {
    io::InputGroups groups(*weights.at(tensor).coded, weights);
    if (groups.areAlike)
      entry->second = std::move(groups.inputAt);
  }
  return entry->second;
}

/// Adds the weight of one layer to `product.weights`. If all matrices of the
/// weight need the same permutation of the input features, to sort them by
/// quantization group, also adds this permutation to `product.orders`.
static void addWeight(ParameterSpec &parameter, Orders &orders,
                      Product &product) {
  product.weights.push_back(&parameter);
  std::set<std::string> tensors;
  weights::forEachTensor(parameter.source, [&](weights::Source &part) {
    tensors.insert(orders.tensorOf(part.name));
  });
  const std::string &first = *tensors.begin();
  bool areAlike = true;
  for (const std::string &tensor : tensors) {
    product.isEven &= tensor.empty() || orders.at(tensor);
    areAlike &= !tensor.empty() && orders.at(tensor) &&
                orders.at(tensor) == orders.at(first);
  }
  if (!areAlike)
    return;
  product.orders.push_back(*orders.at(first));
  product.tensors.push_back(std::move(tensors));
}

void config::orderInputs(const io::WeightSet &weights, ModelSpec &spec) {
  std::map<std::string, Product> products;
  std::vector<Product *> inTurn;
  Orders orders(weights);
  for (ParameterSpec &parameter : spec.parameters) {
    if (parameter.shape.size() != 2)
      continue;
    auto [entry, isNew] = products.try_emplace(withoutLayer(parameter));
    if (isNew)
      inTurn.push_back(&entry->second);
    addWeight(parameter, orders, entry->second);
  }
  std::vector<ParameterSpec> added;
  std::vector<const Product *> ordered;
  for (Product *product : inTurn) {
    // All layers run the same code, so a product is either quantized in every
    // layer or in none. Dequantize the weights of all layers if one of them is
    // not quantized, or has matrices with different input orders.
    if (product->orders.size() < product->weights.size()) {
      for (ParameterSpec *weight : product->weights) {
        weight->isCoded = false;
        if (!product->isEven)
          spec.unevenWeights.push_back(weight->name);
      }
      continue;
    }
    for (ParameterSpec *weight : product->weights)
      weights::forEachTensor(weight->source, [](weights::Source &tensor) {
        tensor.name += io::byGroupEnd;
      });
    if (product->isInOrder()) {
      for (const auto &tensors : product->tensors)
        for (const std::string &tensor : tensors)
          spec.orders[tensor] = "";
      continue;
    }
    auto like =
        std::find_if(ordered.begin(), ordered.end(), [&](const Product *other) {
          return other->isLike(*product);
        });
    const Product *first = like == ordered.end() ? product : *like;
    for (size_t i = 0; i < product->weights.size(); ++i) {
      ParameterSpec &weight = *product->weights[i];
      weight.order = orderName(*first->weights[i]);
      const std::string &read = *first->tensors[i].begin();
      if (first == product)
        added.push_back(orderOf(weight, read));
      for (const std::string &tensor : product->tensors[i])
        if (tensor != read)
          spec.orders[tensor] = read;
    }
    ordered.push_back(product);
  }
  spec.parameters.insert(spec.parameters.end(), added.begin(), added.end());
  spec.codes->inOrder = true;
}
