//===- PtxRun.h - Runs PTX in tests -----------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_EMULATOR_PTXRUN_H
#define HEDDLE_TEST_EMULATOR_PTXRUN_H

#include "heddle/emulator/ptx/Machine.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace heddle::test {

using emulator::AccessedRanges;
using emulator::Counters;
using emulator::Dim3;
using emulator::GlobalMemory;
using emulator::Launch;
using emulator::Module;
using emulator::Options;

/// PTX with a version and a target.
std::string ptx(const std::string &text, const std::string &chip = "sm_80");

/// PTX for sm_80; PTX for sm_90a.
std::string hopper(std::string text);

/// `text` with the first occurrence of `from` replaced. Fails if there is none.
std::string changed(std::string text, const std::string &from,
                    const std::string &to = "");

/// The error of loading PTX, or "".
std::string parseError(const std::string &text);

/// A launch of the only kernel of a module, with a pointer to each buffer.
struct PtxRun {
  std::string text;
  Dim3 grid, block = {32, 1, 1};
  std::optional<Dim3> cluster;
  int64_t sharedBytes = 0;
  Options options;
  Counters counters;
  AccessedRanges touched;

  /// Returns an error message, or "".
  template <class... T> std::string run(std::vector<T> &...buffers) {
    memory = GlobalMemory();
    pointers.clear();
    (add(buffers.data(), buffers.size() * sizeof(T)), ...);
    return execute();
  }

private:
  void add(void *data, size_t bytes);
  std::string execute();

  GlobalMemory memory;
  std::vector<uint64_t> pointers;
};

/// A kernel whose body has the parameters as %rd0, %rd1 ..., 40 registers each
/// of %p, %h (16 bits), %r, %f, %rd and %fd, the thread's number in %r0, and a
/// shared array `memory`.
std::string kernel(int parameters, const std::string &body,
                   int64_t sharedBytes = 0);

/// Applies lines of PTX to operands, given and returned as bits: %a, %b, %c are
/// the operands' registers and %d the result's, of `widths` bits (1 for
/// predicates), the result's first. `operands[i]` are the values of thread i.
std::vector<uint64_t> apply(const std::string &code,
                            const std::vector<int> &widths,
                            const std::vector<std::vector<uint64_t>> &operands,
                            Options options = {});

/// Edge cases of a width, and some random numbers.
std::vector<uint64_t> integerEdges(int width);
std::vector<uint64_t> floatEdges(int width);
/// All tuples of `count` values, or a sample of them.
std::vector<std::vector<uint64_t>>
tuples(const std::vector<std::vector<uint64_t>> &values, size_t most = 4096);

template <class To, class From> To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}
inline float asFloat(uint64_t bits) {
  return bitCast<float>(static_cast<uint32_t>(bits));
}
inline double asDouble(uint64_t bits) { return bitCast<double>(bits); }
inline uint64_t bitsOf(float value) { return bitCast<uint32_t>(value); }
inline uint16_t toBf16(float value) {
  return static_cast<uint16_t>(bitsOf(value) >> 16);
}
inline uint64_t bitsOf(double value) { return bitCast<uint64_t>(value); }

} // namespace heddle::test

#endif // HEDDLE_TEST_EMULATOR_PTXRUN_H
