//===- GpuKernel.h - Support for tests of GPU kernels -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_GPU_GPUKERNEL_H
#define HEDDLE_TEST_UNIT_GPU_GPUKERNEL_H

#include "heddle/Codegen/GPU/Kernels.h"
#include "heddle/emulator/ptx/Machine.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include <string>
#include <vector>

namespace heddle::test {

/// The context of the GPU tests, with all they use loaded.
mlir::MLIRContext &gpuContext();

/// Parses a module; null and a test failure when it is wrong.
mlir::OwningOpRef<mlir::ModuleOp> parseModule(const std::string &text);

/// The text of a plan.kernel. `results` are types, `leading_dimensions`
/// numbers, separated by commas.
std::string kernelText(const std::string &generator,
                       const std::string &arguments, const std::string &results,
                       const std::string &body, const std::string &yielded,
                       const std::string &leading = "");

/// The type of a tensor's elements.
enum class Element { F32, BF16, F16 };
/// As MLIR writes it, such as "bf16".
const char *nameOf(Element type);
constexpr Element allElements[] = {Element::F32, Element::BF16, Element::F16};

/// A tensor in memory, with bytes around it that must not change. It begins at
/// a multiple of 256 bytes, as on a GPU. A copy has to be filled again.
class Buffer {
public:
  Buffer(int64_t elements, Element type);
  Buffer(int64_t elements, bool isBf16)
      : Buffer(elements, isBf16 ? Element::BF16 : Element::F32) {}

  /// Numbers in [-1, 1) that a seed fixes, as they are stored.
  void fill(unsigned seed);
  double at(int64_t index) const;
  void *data() { return const_cast<char *>(start()); }
  int64_t size() const { return elements; }
  bool isFenceIntact() const;

private:
  static constexpr int64_t fence = 64, alignment = 256;

  const char *start() const;
  int64_t bytesOfEach() const { return type == Element::F32 ? 4 : 2; }
  int64_t numBytes() const { return elements * bytesOfEach(); }

  int64_t elements;
  Element type;
  std::vector<char> bytes;
};

/// Maps the only kernel of `text`, runs it in the emulator on the buffers and
/// returns what went wrong, or "". Adds what it did to `counters`.
std::string emulateKernel(const std::string &text,
                          std::vector<Buffer *> buffers,
                          std::vector<int64_t> scalars = {},
                          heddle::emulator::Counters *counters = nullptr);

/// Memory of zeros that begins at a page. It takes no memory of the machine
/// until it is touched, so that it may be larger than that.
struct ZeroMemory {
  explicit ZeroMemory(int64_t bytes);
  ZeroMemory(const ZeroMemory &) = delete;
  ~ZeroMemory();

  int64_t bytes;
  void *address; ///< Null if there are no bytes.
};

/// Runs some blocks of one of the kernel's launches, for sm_90, on buffers of
/// these addresses and sizes; `places` as for `countBlocks`. The first `before`
/// launches run before, whole and uncounted.
emulator::Counters
runBlocks(const std::string &text,
          const std::vector<std::pair<void *, int64_t>> &buffers,
          const std::vector<double> &places, unsigned launch = 0,
          const std::string &matmul = "ieee", unsigned before = 0);

/// What some blocks of one of the kernel's launches do, for sm_90, on buffers
/// of zeros of these sizes; products in f32 with --matmul `matmul`. `places`:
/// where in the grid they are, from 0, the first block, to 1, the last one.
/// `words` is repeated in buffer `filled`, if there is one.
emulator::Counters
countBlocks(const std::string &text, const std::vector<int64_t> &bytes,
            const std::vector<double> &places, unsigned launch = 0,
            const std::string &matmul = "ieee", int64_t filled = -1,
            const std::vector<uint32_t> &words = {}, unsigned before = 0);

/// The same of the first block.
emulator::Counters countFirstBlock(const std::string &text,
                                   const std::vector<int64_t> &bytes,
                                   unsigned launch = 0,
                                   const std::string &matmul = "ieee");
/// All instructions that were counted.
uint64_t sumOf(const emulator::Counters &counters);

/// The norm of got - expected over the norm of expected.
double relativeError(const Buffer &got, const std::vector<double> &expected);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_GPU_GPUKERNEL_H
