//===- PagedTest.cpp - Attention over a cache, whole and in parts ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"
#include "PagedTexts.h"
#include <gtest/gtest.h>
#include <optional>

using namespace mlir;
using namespace heddle;
using namespace heddle::test;
using eval::Tensor;

namespace {

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
  std::vector<Tensor> arguments = pagedArguments(p);
  PagedKernels wholeTexts = pagedKernels(p, PagedResult::Whole),
               partTexts = pagedKernels(p, PagedResult::Parts);
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

TEST(PagedAttention, Layouts) {
  check(sparse({{1500, 40}, 1, 4, 2, 32, "bf16", "bf16"}, 16, 1));
  check(sparse({{900, 513, 7}, 1, 6, 2, 40, "i8"}, 64, 6));
  check(sparse({{700, 33}, 1, 3, 1, 32}, 128, 3));
  check(sparse({{620, 90}, 37, 4, 2, 40, "bf16", "bf16"}, 32, 4));
  check(sparse({{300}, 7, 2, 1, 32, "f32", "f32", 0, "", 64}, 16, 2));
  check(sparse({{300}, 1, 2, 1, 32, "f32", "f32", 0, "", 4}, 16, 1));
  if (!isLong())
    return;
  check(sparse({{4000}, 1, 3, 1, 64, "f16", "f16"}, 16, 3));
  check(sparse({{900}, 300, 12, 12, 64, "i8", "bf16"}, 16, 12));
  check(sparse({{530}, 19, 2, 1, 48, "bf16", "bf16", 0, ", softcap = 2.0"}, 64,
               1));
}

/// The tokens of a prompt, one by one, have the bits that they have together.
void checkAlone(const Paged &many, const std::string &march) {
  std::vector<Tensor> arguments = pagedArguments(many);
  arguments.back().mutableInts()[0] = many.tokens;
  Tensor together =
      Kernel(pagedKernels(many, PagedResult::Whole).attention, march)
          .run(arguments, 3);
  Paged one = many;
  one.tokens = 1;
  PagedKernels texts = pagedKernels(one, PagedResult::Parts);
  Kernel parts(texts.attention, march), join(texts.join, march);
  for (int64_t token = 0; token < many.tokens; ++token) {
    Tensor expected =
        together.reshaped({many.tokens, 1, many.heads * many.dims})
            .slice(token, 1);
    std::vector<Tensor> own = tokenAlone(many, arguments, token);
    expectSameBits(joined(parts, join, own, 2), expected,
                   march + ", token " + std::to_string(token));
  }
}

TEST(PagedAttention, TokensDoNotDependOnOthers) {
  for (const Paged &p :
       {Paged{{800}, 4, 6, 2, 64, "bf16", "bf16"},
        {{530}, 37, 3, 1, 40, "bf16", "bf16", 20, ", softcap = 2.0"},
        sparse({{800}, 70, 4, 2, 40, "bf16", "bf16"}, 16, 4),
        sparse({{600}, 9, 6, 2, 32, "i8"}, 64, 6),
        {{40}, 40, 2, 2, 33, "bf16", "bf16"},
        {{300}, 7, 2, 1, 40, "f16", "f16"}})
    for (const std::string &march : marchesFor(p))
      checkAlone(p, march);
}

} // namespace
