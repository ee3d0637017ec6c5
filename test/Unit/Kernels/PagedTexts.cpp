//===- PagedTexts.cpp - Kernels of attention over a cache -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PagedTexts.h"
#include <numeric>
#include <optional>
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

namespace {
/// The types and the arguments of the kernels of a case.
struct PagedTypes {
  explicit PagedTypes(const Paged &p, PagedResult result = PagedResult::Whole)
      : p(p), keys(shape({p.pages(), p.kv, p.dims, p.pageTokens}, p.cache)),
        values(shape({p.pages(), p.kv, p.pageTokens, p.dims}, p.cache)),
        scales(shape({p.pages(), p.kv, 2, p.pageTokens}, "f16")),
        x(shape({p.rows(), p.tokens, (p.heads + 2 * p.kv) * p.dims}, p.type)),
        table(shape({p.rows(), p.rowPages()}, "i32")),
        at(shape({p.rows(), p.tokens}, "i32")),
        lengths(shape({p.rows()}, "i32")),
        parts(shape({p.rows(), p.tokens,
                     (p.rowPages() * p.pageTokens + 255) / 256, p.heads,
                     p.dims + 2},
                    "f32")),
        whole(shape({p.rows(), p.tokens, p.heads * p.dims}, p.type)),
        out(result == PagedResult::Whole ? whole : parts),
        heads(shape({p.rows(), p.tokens, p.heads + 2 * p.kv, p.dims}, p.type)),
        weight(shape({p.dims}, p.type)), isWhole(result == PagedResult::Whole) {
    if (p.block > 0)
      layout = shape(
          {p.layouts, p.layoutBlocks(), (p.layoutBlocks() + 31) / 32}, "i32");
    caches = keys + ", " + values + (p.isCoded() ? ", " + scales : "");
    mask = "mask = #nn.mask<causal" +
           (p.window > 0 ? ", window = " + std::to_string(p.window) : "") +
           (p.block > 0
                ? ", block = " + std::to_string(p.block) + ", density = 0.5"
                : "") +
           ">";
  }

  std::string arguments() const {
    return "plan.kernel @k(" + (p.block > 0 ? "%l: " + layout + ", " : "") +
           (p.hasNorms ? "%w: " + weight + ", " : "") + "%k: " + keys +
           ", %v: " + values + (p.isCoded() ? ", %s: " + scales : "") +
           ", %x: " + x + ", %p: " + table + ", %at: " + at +
           ", %n: " + lengths + ") -> ";
  }
  std::string attributes(const std::string &generator,
                         const std::string &ties) const {
    return " attributes {generator = #plan.generator<" + generator +
           ">, ties = array<i64: " + ties + ">} {\n";
  }
  /// Operation `name` on the cache, which is `k` in the names of its values,
  /// and on the tokens `tokens`.
  std::string cacheOp(const std::string &name, const std::string &k,
                      const std::string &v, const std::string &s,
                      const std::string &tokens, const std::string &more,
                      const std::string &results) const {
    bool hasLayout = name == "paged_attention" && p.block > 0;
    return "nn." + name + " " + k + ", " + v +
           (p.isCoded() ? " scales " + s : "") + " of " + tokens +
           " pages %p at %at lengths %n " + (hasLayout ? "layout %l " : "") +
           "{heads = #nn.heads<" + std::to_string(p.heads) +
           ", kv = " + std::to_string(p.kv) + ", scale = 0.21" + p.softcap +
           ">" + more + "} : (" + caches + ", " + x + ", " + table + ", " + at +
           ", " + lengths + (hasLayout ? ", " + layout : "") + ") -> " +
           results + "\n";
  }
  std::string attention(const std::string &k, const std::string &v,
                        const std::string &s, const std::string &tokens) const {
    return "  %y = " + cacheOp("paged_attention", k, v, s, tokens,
                               ", " + mask + (isWhole ? "" : ", in_parts"),
                               out);
  }
  std::string written() const { return p.isCoded() ? "%a, %b, %c" : "%a, %b"; }
  std::string write(const std::string &tokens) const {
    return "  " + written() + " = " +
           cacheOp("cache_write", "%k", "%v", "%s", tokens, "",
                   "(" + caches + ")");
  }
  std::string cacheTies() const {
    int64_t first = (p.hasNorms ? 1 : 0) + (p.block > 0 ? 1 : 0);
    std::string ties = std::to_string(first);
    for (int64_t i = 1; i < (p.isCoded() ? 3 : 2); ++i)
      ties += ", " + std::to_string(first + i);
    return ties;
  }
  std::string norm() const {
    std::string rstd = shape({p.rows(), p.tokens, p.heads + 2 * p.kv}, "f32");
    return "  %h = nn.reshape %x : (" + x + ") -> " + heads +
           "\n  %g, %u = nn.rms_norm %h, %w {eps = 1.0e-5 : f64} : (" + heads +
           ", " + weight + ") -> (" + heads + ", " + rstd + ")\n";
  }
  std::string rotary() const {
    std::string norms;
    if (p.hasNorms)
      norms = norm() + "  %m = nn.reshape %g : (" + heads + ") -> " + x + "\n";
    return norms + "  %r = nn.rotary " + (p.hasNorms ? "%m" : "%x") +
           " at %at {dims = " + std::to_string(p.dims / 2 * 2) +
           " : i64, heads = " + std::to_string(p.heads + 2 * p.kv) +
           " : i64, theta = 100.0 : f64} : (" + x + ", " + at + ") -> " + x +
           "\n";
  }
  std::string yield(const std::string &results,
                    const std::string &types) const {
    return "  plan.yield " + results + " : " + types + "\n}";
  }

  const Paged &p;
  std::string keys, values, scales, x, table, at, lengths, parts, whole, out,
      caches, mask, heads, weight, layout;
  bool isWhole;
};
} // namespace

PagedKernels test::pagedKernels(const Paged &p, PagedResult result,
                                bool rotates) {
  PagedTypes t(p, result);
  PagedKernels texts;
  texts.attention = t.arguments() + t.out + t.attributes("attention", "-1") +
                    (rotates ? t.rotary() : "") +
                    t.attention("%k", "%v", "%s", rotates ? "%r" : "%x") +
                    t.yield("%y", t.out);
  texts.join = "plan.kernel @k(%x: " + t.parts + ", %at: " + t.at +
               ", %n: " + t.lengths + ") -> " + t.whole +
               t.attributes("attention", "-1") +
               "  %y = nn.paged_attention_join %x at %at lengths %n {" +
               t.mask + ", part_tokens = 256 : i64} : (" + t.parts + ", " +
               t.at + ", " + t.lengths + ") -> " + t.whole + "\n" +
               t.yield("%y", t.whole);
  return texts;
}

std::string test::cacheWriteKernel(const Paged &p, bool rotates) {
  PagedTypes t(p);
  return t.arguments() + "(" + t.caches + ")" +
         t.attributes("cache", t.cacheTies()) + (rotates ? t.rotary() : "") +
         t.write(rotates ? "%r" : "%x") + t.yield(t.written(), t.caches);
}

std::string test::fusedKernel(const Paged &p, PagedResult result) {
  PagedTypes t(p, result);
  return t.arguments() + "(" + t.caches + ", " + t.out + ")" +
         t.attributes("attention", t.cacheTies() + ", -1") + t.rotary() +
         t.write("%r") + t.attention("%a", "%b", "%c", "%r") +
         t.yield(t.written() + ", %y", t.caches + ", " + t.out);
}

std::string test::rotaryKernel(const Paged &p) {
  PagedTypes t(p);
  return "plan.kernel @k(%x: " + t.x + ", %at: " + t.at + ") -> " + t.x +
         t.attributes("rows", "-1") + t.rotary() + t.yield("%r", t.x);
}

std::string test::headNormKernel(const Paged &p) {
  PagedTypes t(p);
  return "plan.kernel @k(%x: " + t.x + ", %w: " + t.weight + ") -> " + t.heads +
         t.attributes("rows", "-1") + t.norm() + t.yield("%g", t.heads);
}

/// Whether the only layout has the blocks of two positions.
static bool isInLayout(const Paged &p, const Tensor &layout, int64_t query,
                       int64_t key) {
  int64_t row = query / p.block, block = key / p.block;
  int64_t word = layout.ints()[row * layout.shape()[2] + block / 32];
  return static_cast<uint64_t>(word) >> (block % 32) & 1;
}

/// Whether the request of row `row` needs its page `number`.
static bool isPageSeen(const Paged &p, const Tensor *layout, int64_t row,
                       int64_t number) {
  if (!layout || p.tokens > 1 || p.layouts > 1)
    return true;
  for (int64_t key = number * p.pageTokens; key < (number + 1) * p.pageTokens;
       ++key)
    if (isInLayout(p, *layout, p.contexts[row] - 1, key))
      return true;
  return false;
}

/// Makes keys and values NaN that no text needs, in caches of floats.
static void spoilRest(const Paged &p, ArrayRef<int64_t> table,
                      const Tensor *layout, Tensor &keys, Tensor &values) {
  std::vector<bool> isUsed(p.pages() * p.pageTokens);
  for (int64_t row = 0; row < p.rows(); ++row)
    for (int64_t at = 0; at < p.contexts[row]; ++at)
      isUsed[table[row * p.rowPages() + at / p.pageTokens] * p.pageTokens +
             at % p.pageTokens] = isPageSeen(p, layout, row, at / p.pageTokens);
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

/// Half of the blocks are seen. Some rows have no block, and some see none of
/// the parts in the middle.
static Tensor drawLayout(const Paged &p, std::mt19937 &engine) {
  int64_t blocks = p.layoutBlocks(), words = (blocks + 31) / 32;
  Tensor layout(ElementKind::I32, {p.layouts, blocks, words});
  for (int64_t row = 0; row < p.layouts * blocks; ++row) {
    bool isSparse = engine() % 2 == 0;
    for (int64_t word = 0; word < words; ++word) {
      auto bits = static_cast<uint32_t>(engine());
      if (isSparse)
        bits &= word % 2 == 0 ? 0x0400000Fu : 0;
      if (row % 7 == 5)
        bits = 0;
      layout.mutableInts()[row * words + word] = static_cast<int32_t>(bits);
    }
  }
  return layout;
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
  std::optional<Tensor> layout;
  if (p.block > 0)
    layout = drawLayout(p, engine);
  if (!p.isCoded())
    spoilRest(p, order, layout ? &*layout : nullptr, tensors[0], tensors[1]);
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
  if (layout)
    tensors.insert(tensors.begin(), *layout);
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
