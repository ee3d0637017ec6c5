//===- PagedTexts.cpp - Kernels of attention over a cache -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PagedTexts.h"
#include <numeric>
#include <random>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;
using eval::ElementKind;
using eval::Tensor;

static std::string shape(std::initializer_list<int64_t> sizes,
                         const char *type) {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + type + ">";
}

PagedKernels test::pagedKernels(const Paged &p, PagedResult result) {
  std::string keys = shape({p.pages(), p.kv, p.dims, p.pageTokens}, p.cache);
  std::string values = shape({p.pages(), p.kv, p.pageTokens, p.dims}, p.cache);
  std::string scales = shape({p.pages(), p.kv, 2, p.pageTokens}, "f16");
  std::string x =
      shape({p.rows(), p.tokens, (p.heads + 2 * p.kv) * p.dims}, p.type);
  std::string table = shape({p.rows(), p.rowPages()}, "i32");
  std::string at = shape({p.rows(), p.tokens}, "i32");
  std::string lengths = shape({p.rows()}, "i32");
  int64_t partPages = 256 / p.pageTokens;
  std::string parts =
      shape({p.rows(), p.tokens, (p.rowPages() + partPages - 1) / partPages,
             p.heads, p.dims + 2},
            "f32");
  std::string y = shape({p.rows(), p.tokens, p.heads * p.dims}, p.type);
  std::string mask = "mask = #nn.mask<causal";
  if (p.window > 0)
    mask += ", window = " + std::to_string(p.window);
  mask += ">";
  std::string out = result == PagedResult::Whole ? y : parts;
  std::string kernel = " attributes {generator = #plan.generator<attention>, "
                       "ties = array<i64: -1>} {\n  %y = ";
  auto end = [](const std::string &type) {
    return " -> " + type + "\n  plan.yield %y : " + type + "\n}";
  };
  PagedKernels texts;
  texts.attention =
      "plan.kernel @k(%k: " + keys + ", %v: " + values +
      (p.isCoded() ? ", %s: " + scales : "") + ", %x: " + x + ", %p: " + table +
      ", %at: " + at + ", %n: " + lengths + ") -> " + out + kernel +
      "nn.paged_attention %k, %v" + (p.isCoded() ? " scales %s" : "") +
      " of %x pages %p at %at lengths %n {heads = #nn.heads<" +
      std::to_string(p.heads) + ", kv = " + std::to_string(p.kv) +
      ", scale = 0.21" + p.softcap + ">, " + mask +
      (result == PagedResult::Whole ? "" : ", in_parts") + "} : (" + keys +
      ", " + values + (p.isCoded() ? ", " + scales : "") + ", " + x + ", " +
      table + ", " + at + ", " + lengths + ")" + end(out);
  texts.join = "plan.kernel @k(%x: " + parts + ", %at: " + at +
               ", %n: " + lengths + ") -> " + y + kernel +
               "nn.paged_attention_join %x at %at lengths %n {" + mask +
               ", part_tokens = 256 : i64} : (" + parts + ", " + at + ", " +
               lengths + ")" + end(y);
  return texts;
}

/// Makes keys and values NaN that no text has, in caches of floats.
static void spoilRest(const Paged &p, ArrayRef<int64_t> table, Tensor &keys,
                      Tensor &values) {
  std::vector<bool> isUsed(p.pages() * p.pageTokens);
  for (int64_t row = 0; row < p.rows(); ++row)
    for (int64_t at = 0; at < p.contexts[row]; ++at)
      isUsed[table[row * p.rowPages() + at / p.pageTokens] * p.pageTokens +
             at % p.pageTokens] = true;
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  for (int64_t slot = 0; slot < p.pages() * p.pageTokens; ++slot) {
    if (isUsed[slot])
      continue;
    int64_t page = slot / p.pageTokens, key = slot % p.pageTokens;
    for (int64_t head = page * p.kv; head < (page + 1) * p.kv; ++head)
      for (int64_t d = 0; d < p.dims; ++d) {
        keys.mutableFloats()[(head * p.dims + d) * p.pageTokens + key] = none;
        values.mutableFloats()[(head * p.pageTokens + key) * p.dims + d] = none;
      }
  }
}

std::string test::cacheWriteKernel(const Paged &p) {
  std::string keys = shape({p.pages(), p.kv, p.dims, p.pageTokens}, p.cache);
  std::string values = shape({p.pages(), p.kv, p.pageTokens, p.dims}, p.cache);
  std::string scales = shape({p.pages(), p.kv, 2, p.pageTokens}, "f16");
  std::string x =
      shape({p.rows(), p.tokens, (p.heads + 2 * p.kv) * p.dims}, p.type);
  std::string table = shape({p.rows(), p.rowPages()}, "i32");
  std::string at = shape({p.rows(), p.tokens}, "i32");
  std::string lengths = shape({p.rows()}, "i32");
  std::string caches =
      keys + ", " + values + (p.isCoded() ? ", " + scales : "");
  std::string results = p.isCoded() ? "%a, %b, %c" : "%a, %b";
  return "plan.kernel @k(%k: " + keys + ", %v: " + values +
         (p.isCoded() ? ", %s: " + scales : "") + ", %x: " + x +
         ", %p: " + table + ", %at: " + at + ", %n: " + lengths + ") -> (" +
         caches +
         ") attributes {generator = #plan.generator<cache>, ties = array<i64: "
         "0, 1" +
         (p.isCoded() ? ", 2" : "") + ">} {\n  " + results +
         " = nn.cache_write %k, %v" + (p.isCoded() ? " scales %s" : "") +
         " of %x pages %p at %at lengths %n {heads = #nn.heads<" +
         std::to_string(p.heads) + ", kv = " + std::to_string(p.kv) +
         ", scale = 0.21>} : (" + caches + ", " + x + ", " + table + ", " + at +
         ", " + lengths + ") -> (" + caches + ")\n  plan.yield " + results +
         " : " + caches + "\n}";
}

std::vector<Tensor> test::pagedArguments(const Paged &p) {
  std::mt19937 engine(p.dims + p.contexts[0]);
  std::normal_distribution<double> normal;
  auto draw = [&](ElementKind kind, std::vector<int64_t> sizes,
                  bool isPositive = false) {
    Tensor tensor(kind, sizes);
    if (eval::isFloat(kind))
      for (double &value : tensor.mutableFloats())
        value =
            isPositive ? 0.01 + std::abs(normal(engine)) / 100 : normal(engine);
    else
      for (int64_t &value : tensor.mutableInts())
        value = static_cast<int64_t>(engine() % 255) - 127;
    return tensor.convertTo(kind);
  };
  auto kindOf = [](const std::string &type) {
    return type == "i8"     ? ElementKind::I8
           : type == "bf16" ? ElementKind::BF16
           : type == "f16"  ? ElementKind::F16
                            : ElementKind::F32;
  };
  std::vector<Tensor> tensors = {
      draw(kindOf(p.cache), {p.pages(), p.kv, p.dims, p.pageTokens}),
      draw(kindOf(p.cache), {p.pages(), p.kv, p.pageTokens, p.dims})};
  if (p.isCoded())
    tensors.push_back(draw(ElementKind::F16, {p.pages(), p.kv, 2, p.pageTokens},
                           /*isPositive=*/true));
  tensors.push_back(draw(kindOf(p.type),
                         {p.rows(), p.tokens, (p.heads + 2 * p.kv) * p.dims}));
  std::vector<int64_t> order(p.pages()), positions, lengths;
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), engine);
  order.resize(p.rows() * p.rowPages());
  if (!p.isCoded())
    spoilRest(p, order, tensors[0], tensors[1]);
  for (int64_t context : p.contexts) {
    for (int64_t token = 0; token < p.tokens; ++token)
      positions.push_back(context - p.tokens + token);
    lengths.push_back(p.tokens);
  }
  if (p.tokens > 1)
    --lengths.back();
  tensors.emplace_back(ElementKind::I32,
                       ArrayRef<int64_t>{p.rows(), p.rowPages()}, order);
  tensors.emplace_back(ElementKind::I32, ArrayRef<int64_t>{p.rows(), p.tokens},
                       positions);
  tensors.emplace_back(ElementKind::I32, ArrayRef<int64_t>{p.rows()}, lengths);
  return tensors;
}

std::vector<Tensor>
test::tokenAlone(const Paged &p, std::vector<Tensor> arguments, int64_t token) {
  size_t x = arguments.size() - 4, at = arguments.size() - 2;
  int64_t columns = arguments[x].shape()[2];
  arguments[x] = arguments[x].reshaped({p.tokens, 1, columns}).slice(token, 1);
  arguments[at] = arguments[at].reshaped({p.tokens, 1}).slice(token, 1);
  arguments.back().mutableInts()[0] = 1;
  return arguments;
}
