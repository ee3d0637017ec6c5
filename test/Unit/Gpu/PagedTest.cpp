//===- PagedTest.cpp - Attention over a cache on GPUs ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Kernels/PagedTexts.h"
#include "Chips.h"
#include "heddle/Codegen/GPU/Emulation.h"
#include "heddle/Codegen/GPU/GpuBackEnd.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <cmath>
#include <numeric>

using namespace mlir;

namespace heddle::test {

using eval::Tensor;

namespace {

/// The first kernel of a text, mapped to a GPU and loaded into the emulator.
class GpuKernel {
public:
  enum class Form { Mapped, Plain };
  explicit GpuKernel(const std::string &text, Form form = Form::Mapped)
      : text(text) {
    DialectRegistry registry;
    gpu::registerGpuCodegen(registry);
    context = createKernelContext(registry);
    module = parseSourceString<ModuleOp>(text, context.get());
    kernel = *module->getOps<planir::KernelOp>().begin();
    auto builder = OpBuilder::atBlockEnd(module->getBody());
    auto target =
        builder.create<mlir::gpu::GPUModuleOp>(kernel.getLoc(), "gpu");
    const char *chip = chipsFor(text).front();
    FailureOr<gpu::MappedKernel> mapped = failure();
    if (form == Form::Mapped) {
      mapped = gpu::mapKernel(kernel, target, *gpu::findChip(chip));
    } else {
      gpu::untie(kernel);
      FailureOr<gpu::PlainMapping> plain = gpu::mapPlain(kernel, target);
      if (succeeded(plain))
        mapped = std::move(static_cast<gpu::MappedKernel &>(*plain));
    }
    if (failed(mapped) || !*mapped) {
      ADD_FAILURE() << (failed(mapped) ? "" : mapped->reason) << text;
      exit(1);
    }
    auto code = gpu::EmulatedKernel::load(*mapped, chip);
    if (!code) {
      ADD_FAILURE() << llvm::toString(code.takeError()) << text;
      exit(1);
    }
    loaded = std::move(*code);
  }

  std::vector<Tensor> run(ArrayRef<Tensor> arguments,
                          emulator::Counters *counters = nullptr) {
    return execute(kernel, arguments, [&](const std::vector<void *> &refs) {
      EXPECT_EQ(loaded->run(refs, {}, counters), "") << text;
    });
  }
  std::vector<Tensor> reference(ArrayRef<Tensor> arguments) {
    return evaluate(kernel, arguments);
  }

private:
  std::string text;
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> module;
  planir::KernelOp kernel;
  std::unique_ptr<gpu::EmulatedKernel> loaded;
};

/// The tensor with 5 in place of NaN, which is not equal to itself.
Tensor withoutNaN(Tensor tensor) {
  if (eval::isFloat(tensor.kind()))
    for (double &value : tensor.mutableFloats())
      if (std::isnan(value))
        value = 5;
  return tensor;
}

/// The parts, joined, as programs of one token do it.
Tensor joined(GpuKernel &parts, GpuKernel &join, ArrayRef<Tensor> arguments) {
  std::vector<Tensor> rest(arguments.end() - 2, arguments.end());
  rest.insert(rest.begin(), parts.run(arguments)[0]);
  return join.run(rest)[0];
}

/// The outputs are those of the reference, and have the same bits whole and in
/// parts.
void check(const Paged &p) {
  std::vector<Tensor> arguments = pagedArguments(p);
  PagedKernels wholeTexts = pagedKernels(p, PagedResult::Whole),
               partTexts = pagedKernels(p, PagedResult::Parts);
  GpuKernel whole(wholeTexts.attention), parts(partTexts.attention),
      join(partTexts.join);
  Tensor output = whole.run(arguments)[0];
  expectNear(output, whole.reference(arguments)[0], 1e-5, wholeTexts.attention);
  expectSameBits(joined(parts, join, arguments), output, partTexts.attention);
}

TEST(GpuPagedAttention, OneToken) {
  check({{1}, 1, 1, 1, 32});
  check({{256, 257, 5, 700}, 1, 12, 3, 64, "bf16", "bf16"});
  check({{2000}, 1, 3, 1, 33, "i8"});
  check({{511, 513}, 1, 2, 2, 256, "bf16"});
  check({{300, 31}, 1, 4, 2, 20, "f16", "f16"});
  check({{1023, 2}, 1, 5, 1, 47, "i8", "bf16"});
  check({{300, 31}, 1, 40, 2, 80, "bf16", "bf16"});
  if (!isLong())
    return;
  check({{15, 16, 17}, 1, 1, 1, 32});
  check({{4000}, 1, 1, 1, 64, "bf16", "bf16"});
  check({{520}, 1, 3, 1, 33, "bf16", "bf16"});
  check({{300}, 1, 2, 2, 256, "bf16", "bf16"});
}

TEST(GpuPagedAttention, Windows) {
  check({{900, 40, 513}, 1, 3, 3, 32, "f32", "f32", 300});
  check({{600, 300}, 9, 2, 1, 48, "i8", "f16", 256});
  check({{600, 300}, 19, 2, 1, 48, "bf16", "bf16", 25, ", softcap = 2.0"});
  if (!isLong())
    return;
  check({{4000, 17}, 1, 1, 1, 32, "i8", "f32", 1025});
  check({{1000}, 1, 6, 2, 64, "bf16", "bf16", 7, ", softcap = 3.0"});
}

TEST(GpuPagedAttention, SeveralTokens) {
  check({{515, 20}, 7, 3, 1, 40});
  check({{300}, 65, 2, 1, 32, "bf16", "bf16"});
  check({{90}, 2, 1, 1, 32, "f32", "f32", 0, "", 4});
  check({{20}, 17, 1, 1, 7, "bf16", "bf16"});
  check({{77, 20}, 5, 3, 1, 33, "f16", "f16", 40, ", softcap = 2.0"});
  if (!isLong())
    return;
  check({{777, 260}, 3, 12, 12, 64, "i8", "bf16"});
  check({{90}, 2, 1, 1, 32, "bf16", "bf16", 0, "", 4});
  check({{700, 41}, 41, 6, 2, 96, "bf16", "bf16"});
  check({{300}, 5, 2, 2, 256, "bf16", "bf16"});
}

TEST(GpuPagedAttention, Layouts) {
  check(sparse({{1100, 40}, 1, 4, 2, 32, "bf16", "bf16"}, 16, 1));
  check(sparse({{600, 13}, 1, 6, 2, 40, "i8", "bf16"}, 64, 6));
  check(sparse({{300, 90}, 19, 4, 2, 40}, 32, 4));
  check(sparse({{300}, 7, 2, 1, 48, "f16", "f16"}, 128, 2));
  check(sparse({{300}, 5, 2, 1, 32, "bf16", "bf16", 0, "", 64}, 16, 2));
  if (!isLong())
    return;
  check(sparse({{900}, 41, 6, 2, 96, "bf16", "bf16"}, 16, 6));
  check(sparse({{700, 520}, 1, 12, 3, 64, "f16", "f16"}, 32, 12));
}

/// The tokens of a prompt, one by one and in a launch of a few, have the bits
/// that they have together.
TEST(GpuPagedAttention, TokensDoNotDependOnOthers) {
  for (const Paged &many :
       {Paged{{800}, 4, 6, 2, 64, "bf16", "bf16"},
        {{530}, 37, 3, 1, 40, "bf16", "bf16", 20, ", softcap = 2.0"},
        {{290}, 7, 2, 1, 40, "i8", "f16"},
        sparse({{600}, 9, 4, 2, 40, "bf16", "bf16"}, 16, 4),
        {{270}, 19, 1, 1, 33}}) {
    std::vector<Tensor> arguments = pagedArguments(many);
    arguments.back().mutableInts()[0] = many.tokens;
    std::string text = pagedKernels(many, PagedResult::Whole).attention;
    Tensor together = GpuKernel(text).run(arguments)[0];
    Paged one = many;
    one.tokens = 1;
    PagedKernels texts = pagedKernels(one, PagedResult::Parts);
    GpuKernel parts(texts.attention), join(texts.join);
    for (int64_t token = 0; token < many.tokens; ++token) {
      Tensor expected =
          together.reshaped({many.tokens, 1, many.heads * many.dims})
              .slice(token, 1);
      expectSameBits(joined(parts, join, tokenAlone(many, arguments, token)),
                     expected, "token " + std::to_string(token) + text);
    }
  }
}

/// The norm of a token has the bits that it has in a chunk of tokens, also if
/// the weight has wider elements than the token.
TEST(GpuPagedAttention, NormsDoNotDependOnOthers) {
  auto norm = [](int64_t tokens) {
    std::string x = "tensor<1x" + std::to_string(tokens) + "x200xbf16>";
    std::string results = x + ", tensor<1x" + std::to_string(tokens) + "xf32>";
    return "plan.kernel @k(%x: " + x + ", %w: tensor<200xf32>) -> (" + results +
           ") attributes {generator = #plan.generator<rows>, ties = array<i64: "
           "-1, -1>} {\n  %y, %r = nn.rms_norm %x, %w {eps = 1.0e-5 : f64} : "
           "(" +
           x + ", tensor<200xf32>) -> (" + results +
           ")\n  plan.yield %y, %r : " + results + "\n}";
  };
  std::vector<Tensor> arguments =
      pagedArguments({{9}, 9, 3, 1, 40, "f32", "bf16"});
  Tensor x = arguments[2].reshaped({1, 9, 200}),
         w(eval::ElementKind::F32, {200});
  for (double &value : w.mutableFloats())
    value = 2;
  std::vector<Tensor> many = GpuKernel(norm(9)).run({x, w});
  GpuKernel alone(norm(1));
  for (int64_t token = 0; token < 9; ++token) {
    Tensor one = x.reshaped({9, 1, 200}).slice(token, 1).reshaped({1, 1, 200});
    std::vector<Tensor> got = alone.run({one, w});
    expectSameBits(got[0].reshaped({1, 1, 200}),
                   many[0].reshaped({9, 1, 200}).slice(token, 1), norm(1));
    expectSameBits(got[1].reshaped({1, 1}),
                   many[1].reshaped({9, 1}).slice(token, 1), norm(1));
  }
}

/// The plain kernels, with which BINARY check compares.
TEST(GpuPagedAttention, Plain) {
  for (const Paged &p : {Paged{{300, 20}, 2, 2, 1, 16, "i8", "f32", 17},
                         sparse({{300, 20}, 2, 2, 1, 16, "i8"}, 16, 2)}) {
    std::vector<Tensor> arguments = pagedArguments(p);
    for (const std::string &text :
         {pagedKernels(p, PagedResult::Whole).attention, cacheWriteKernel(p)}) {
      GpuKernel plain(text, GpuKernel::Form::Plain);
      std::vector<Tensor> got = plain.run(arguments),
                          expected = plain.reference(arguments);
      for (size_t i = 0; i < expected.size(); ++i)
        expectNear(got[i], expected[i], 1e-5, text);
    }
  }
}

/// The weight of norms of heads.
Tensor headWeight(const Paged &p) {
  std::vector<Tensor> arguments = pagedArguments(p);
  int64_t rows = p.rows() * p.tokens * (p.heads + 2 * p.kv);
  return arguments[arguments.size() - 4]
      .reshaped({rows, p.dims})
      .slice(0, 1)
      .reshaped({p.dims});
}

/// One kernel that computes norms of heads, rotates q and k, writes the cache
/// and computes attention has the bits of a kernel for each, and so have two
/// kernels that both rotate.
void checkFused(const Paged &p, PagedResult result) {
  std::vector<Tensor> arguments = pagedArguments(p);
  size_t first = p.hasNorms || p.block > 0 ? 1 : 0; // The cache.
  if (p.hasNorms)
    arguments.insert(arguments.begin(), headWeight(p));
  std::vector<Tensor> apart = arguments;
  size_t x = arguments.size() - 4, at = arguments.size() - 2;
  std::string text = fusedKernel(p, result);
  std::vector<Tensor> fused = GpuKernel(text).run(arguments);
  std::vector<Tensor> written = GpuKernel(cacheWriteKernel(p, true)).run(apart);
  std::move(written.begin(), written.end(), apart.begin() + first);
  Tensor attended =
      GpuKernel(pagedKernels(p, result, true).attention).run(apart)[0];
  Paged rotated = p;
  rotated.hasNorms = false;
  if (p.hasNorms)
    arguments[x] = GpuKernel(headNormKernel(p))
                       .run({arguments[x], arguments[0]})[0]
                       .reshaped(arguments[x].shape());
  arguments[x] =
      GpuKernel(rotaryKernel(rotated)).run({arguments[x], arguments[at]})[0];
  std::vector<Tensor> caches = GpuKernel(cacheWriteKernel(p)).run(arguments);
  for (size_t i = 0; i < caches.size(); ++i) {
    expectSameBits(withoutNaN(fused[i]), withoutNaN(caches[i]), text);
    expectSameBits(withoutNaN(apart[first + i]), withoutNaN(caches[i]), text);
    arguments[first + i] = caches[i];
  }
  Tensor output =
      GpuKernel(pagedKernels(p, result).attention).run(arguments)[0];
  if (result == PagedResult::Whole) {
    expectSameBits(attended, output, text);
    return expectSameBits(fused.back(), output, text);
  }
  // Parts in which a token sees no key are undefined.
  GpuKernel join(pagedKernels(p, result).join);
  std::vector<Tensor> rest(arguments.end() - 2, arguments.end());
  auto joinedOf = [&](const Tensor &parts) {
    return join.run({parts, rest[0], rest[1]})[0];
  };
  expectSameBits(joinedOf(fused.back()), joinedOf(output), text);
  expectSameBits(joinedOf(attended), joinedOf(output), text);
}

TEST(GpuPagedAttention, FusedWithWrites) {
  checkFused({{300, 31}, 1, 4, 2, 20, "f16", "f16"}, PagedResult::Parts);
  checkFused({{256, 257, 5, 700}, 1, 12, 3, 64, "bf16", "bf16"},
             PagedResult::Parts);
  checkFused({{513, 2}, 1, 5, 1, 47, "i8", "bf16", 100}, PagedResult::Parts);
  checkFused({{258, 20}, 4, 3, 1, 40, "i8"}, PagedResult::Whole);
  checkFused({{77}, 8, 2, 1, 80, "bf16", "bf16"}, PagedResult::Whole);
  checkFused(sparse({{600, 20}, 1, 4, 2, 32, "bf16", "bf16"}, 16, 4),
             PagedResult::Parts);
  checkFused(sparse({{77}, 8, 2, 1, 40, "i8"}, 32, 2), PagedResult::Whole);
  Paged norms = {{300, 31}, 1, 4, 2, 128, "bf16", "bf16"};
  norms.hasNorms = true;
  checkFused(norms, PagedResult::Parts);
  norms = {{77}, 3, 3, 1, 24, "i8", "f32"};
  norms.hasNorms = true;
  checkFused(norms, PagedResult::Whole);
}

/// What a kernel does for 512 more keys of a request.
emulator::Counters countMoreKeys(Paged p, PagedResult result) {
  auto count = [&](int64_t context) {
    p.contexts[0] = context;
    Paged longest = p;
    longest.contexts[0] = 1024;
    std::vector<Tensor> arguments = pagedArguments(longest);
    for (int64_t t = 0; t < p.tokens; ++t)
      arguments[arguments.size() - 2].mutableInts()[t] = context - p.tokens + t;
    arguments.back().mutableInts()[0] = p.tokens;
    emulator::Counters counters;
    GpuKernel(pagedKernels(longest, result).attention)
        .run(arguments, &counters);
    return counters;
  };
  emulator::Counters less = count(512), more = count(1024);
  more.globalBytes -= less.globalBytes;
  more.globalSectors -= less.globalSectors;
  more.sharedWavefronts -= less.sharedWavefronts;
  more.idealWavefronts -= less.idealWavefronts;
  more.tensorOperations -= less.tensorOperations;
  for (size_t i = 0; i < std::size(more.instructions); ++i)
    more.instructions[i] -= less.instructions[i];
  return more;
}

/// Bytes of keys and values are requested once for a tile of queries, in whole
/// sectors, and without bank conflicts. The instructions of caches of 16 bits
/// and of int8 take at most 60 % of the issue slots at full bandwidth.
TEST(GpuPagedAttention, Counts) {
  struct Case {
    Paged paged;
    double instructions; ///< For each byte.
  };
  // An H100: 3.35 TB/s for 132 multiprocessors at 1.755 GHz, each of which
  // issues four instructions a clock.
  constexpr double slotsPerByte = 4 / (3.35e12 / 132 / 1.755e9);
  for (const auto &[p, instructions] :
       {Case{{{0}, 1, 4, 1, 128, "bf16", "bf16"}, 0.05},
        {{{0}, 1, 1, 1, 64, "bf16", "bf16"}, 0.06},
        {{{0}, 1, 4, 1, 128, "i8", "bf16"}, 0.6 * slotsPerByte},
        {{{0}, 1, 4, 1, 128, "i8", "f16"}, 0.6 * slotsPerByte},
        {{{0}, 1, 1, 1, 64, "i8", "bf16"}, 0.6 * slotsPerByte},
        {{{0}, 64, 4, 1, 128, "bf16", "bf16"}, 0.45},
        {{{0}, 1, 1, 1, 64}, 0.1}}) {
    bool isOne = p.tokens == 1;
    auto counted =
        countMoreKeys(p, isOne ? PagedResult::Parts : PagedResult::Whole);
    double element = p.isCoded() ? 1 : std::string(p.cache) == "bf16" ? 2 : 4;
    double bytes = 512. * 2 * (p.dims * element + (p.isCoded() ? 2 : 0));
    double tiles = std::ceil(double(p.tokens * p.heads / p.kv) / 32);
    auto requested = static_cast<double>(counted.globalBytes);
    EXPECT_LE(requested, 1.05 * tiles * bytes) << p.cache;
    EXPECT_GE(requested, 0.98 * 32 * double(counted.globalSectors)) << p.cache;
    EXPECT_LE(double(counted.sharedWavefronts),
              1.005 * double(counted.idealWavefronts))
        << p.cache;
    uint64_t all = std::accumulate(std::begin(counted.instructions),
                                   std::end(counted.instructions), uint64_t(0));
    EXPECT_LE(double(all), instructions * bytes) << p.cache;
    RecordProperty(std::string(p.cache) + p.type + std::to_string(p.dims) +
                       "x" + std::to_string(p.tokens),
                   std::to_string(double(all) / bytes));
  }
}

TEST(GpuCacheWrite, IsTheReference) {
  for (const Paged &p : {Paged{{40, 20}, 3, 2, 1, 40},
                         {{300}, 65, 6, 2, 64, "bf16", "bf16"},
                         {{33, 7}, 1, 3, 3, 20, "f16", "bf16"},
                         {{33, 7}, 5, 3, 1, 80, "i8", "bf16"},
                         {{19}, 2, 1, 1, 7, "i8"}}) {
    std::vector<Tensor> arguments = pagedArguments(p);
    for (Tensor &tensor : arguments)
      tensor = withoutNaN(tensor);
    std::string text = cacheWriteKernel(p);
    GpuKernel kernel(text);
    std::vector<Tensor> got = kernel.run(arguments),
                        expected = kernel.reference(arguments);
    for (size_t i = 0; i < expected.size(); ++i)
      expectNear(got[i], expected[i], 0, text);
  }
}

} // namespace
} // namespace heddle::test
