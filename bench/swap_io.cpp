//===- swap_io.cpp - Which requests a disk is fastest with ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: heddle-bench-swap DIRECTORY [MEBIBYTES]
//        heddle-bench-swap DIRECTORY --plain BYTES
//
// Moves a swap file once to memory and back, for every way to move bytes, size
// of requests and number of them under way, as a step with its optimizer on
// file does: it reads tiles, and writes earlier ones. Prints GB/s of both
// together, the median of five rounds, in which the choices take turns.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/OffloadStream.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

using namespace heddle;
using namespace heddle::io;

static constexpr int64_t tileBytes = int64_t(4) << 20;
static constexpr int64_t numSlots = 4, rounds = 5;

namespace {
struct Choice {
  std::string method;
  OffloadShape shape;
  std::vector<double> rates; ///< GB/s of each round.
};
} // namespace

/// Seconds in which all of the file is read and written once.
static double moveAll(OffloadFile &file, const Choice &choice, char *slots) {
  OffloadStream stream(openBlockQueue(choice.method, choice.shape.depth),
                       choice.shape);
  auto begin = std::chrono::steady_clock::now();
  for (int64_t at = 0; at < file.size(); at += tileBytes) {
    char *slot = slots + at / tileBytes % numSlots * tileBytes;
    stream.start({false, &file, at, slot, tileBytes});
    stream.start({true, &file, at, slot, tileBytes});
  }
  stream.await(stream.started());
  std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  return taken.count();
}

static void measurePlain(OffloadFile &file, char *slots) {
  Choice choice = {"auto", OffloadShape(), {}};
  moveAll(file, choice, slots); // Writes it.
  for (int64_t round = 0; round < rounds; ++round)
    printf("%.6f\n", moveAll(file, choice, slots));
}

static void measureAll(OffloadFile &file, char *slots) {
  std::vector<Choice> choices;
  for (const char *method : {"io_uring", "threads"})
    for (int64_t kibibytes : {64, 256, 1024, 4096})
      for (int64_t depth : {1, 4, 8, 16, 32})
        choices.push_back({method, {kibibytes << 10, depth}, {}});
  moveAll(file, choices.front(), slots); // Writes it.
  for (int64_t round = 0; round < rounds; ++round)
    for (Choice &choice : choices)
      choice.rates.push_back(2e-9 * double(file.size()) /
                             moveAll(file, choice, slots));
  printf("%s%s\n%-10s %12s %6s %8s\n", file.directory().c_str(),
         file.isDirect() ? ", past the system's cache" : "", "method",
         "request KiB", "depth", "GB/s");
  for (Choice &choice : choices) {
    std::sort(choice.rates.begin(), choice.rates.end());
    printf("%-10s %12lld %6lld %8.2f\n", choice.method.c_str(),
           static_cast<long long>(choice.shape.requestBytes >> 10),
           static_cast<long long>(choice.shape.depth),
           choice.rates[rounds / 2]);
  }
}

static void measure(const std::string &directory, int64_t bytes, bool isPlain) {
  OffloadFile file({directory}, bytes, "the benchmark");
  void *memory = nullptr;
  if (posix_memalign(&memory, tileBytes, numSlots * tileBytes) != 0)
    return;
  madvise(memory, numSlots * tileBytes, MADV_HUGEPAGE); // As a step's memory.
  char *slots = static_cast<char *>(memory);
  memset(slots, 1, numSlots * tileBytes);
  isPlain ? measurePlain(file, slots) : measureAll(file, slots);
  free(slots);
}

int main(int argc, char **argv) {
  bool isPlain = argc == 4 && strcmp(argv[2], "--plain") == 0;
  if (argc < 2 || argv[1][0] == '-' || (argc > 3 && !isPlain)) {
    fprintf(stderr, "usage: heddle-bench-swap DIRECTORY [MEBIBYTES]\n"
                    "       heddle-bench-swap DIRECTORY --plain BYTES\n");
    return 2;
  }
  int64_t bytes = isPlain    ? atoll(argv[3])
                  : argc > 2 ? atoll(argv[2]) << 20
                             : int64_t(1) << 30;
  int64_t tiles =
      std::max((bytes + tileBytes - 1) / tileBytes, int64_t(1));
  try {
    measure(argv[1], tiles * tileBytes, isPlain);
  } catch (const UserError &error) {
    fprintf(stderr, "%s", error.diagnostic.format().c_str());
    return error.diagnostic.exitCode();
  }
  return 0;
}
