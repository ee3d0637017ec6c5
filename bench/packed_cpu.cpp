//===- packed_cpu.cpp - Speed of products with packed weights ----------- ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints how fast the products of one token, or of a few, read their weights,
// beside the speed at which a loop of 8 streams a thread reads memory, measured
// just before each.
//
//   heddle-bench-packed [FORM[,FORM...]] [ROWS] [FILTER] [MARCH] [THREADS]
//                       [MIB]
//
// A form is BITS[:GROUP[:BLOCK]]: bits of a weight, inputs that share a scale
// (0: all of them), and inputs of a row whose codes of 8 bits share one (0:
// rows are bf16). Each launch reads other weights out of MIB mebibytes: 384 are
// too many for any cache, and 0 are the same weights each time, which tell what
// the arithmetic takes where they fit into a core's cache.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/ReadRate.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "test/Unit/Kernels/KernelHarness.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sched.h>
#include <sstream>
#include <sys/mman.h>
#include <thread>

using namespace heddle;
using Clock = std::chrono::steady_clock;

namespace {

struct Shape {
  const char *name;
  int64_t n, k;
};

/// How weights and rows are stored.
struct Form {
  int64_t bits = 16, group = 64, block = 0;
  bool hasCodes() const { return bits < 16; }
  int64_t groupsOf(int64_t inputs) const {
    return group == 0 ? 1 : inputs / group;
  }
  static Form parse(const std::string &name) {
    Form form;
    char colon = 0;
    std::istringstream text(name);
    text >> form.bits >> colon >> form.group >> colon >> form.block;
    return form;
  }
};

// GPT-2 124M and XL, and a LLaMA of 1B.
const Shape shapes[] = {
    {"small qkv", 2304, 768},    {"small proj", 768, 768},
    {"small fc", 3072, 768},     {"small fc2", 768, 3072},
    {"small head", 50257, 768},  {"xl qkv", 4800, 1600},
    {"xl proj", 1600, 1600},     {"xl fc", 6400, 1600},
    {"xl fc2", 1600, 6400},      {"llama qkv", 3072, 2048},
    {"llama gate", 16384, 2048}, {"llama down", 2048, 8192},
};

/// Memory as the runtime maps it, in huge pages, and touched.
struct Buffer {
  explicit Buffer(int64_t size, uint32_t pattern = 0)
      : bytes((size + hugePage) / hugePage * hugePage),
        data(static_cast<char *>(std::aligned_alloc(hugePage, bytes))) {
    madvise(data, bytes, MADV_HUGEPAGE);
    auto *words = reinterpret_cast<uint32_t *>(data);
    std::fill(words, words + bytes / 4, pattern);
  }
  ~Buffer() { std::free(data); }
  Buffer(const Buffer &) = delete;
  static constexpr int64_t hugePage = 2 << 20;
  int64_t bytes;
  char *data;
};

/// Seconds of one call of `part` on every thread, all starting together: the
/// fastest of `repeats`, since other processes can only add to it.
template <typename Part> double measure(int threads, int repeats, Part part) {
  std::atomic<int> arrived{0}, finished{0};
  std::vector<std::thread> pool;
  double best = 1e9;
  auto pin = [](int core) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
  };
  auto barrier = [&](std::atomic<int> &counter, int round) {
    ++counter;
    while (counter.load(std::memory_order_acquire) < threads * (round + 1))
      sched_yield();
  };
  auto worker = [&](int thread) {
    pin(thread);
    for (int round = 0; round < repeats; ++round) {
      barrier(arrived, round);
      auto start = Clock::now();
      part(thread, round);
      barrier(finished, round);
      if (thread == 0)
        best = std::min(
            best, std::chrono::duration<double>(Clock::now() - start).count());
    }
  };
  for (int thread = 1; thread < threads; ++thread)
    pool.emplace_back(worker, thread);
  worker(0);
  for (std::thread &thread : pool)
    thread.join();
  return best;
}

class Bench {
public:
  Bench(Form form, int64_t rows, int threads, const cpu::CpuTarget &target)
      : form(form), rows(rows), threads(threads), target(target) {
    mlir::DialectRegistry registry;
    cpu::registerKernelCompiler(registry);
    context = test::createKernelContext(registry);
  }

  int64_t weightBytes(const Shape &shape) const {
    int64_t groups = form.hasCodes() ? form.groupsOf(shape.k) : 0;
    return panels(shape) * 32 * (shape.k * form.bits / 8 + groups * 2);
  }

  /// Seconds. Each round reads another of the copies of the weights that the
  /// first `bytesRead` of `memory` hold, or always the first one.
  double run(const Shape &shape, const Buffer &memory, int64_t bytesRead) {
    auto module =
        mlir::parseSourceString<mlir::ModuleOp>(textOf(shape), context.get());
    auto kernel = *module->getOps<planir::KernelOp>().begin();
    test::LoadedKernel loaded(kernel, target);
    Buffer x(rows * shape.k * 4), y(rows * shape.n * 4);
    std::vector<std::unique_ptr<Buffer>> scratch;
    for (int thread = 0; thread < threads; ++thread)
      scratch.push_back(
          std::make_unique<Buffer>(loaded.compiled().scratchBytes));
    int64_t bytes = (weightBytes(shape) + 4095) / 4096 * 4096;
    int64_t copies = std::max<int64_t>(bytesRead / bytes, 1);
    int repeats = static_cast<int>(std::clamp<int64_t>(copies * 3, 60, 400));
    std::vector<int64_t> taken(repeats);
    return measure(threads, repeats, [&](int thread, int round) {
      char *at = memory.data + round % copies * bytes;
      int64_t words = panels(shape) * 32 * shape.k * form.bits / 8;
      std::vector<void *> refs = {x.data, at};
      if (form.hasCodes())
        refs.push_back(at + words);
      refs.push_back(y.data);
      loaded.runPart(refs, thread, threads, scratch[thread]->data,
                     taken[round]);
    });
  }

private:
  static int64_t panels(const Shape &shape) { return (shape.n + 31) / 32; }

  std::string textOf(const Shape &shape) const {
    std::ostringstream text;
    const char *type = form.bits == 32 ? "f32" : "bf16";
    std::ostringstream x, w, s, y;
    x << "tensor<" << rows << "x" << shape.k << "x" << type << ">";
    y << "tensor<" << rows << "x" << shape.n << "x" << type << ">";
    int64_t perWord = 32 / form.bits;
    w << "tensor<" << panels(shape) << "x" << shape.k / perWord << "x32x";
    if (form.hasCodes())
      w << "i32>";
    else
      w << perWord << "x" << type << ">";
    s << "tensor<" << panels(shape) << "x" << form.groupsOf(shape.k)
      << "x32xf16>";
    bool codes = form.hasCodes();
    std::string how = " scales %s bits " + std::to_string(form.bits);
    if (form.block > 0)
      how += " input_block " + std::to_string(form.block);
    text << "plan.kernel @k(%x: " << x.str() << ", %w: " << w.str()
         << (codes ? ", %s: " + s.str() : "") << ") -> " << y.str()
         << " attributes {generator = #plan.generator<gemm>, ties = "
            "array<i64: -1>} {\n%y = nn.packed_linear %x, %w"
         << (codes ? how : "") << " : (" << x.str() << ", " << w.str()
         << (codes ? ", " + s.str() : "") << ") -> " << y.str()
         << "\nplan.yield %y : " << y.str() << "\n}";
    return text.str();
  }

  Form form;
  int64_t rows;
  int threads;
  cpu::CpuTarget target;
  std::unique_ptr<mlir::MLIRContext> context;
};

} // namespace

int main(int argc, char **argv) {
  std::istringstream list(argc > 1 ? argv[1] : "16,8,4");
  int64_t rows = argc > 2 ? std::atoll(argv[2]) : 1;
  const char *filter = argc > 3 ? argv[3] : "";
  auto target = cpu::CpuTarget::parse(argc > 4 ? argv[4] : "native");
  int threads = argc > 5 ? std::atoi(argv[5]) : 2;
  int64_t mebibytes = argc > 6 ? std::atoll(argv[6]) : 384;
  if (!target) {
    std::fprintf(stderr, "unknown target\n");
    return 2;
  }
  int64_t bytesRead = mebibytes << 20;
  constexpr int64_t largest = int64_t(160) << 20; // Of these shapes, in f32.
  Buffer memory(std::max(bytesRead, largest));
  rt::ThreadPool pool(threads);
  rt::ReadRate reading(pool);
  std::printf("%-12s %8s %5s %6s %6s %9s %8s %8s %6s\n", "product", "form",
              "rows", "N", "K", "us", "GB/s", "streams", "");
  for (std::string name; std::getline(list, name, ',');) {
    Bench bench(Form::parse(name), rows, threads, *target);
    for (const Shape &shape : shapes) {
      if (!std::strstr(shape.name, filter))
        continue;
      double limit = 0; // Other processes can only lower it.
      for (int round = 0; round < 6; ++round)
        limit = std::max(limit, reading.measure() / 1e9);
      double time = bench.run(shape, memory, bytesRead);
      double speed = static_cast<double>(bench.weightBytes(shape)) / time / 1e9;
      std::printf("%-12s %8s %5lld %6lld %6lld %9.1f %8.1f %8.1f %5.0f%%\n",
                  shape.name, name.c_str(), static_cast<long long>(rows),
                  static_cast<long long>(shape.n),
                  static_cast<long long>(shape.k), time * 1e6, speed, limit,
                  100 * speed / limit);
      std::fflush(stdout);
    }
  }
  return 0;
}
