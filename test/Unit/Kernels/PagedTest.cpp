//===- PagedTest.cpp - Attention over a cache, whole and in parts ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"
#include <gtest/gtest.h>
#include <numeric>
#include <optional>
#include <random>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;
using eval::ElementKind;
using eval::Tensor;

namespace {

/// Texts of `tokens` each, the last of which see `contexts` keys.
struct Paged {
  std::vector<int64_t> contexts;
  int64_t tokens, heads, kv, dims;
  const char *cache = "f32", *type = "f32";
  int64_t window = 0;
  const char *softcap = "";
  int64_t pageTokens = 16;

  int64_t rows() const { return static_cast<int64_t>(contexts.size()); }
  int64_t rowPages() const {
    int64_t most = *std::max_element(contexts.begin(), contexts.end());
    return most / pageTokens + 2;
  }
  int64_t pages() const { return rows() * rowPages() + 3; }
  bool isCoded() const { return std::string(cache) == "i8"; }
};

std::string shape(std::initializer_list<int64_t> sizes, const char *type) {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + type + ">";
}

enum class Result { Whole, Parts };

struct Texts {
  std::string attention, join;
};

/// The attention, and what joins its parts.
Texts textsOf(const Paged &p, Result result) {
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
  std::string out = result == Result::Whole ? y : parts;
  std::string kernel = " attributes {generator = #plan.generator<attention>, "
                       "ties = array<i64: -1>} {\n  %y = ";
  auto end = [](const std::string &type) {
    return " -> " + type + "\n  plan.yield %y : " + type + "\n}";
  };
  Texts texts;
  texts.attention =
      "plan.kernel @k(%k: " + keys + ", %v: " + values +
      (p.isCoded() ? ", %s: " + scales : "") + ", %x: " + x + ", %p: " + table +
      ", %at: " + at + ", %n: " + lengths + ") -> " + out + kernel +
      "nn.paged_attention %k, %v" + (p.isCoded() ? " scales %s" : "") +
      " of %x pages %p at %at lengths %n {heads = #nn.heads<" +
      std::to_string(p.heads) + ", kv = " + std::to_string(p.kv) +
      ", scale = 0.21" + p.softcap + ">, " + mask +
      (result == Result::Whole ? "" : ", in_parts") + "} : (" + keys + ", " +
      values + (p.isCoded() ? ", " + scales : "") + ", " + x + ", " + table +
      ", " + at + ", " + lengths + ")" + end(out);
  texts.join = "plan.kernel @k(%x: " + parts + ", %at: " + at +
               ", %n: " + lengths + ") -> " + y + kernel +
               "nn.paged_attention_join %x at %at lengths %n {" + mask +
               ", part_tokens = 256 : i64} : (" + parts + ", " + at + ", " +
               lengths + ")" + end(y);
  return texts;
}

/// A kernel of a text, compiled.
class Kernel {
public:
  Kernel(const std::string &text, const std::string &march = "native")
      : parsed(text), kernel(parsed.kernel), loaded(kernel, *targetOf(march)) {}
  Tensor run(ArrayRef<Tensor> arguments, int64_t threads) {
    return execute(kernel, arguments, [&](const std::vector<void *> &refs) {
      if (threads == 2)
        loaded.runParallel(refs, {}, threads);
      else
        loaded.run(refs, {}, threads);
    })[0];
  }
  Tensor reference(ArrayRef<Tensor> arguments) {
    return evaluate(kernel, arguments)[0];
  }

private:
  ParsedKernel parsed;
  planir::KernelOp kernel;
  LoadedKernel loaded;
};

/// What this machine runs: vectors of both lengths, and emulated tiles. Caches
/// of other types than bf16 have the same code with and without instructions
/// for products of bf16: only long runs take both.
std::vector<std::string> marchesFor(const Paged &p) {
  std::vector<std::string> all = {"native", "x86-64-v3"};
  bool hasProducts = p.cache == std::string("bf16");
  if (targetOf("native")->hasAvx512 && (hasProducts || isLong()))
    all.push_back("x86-64-v4");
  if (targetOf("amx"))
    all.push_back(p.cache == std::string("f16") ? "amx-fp16" : "amx");
  return all;
}

/// Makes keys and values NaN that no text has, in caches of floats.
void spoilRest(const Paged &p, ArrayRef<int64_t> table, Tensor &keys,
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

/// Random keys, values and rows; pages in any order. Keys and values that no
/// text has are no numbers. The last text lacks its last token, if it has more
/// than one.
std::vector<Tensor> argumentsOf(const Paged &p) {
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

/// The parts, joined, as programs of one token do it.
Tensor joined(Kernel &parts, Kernel &join, ArrayRef<Tensor> arguments,
              int64_t threads) {
  std::vector<Tensor> rest(arguments.end() - 2, arguments.end());
  rest.insert(rest.begin(), parts.run(arguments, threads));
  return join.run(rest, threads);
}

/// The outputs are those of the reference, and have the same bits whole and in
/// parts, on any number of threads, and on tiles of this machine and emulated
/// ones.
void check(const Paged &p) {
  std::vector<Tensor> arguments = argumentsOf(p);
  Texts wholeTexts = textsOf(p, Result::Whole),
        partTexts = textsOf(p, Result::Parts);
  std::optional<Tensor> expected;
  for (const std::string &march : marchesFor(p)) {
    Kernel whole(wholeTexts.attention, march),
        parts(partTexts.attention, march), join(partTexts.join, march);
    Tensor alone = whole.run(arguments, 1);
    if (!expected)
      expected = whole.reference(arguments);
    expectNear(alone, *expected, 1e-5, wholeTexts.attention);
    for (int64_t threads : {1, 2, 3, 16}) {
      expectSameBits(whole.run(arguments, threads), alone,
                     std::to_string(threads) + " threads");
      expectSameBits(joined(parts, join, arguments, threads), alone,
                     march + ", parts, " + std::to_string(threads) +
                         " threads of\n" + partTexts.attention);
    }
    if (march == "amx" && targetOf("native")->hasAmx)
      expectSameBits(Kernel(wholeTexts.attention).run(arguments, 1), alone,
                     "tiles of this machine");
  }
}

TEST(PagedAttention, OneToken) {
  check({{1}, 1, 1, 1, 32});
  check({{256, 257, 5, 700}, 1, 12, 3, 64, "bf16", "bf16"});
  check({{5000}, 1, 3, 1, 33, "i8"});
  check({{511, 513}, 1, 2, 2, 256, "bf16"});
  check({{300, 31}, 1, 4, 2, 40, "f16", "f16"});
  check({{1023, 2}, 1, 5, 1, 47, "i8", "bf16"});
  if (!isLong())
    return;
  check({{15, 16, 17}, 1, 1, 1, 32});
  check({{4000}, 1, 1, 1, 64, "bf16", "bf16"});
  check({{300, 31}, 1, 40, 2, 80, "bf16", "bf16"});
  check({{520}, 1, 3, 1, 33, "bf16", "bf16"});
}

TEST(PagedAttention, Windows) {
  check({{900, 40, 513}, 1, 3, 3, 32, "f32", "f32", 300});
  check({{600, 300}, 9, 2, 1, 48, "i8", "f32", 256});
  check({{600, 300}, 19, 2, 1, 48, "bf16", "bf16", 25, ", softcap = 2.0"});
  if (!isLong())
    return;
  check({{4000, 17}, 1, 1, 1, 32, "i8", "f32", 1025});
  check({{1000}, 1, 6, 2, 64, "bf16", "bf16", 7, ", softcap = 3.0"});
}

TEST(PagedAttention, SeveralTokens) {
  check({{515, 20}, 7, 3, 1, 40});
  check({{300}, 300, 2, 1, 32, "bf16", "bf16"});
  check({{777, 260}, 3, 12, 12, 64, "i8", "bf16"});
  check({{90}, 2, 1, 1, 32, "f32", "f32", 0, "", 4});
  check({{20}, 17, 1, 1, 7, "bf16", "bf16"});
  check({{77, 20}, 5, 3, 1, 33, "f16", "f16", 40, ", softcap = 2.0"});
  if (!isLong())
    return;
  check({{90}, 2, 1, 1, 32, "bf16", "bf16", 0, "", 4});
  check({{700, 41}, 41, 6, 2, 96, "bf16", "bf16"});
  check({{300}, 5, 2, 2, 256, "bf16", "bf16"});
}

/// The tokens of a prompt, one by one, have the bits that they have together.
void checkAlone(const Paged &many, const std::string &march) {
  std::vector<Tensor> arguments = argumentsOf(many);
  Tensor &lengths = arguments.back();
  lengths.mutableInts()[0] = many.tokens;
  Tensor together =
      Kernel(textsOf(many, Result::Whole).attention, march).run(arguments, 3);
  Paged one = many;
  one.tokens = 1;
  Texts texts = textsOf(one, Result::Parts);
  Kernel parts(texts.attention, march), join(texts.join, march);
  size_t x = arguments.size() - 4, at = arguments.size() - 2;
  for (int64_t token = 0; token < many.tokens; ++token) {
    std::vector<Tensor> own = arguments;
    ArrayRef<int64_t> sizes = arguments[x].shape();
    own[x] = arguments[x].reshaped({many.tokens, 1, sizes[2]}).slice(token, 1);
    own[at] = arguments[at].reshaped({many.tokens, 1}).slice(token, 1);
    own.back().mutableInts()[0] = 1;
    Tensor expected =
        together.reshaped({many.tokens, 1, many.heads * many.dims})
            .slice(token, 1);
    expectSameBits(joined(parts, join, own, 2), expected,
                   march + ", token " + std::to_string(token));
  }
}

TEST(PagedAttention, TokensDoNotDependOnOthers) {
  for (const Paged &p :
       {Paged{{800}, 4, 6, 2, 64, "bf16", "bf16"},
        {{530}, 37, 3, 1, 40, "bf16", "bf16", 20, ", softcap = 2.0"},
        {{40}, 40, 2, 2, 33, "bf16", "bf16"},
        {{300}, 7, 2, 1, 40, "f16", "f16"}})
    for (const std::string &march : marchesFor(p))
      checkAlone(p, march);
}

} // namespace
