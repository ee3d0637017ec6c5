//===- attention_cpu.cpp - Speed of the generated attention ------------- ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints the speed of attention and its gradient, beside the speed of a loop of
// multiply-adds that touches no memory, measured just before each. Masked
// scores are not counted as work; the gradient counts as five products, the
// forward pass as two.
//
//   heddle-bench-attention [f32|bf16] [THREADS] [BATCH SEQ HEADS DIM CAUSAL P
//                          [LAYOUT.safetensors] [LENGTH...]]
//
// With LENGTHs, attention is told how many tokens rows have: row after row
// takes the next one, around the end. With a layout (`heddle layout`) only its
// blocks are work; under a causal mask the later blocks are cut off.
//
//===----------------------------------------------------------------------===//

#include "heddle/AttentionLayout/AttentionLayout.h"
#include "mlir/IR/BuiltinTypes.h"
#include "test/Unit/Support/AttentionRunner.h"
#include "test/Unit/Support/GemmRunner.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <vector>

using namespace heddle;
using test::AttentionRunner;
using Clock = std::chrono::steady_clock;

namespace {

struct Shape {
  int64_t batch, seq, heads, dim;
  bool causal;
  double p;
  std::vector<int32_t> lengths = {}; ///< Rows take them by turns.
  std::optional<layouts::AttentionLayout> layout = std::nullopt;
};

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

#define FOUR_MULTIPLY_ADDS(r, a, b, c, d)                                      \
  "vfmadd231ps %%" r "15, %%" r "15, %%" r a "\n"                              \
  "vfmadd231ps %%" r "15, %%" r "15, %%" r b "\n"                              \
  "vfmadd231ps %%" r "15, %%" r "15, %%" r c "\n"                              \
  "vfmadd231ps %%" r "15, %%" r "15, %%" r d "\n"

/// A loop of twelve independent multiply-adds of zeros in registers `r`.
#define MULTIPLY_ADD_LOOP(r)                                                   \
  "vzeroall\n"                                                                 \
  "1:\n" FOUR_MULTIPLY_ADDS(r, "0", "1", "2", "3")                             \
      FOUR_MULTIPLY_ADDS(r, "4", "5", "6", "7")                                \
          FOUR_MULTIPLY_ADDS(r, "8", "9", "10", "11") "dec %0\n"               \
                                                      "jnz 1b\n"

void multiplyAdds(bool isWide, int64_t rounds) {
  if (isWide)
    asm volatile(MULTIPLY_ADD_LOOP("zmm")
                 : "+r"(rounds)::"cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
                   "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                   "xmm15");
  else
    asm volatile(MULTIPLY_ADD_LOOP("ymm")
                 : "+r"(rounds)::"cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
                   "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                   "xmm15");
}

/// GF/s of multiply-adds in registers on one thread: the best of some tries.
double peak(bool isWide) {
  const int64_t rounds = 400000;
  double best = INFINITY;
  for (int i = 0; i < 5; ++i) {
    auto start = Clock::now();
    multiplyAdds(isWide, rounds);
    best = std::min(best, secondsSince(start));
  }
  return rounds * 12 * (isWide ? 32 : 16) / best / 1e9;
}

/// Memory of random numbers, as the runtime maps it, in huge pages. Few are
/// drawn, which takes longer than many of the measurements.
struct Buffer {
  Buffer(int64_t elements, bool isBf16)
      : bytes((elements * 4 + hugePage) / hugePage * hugePage),
        data(std::aligned_alloc(hugePage, bytes)) {
    madvise(data, bytes, MADV_HUGEPAGE);
    std::mt19937 engine(1);
    std::normal_distribution<float> draw;
    std::vector<float> drawn(65521);
    std::generate(drawn.begin(), drawn.end(), [&] { return draw(engine); });
    for (int64_t i = 0; i < elements; ++i) {
      float value = drawn[i % drawn.size()];
      if (isBf16)
        std::memcpy(static_cast<char *>(data) + 2 * i,
                    reinterpret_cast<char *>(&value) + 2, 2);
      else
        std::memcpy(static_cast<char *>(data) + 4 * i, &value, 4);
    }
  }
  ~Buffer() { std::free(data); }
  static constexpr int64_t hugePage = 2 << 20;
  Buffer(const Buffer &) = delete;
  int64_t bytes;
  void *data;
};

class Bench {
public:
  Bench(bool isBf16, int threads)
      : isBf16(isBf16), threads(threads), context(test::createCodegenContext()),
        target(*cpu::CpuTarget::parse("native")) {}

  void run(const Shape &shape);

private:
  struct Seconds {
    double best;      ///< Of one call, as the peak is.
    double processor; ///< The mean of one call, over all threads.
  };
  Seconds time(const AttentionRunner &runner,
               const std::vector<void *> &tensors);
  void report(const char *name, const AttentionRunner &runner,
              const std::vector<void *> &tensors, double flops);

  bool isBf16;
  int threads;
  std::unique_ptr<mlir::MLIRContext> context;
  cpu::CpuTarget target;
};

/// Measures calls for half a second.
Bench::Seconds Bench::time(const AttentionRunner &runner,
                           const std::vector<void *> &tensors) {
  std::vector<std::unique_ptr<Buffer>> scratch;
  for (int i = 0; i < threads; ++i)
    scratch.push_back(
        std::make_unique<Buffer>(runner.scratchBytes() / 4, false));
  auto call = [&] {
    std::vector<std::thread> pool;
    for (int i = 1; i < threads; ++i)
      pool.emplace_back(
          [&, i] { runner.run(tensors, {}, i, threads, scratch[i]->data); });
    runner.run(tensors, {}, 0, threads, scratch[0]->data);
    for (std::thread &thread : pool)
      thread.join();
  };
  call();
  double best = INFINITY;
  int calls = 0;
  std::clock_t before = std::clock();
  for (auto start = Clock::now(); secondsSince(start) < 0.5; ++calls) {
    auto begin = Clock::now();
    call();
    best = std::min(best, secondsSince(begin));
  }
  return {best, double(std::clock() - before) / CLOCKS_PER_SEC / calls};
}

void Bench::report(const char *name, const AttentionRunner &runner,
                   const std::vector<void *> &tensors, double flops) {
  double limit = peak(target.hasAvx512) * threads;
  auto [seconds, processor] = time(runner, tensors);
  std::printf(" %s %.3f ms %.0f GF/s %.0f%% processor %.3f ms", name,
              seconds * 1e3, flops / seconds / 1e9,
              flops / seconds / 1e7 / limit, processor * 1e3);
  // With HEDDLE_SAVE_OBJECTS=DIR the objects can be disassembled.
  if (const char *directory = std::getenv("HEDDLE_SAVE_OBJECTS")) {
    std::error_code error;
    llvm::raw_fd_ostream(std::string(directory) + "/" + name + ".o", error)
        << runner.object();
  }
}

void Bench::run(const Shape &shape) {
  cpu::AttentionSpec spec;
  spec.batch = shape.batch;
  spec.seq = shape.seq;
  spec.heads = spec.kvHeads = shape.heads;
  spec.headDim = shape.dim;
  spec.scale = 1 / std::sqrt(shape.dim);
  spec.causal = shape.causal;
  spec.p = shape.p;
  spec.packed = true;
  std::vector<int32_t> layout;
  if (shape.layout) {
    spec.block = shape.layout->blockSize();
    spec.layouts = shape.layout->heads();
    spec.layoutBlocks = shape.layout->blocks();
    layout = shape.layout->toWords();
  }
  if (isBf16)
    spec.elementType = mlir::BFloat16Type::get(context.get());
  else
    spec.elementType = mlir::Float32Type::get(context.get());
  bool hasLengths = !shape.lengths.empty();
  AttentionRunner forward(*context, spec, target,
                          AttentionRunner::Pass::Forward, hasLengths);
  AttentionRunner backward(*context, spec, target,
                           AttentionRunner::Pass::Gradient, hasLengths);

  int64_t size = shape.batch * shape.seq * shape.heads * shape.dim;
  Buffer qkv(3 * size, isBf16), out(size, isBf16), grad(size, isBf16);
  Buffer gradQkv(3 * size, isBf16);
  Buffer lse(shape.batch * shape.heads * shape.seq, false), rng(4, false);
  std::vector<int32_t> lengths(shape.batch, shape.seq);
  double seen = 0; // Keys, by a query.
  for (int64_t row = 0; row < shape.batch; ++row) {
    if (hasLengths)
      lengths[row] = shape.lengths[row % shape.lengths.size()];
    for (int64_t query = 0; query < shape.seq; ++query)
      seen += std::min<int64_t>(lengths[row],
                                shape.causal ? query + 1 : shape.seq) /
              double(shape.seq * shape.batch);
  }
  if (shape.layout)
    seen = shape.layout->density() * shape.seq -
           (shape.causal ? (spec.block - 1) / 2.0 : 0);
  double product = 2.0 * size * seen;
  std::printf(
      "%s B%lld T%lld H%lld D%lld %s p=%.2g:", isBf16 ? "bf16" : "f32",
      static_cast<long long>(shape.batch), static_cast<long long>(shape.seq),
      static_cast<long long>(shape.heads), static_cast<long long>(shape.dim),
      shape.causal ? "causal" : "full", shape.p);
  auto withRest = [&](std::vector<void *> tensors) {
    if (shape.p > 0)
      tensors.push_back(rng.data);
    if (hasLengths)
      tensors.push_back(lengths.data());
    tensors.push_back(layout.data());
    return tensors;
  };
  report("forward", forward, withRest({qkv.data, out.data, lse.data}),
         2 * product);
  report("gradient", backward,
         withRest({grad.data, qkv.data, out.data, lse.data, gradQkv.data}),
         5 * product);
  std::printf(" compile %.0f + %.0f ms\n", forward.compileSeconds() * 1e3,
              backward.compileSeconds() * 1e3);
}

} // namespace

int main(int argc, char **argv) {
  bool isBf16 = argc > 1 && std::strcmp(argv[1], "bf16") == 0;
  Bench bench(isBf16, argc > 2 ? std::atoi(argv[2]) : 1);
  if (argc > 8) {
    auto number = [&](int at) { return std::atoll(argv[at]); };
    Shape shape = {number(3), number(4),      number(5),
                   number(6), number(7) != 0, std::atof(argv[8])};
    int next = 9;
    if (next < argc && std::strchr(argv[next], '.')) {
      shape.layout =
          layouts::readLayoutFor(argv[next++], shape.heads, shape.seq);
      if (shape.causal)
        shape.layout->cutToCausal();
    }
    for (int at = next; at < argc; ++at)
      shape.lengths.push_back(std::clamp<int64_t>(number(at), 0, shape.seq));
    bench.run(shape);
    return 0;
  }
  for (const Shape &shape :
       {Shape{1, 1024, 12, 64, false, 0}, Shape{1, 1024, 12, 64, true, 0},
        Shape{1, 1024, 12, 64, true, 0.1}, Shape{8, 256, 12, 64, true, 0},
        Shape{16, 64, 12, 64, true, 0}, Shape{16, 64, 12, 64, false, 0},
        Shape{1, 1024, 12, 80, true, 0}, Shape{1, 1024, 6, 128, true, 0},
        Shape{1, 2048, 6, 64, true, 0}})
    bench.run(shape);
  return 0;
}
