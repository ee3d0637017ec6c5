//===- gemm_cpu.cpp - Speed of the generated matrix products ----------- ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints the speed of every matrix product of a GPT-2 step, beside the speed of
// the micro-kernel on operands that stay in the first-level cache, measured
// just before it.
//
//   heddle-bench-gemm [f32|bf16] [ROWS] [FILTER] [MARCH]
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/BuiltinTypes.h"
#include "test/Unit/Support/GemmRunner.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <thread>
#include <vector>

using namespace heddle;
using Clock = std::chrono::steady_clock;

namespace {

struct Shape {
  const char *name;
  int64_t m, n, k;
  bool transA, transB;
  bool f32Result; ///< Also when the operands are bf16: weight gradients.
};

std::vector<Shape> shapes(int64_t rows) {
  const int64_t d = 768, v = 50257;
  return {
      {"fwd qkv", rows, 3 * d, d, false, false, false},
      {"fwd proj", rows, d, d, false, false, false},
      {"fwd fc", rows, 4 * d, d, false, false, false},
      {"fwd fc2", rows, d, 4 * d, false, false, false},
      {"fwd head", rows, v, d, false, true, false},
      {"dx qkv", rows, d, 3 * d, false, true, false},
      {"dx proj", rows, d, d, false, true, false},
      {"dx fc", rows, d, 4 * d, false, true, false},
      {"dx fc2", rows, 4 * d, d, false, true, false},
      {"dx head", rows, d, v, false, false, false},
      {"dw qkv", d, 3 * d, rows, true, false, true},
      {"dw proj", d, d, rows, true, false, true},
      {"dw fc", d, 4 * d, rows, true, false, true},
      {"dw fc2", 4 * d, d, rows, true, false, true},
      {"dw head", v, d, rows, true, false, true},
  };
}

/// Memory as the runtime maps it, in huge pages, and touched before it is
/// timed.
struct Buffer {
  explicit Buffer(int64_t size, uint32_t pattern = 0)
      : bytes((size + hugePage) / hugePage * hugePage),
        data(static_cast<uint32_t *>(std::aligned_alloc(hugePage, bytes))) {
    madvise(data, bytes, MADV_HUGEPAGE);
    std::fill(data, data + bytes / 4, pattern);
  }
  ~Buffer() { std::free(data); }
  static constexpr int64_t hugePage = 2 << 20;
  Buffer(const Buffer &) = delete;
  int64_t bytes;
  uint32_t *data;
};

/// Keeps a thread on one core: otherwise short runs may end before the system
/// has given each thread its own.
void pin(pthread_t thread, int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  pthread_setaffinity_np(thread, sizeof cores, &cores);
}

/// Seconds of one call of `part` on every thread, all starting together: the
/// fastest of `repeats`, since other processes can only add to it.
template <typename Part> double measure(int threads, int repeats, Part part) {
  std::vector<double> times;
  std::atomic<int> arrived{0}, finished{0};
  std::vector<std::thread> pool;
  auto barrier = [&](std::atomic<int> &counter, int round) {
    ++counter;
    while (counter.load(std::memory_order_acquire) < threads * (round + 1))
      ;
  };
  auto worker = [&](int thread) {
    for (int round = 0; round < repeats; ++round) {
      barrier(arrived, round);
      auto start = Clock::now();
      part(thread);
      barrier(finished, round);
      if (thread == 0)
        times.push_back(
            std::chrono::duration<double>(Clock::now() - start).count());
    }
  };
  pin(pthread_self(), 0);
  for (int thread = 1; thread < threads; ++thread)
    pin(pool.emplace_back(worker, thread).native_handle(), thread);
  worker(0);
  for (std::thread &thread : pool)
    thread.join();
  return *std::min_element(times.begin(), times.end());
}

class Bench {
public:
  Bench(bool narrow, const cpu::CpuTarget &target)
      : narrow(narrow), context(test::createCodegenContext()), target(target) {}

  mlir::Type type(bool isNarrow) {
    if (isNarrow)
      return mlir::BFloat16Type::get(context.get());
    return mlir::Float32Type::get(context.get());
  }

  /// Operands that stay in the first-level cache: the speed of the
  /// micro-kernel alone.
  double peak(int threads) {
    Shape shape = {"peak", 14 * 8, 32, narrow ? 512 : 256, false, false, true};
    return run(shape, threads, 200, /*same=*/true);
  }

  /// GF/s. Each repetition takes other operands, so that the weights come from
  /// memory as they do in a training step; with `same` all threads compute the
  /// same small product.
  double run(const Shape &shape, int threads, int repeats, bool same = false) {
    cpu::GemmSpec spec;
    spec.m = shape.m;
    spec.n = shape.n;
    spec.k = shape.k;
    spec.transA = shape.transA;
    spec.transB = shape.transB;
    spec.aType = spec.bType = type(narrow);
    spec.cType = type(narrow && !shape.f32Result);
    test::GemmRunner runner(*context, spec, target);
    seconds += runner.compileSeconds();
    ++kernels;
    save(runner, shape);

    int64_t size = narrow ? 2 : 4, sizeC = spec.cType.isF32() ? 4 : 2;
    uint32_t ones = narrow ? 0x3c003c00 : 0x3c000000;
    int64_t copies = same ? 1 : 3;
    Buffer a(shape.m * shape.k * size * copies, ones);
    Buffer b(shape.k * shape.n * size * copies, ones);
    Buffer c(shape.m * shape.n * sizeC * threads * copies);
    std::vector<std::unique_ptr<Buffer>> scratch;
    std::vector<int64_t> rounds(threads * 16);
    for (int thread = 0; thread < threads; ++thread)
      scratch.push_back(std::make_unique<Buffer>(runner.scratchBytes()));
    int loops = same ? 50 : 1;
    double time = measure(threads, repeats, [&](int thread) {
      int64_t copy = rounds[thread * 16]++ % copies;
      auto at = [&](Buffer &buffer, int64_t bytes) {
        return reinterpret_cast<char *>(buffer.data) + bytes;
      };
      for (int i = 0; i < loops; ++i)
        runner.run(at(a, copy * shape.m * shape.k * size),
                   at(b, copy * shape.k * shape.n * size),
                   at(c, (same ? thread : copy) * shape.m * shape.n * sizeC),
                   nullptr, same ? 0 : thread, same ? 1 : threads,
                   scratch[thread]->data);
    });
    double flops = 2.0 * shape.m * shape.n * shape.k;
    return flops * loops * (same ? threads : 1) / time / 1e9;
  }

  double seconds = 0;
  int kernels = 0;

private:
  /// With HEDDLE_SAVE_OBJECTS=DIR the objects can be disassembled.
  void save(const test::GemmRunner &runner, const Shape &shape) {
    const char *directory = std::getenv("HEDDLE_SAVE_OBJECTS");
    if (!directory)
      return;
    std::string path = std::string(directory) + "/" + shape.name + ".o";
    std::replace(path.begin(), path.end(), ' ', '_');
    std::error_code error;
    llvm::raw_fd_ostream(path, error) << runner.object();
  }

  bool narrow;
  std::unique_ptr<mlir::MLIRContext> context;
  cpu::CpuTarget target;
};

} // namespace

int main(int argc, char **argv) {
  bool narrow = argc > 1 && std::strcmp(argv[1], "bf16") == 0;
  int64_t rows = argc > 2 ? std::atoll(argv[2]) : 256;
  const char *filter = argc > 3 ? argv[3] : "";
  auto target = cpu::CpuTarget::parse(argc > 4 ? argv[4] : "native");
  if (!target) {
    std::fprintf(stderr, "unknown target\n");
    return 2;
  }
  Bench bench(narrow, *target);
  double peaks[] = {bench.peak(1), bench.peak(2)};
  std::printf("%-5s rows %lld; micro-kernel in cache: 1 thread %.0f GF/s, 2 "
              "threads %.0f GF/s\n",
              narrow ? "bf16" : "f32", static_cast<long long>(rows), peaks[0],
              peaks[1]);
  std::printf("%-10s %6s %6s %6s %10s %6s %10s %6s\n", "product", "M", "N", "K",
              "1 thread", "", "2 threads", "");
  double flops = 0, times[2] = {0, 0};
  for (const Shape &shape : shapes(rows)) {
    if (!std::strstr(shape.name, filter))
      continue;
    double size = 2.0 * shape.m * shape.n * shape.k;
    int repeats = std::clamp(static_cast<int>(3e10 / size), 3, 30);
    // All but the head occur once in each of the 12 layers.
    double count = std::strstr(shape.name, "head") ? 1 : 12;
    flops += count * size;
    double speed[2];
    for (int threads : {1, 2}) {
      speed[threads - 1] = bench.run(shape, threads, repeats);
      times[threads - 1] += count * size / speed[threads - 1] / 1e9;
    }
    std::printf("%-10s %6lld %6lld %6lld %10.1f %5.0f%% %10.1f %5.0f%%\n",
                shape.name, static_cast<long long>(shape.m),
                static_cast<long long>(shape.n),
                static_cast<long long>(shape.k), speed[0],
                100 * speed[0] / peaks[0], speed[1], 100 * speed[1] / peaks[1]);
    std::fflush(stdout);
  }
  std::printf("whole step: 1 thread %.1f ms, %.1f GF/s; 2 threads %.1f ms, "
              "%.1f GF/s; %d kernels compiled in %.2f s\n",
              times[0] * 1e3, flops / times[0] / 1e9, times[1] * 1e3,
              flops / times[1] / 1e9, bench.kernels, bench.seconds);
  return 0;
}
