//===- NonfiniteKernel.cpp - Find infinite and NaN numbers ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cuda/NonfiniteKernel.h"
#include "heddle/runtime/io/RoundUp.h"

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

namespace {
/// A range of numbers as the kernel reads it. The exponent of an infinite or
/// NaN number has only ones. In all three types it is in the two most
/// significant bytes, so the kernel reads these bytes only.
struct TableEntry {
  uint64_t first; ///< The address of the first number's two bytes.
  uint64_t count;
  uint32_t stride; ///< Bytes from one number to the next.
  uint32_t exponent;
};
} // namespace

static constexpr const char *kernelName = "find_nonfinite";
static constexpr const char *doing = "the search of infinite and NaN gradients";
static constexpr unsigned blocks = 128, threads = 256;
static constexpr int64_t tableOffset = 64, page = 4096;
static constexpr uint32_t exponentOfF16 = 0x7c00;
/// Of BF16, and of the upper half of F32.
static constexpr uint32_t exponentOfF32 = 0x7f80;

/// A thread looks at every n-th number of each range, from the last range to
/// the first, and ends when it has found one.
std::string NonfiniteKernel::text() {
  return std::string(".version 7.0\n.target sm_80\n.address_size 64\n"
                     ".visible .entry ") +
         kernelName +
         R"((.param .u64 condition, .param .u64 table, .param .u32 ranges,
  .param .u64 result) {
  .reg .pred %p;
  .reg .b16 %half;
  .reg .b32 %bits, %thread, %block, %size, %grid, %range, %stride, %exponent;
  .reg .b64 %at, %table, %index, %first, %count, %step, %wide;
  ld.param.u64 %at, [condition];
  ld.global.u32 %bits, [%at];
  and.b32 %bits, %bits, 0x7f800000;
  setp.ne.u32 %p, %bits, 0x7f800000;
  @%p bra DONE;
  mov.u32 %thread, %tid.x;
  mov.u32 %block, %ctaid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %grid, %nctaid.x;
  mad.lo.u32 %thread, %block, %size, %thread;
  mul.wide.u32 %step, %grid, %size;
  ld.param.u32 %range, [ranges];
  ld.param.u64 %table, [table];
NEXT:
  setp.eq.u32 %p, %range, 0;
  @%p bra DONE;
  sub.u32 %range, %range, 1;
  mul.wide.u32 %at, %range, 24;
  add.u64 %at, %at, %table;
  ld.global.u64 %first, [%at];
  ld.global.u64 %count, [%at + 8];
  ld.global.u32 %stride, [%at + 16];
  ld.global.u32 %exponent, [%at + 20];
  cvt.u64.u32 %index, %thread;
  cvt.u64.u32 %wide, %stride;
LOOP:
  setp.ge.u64 %p, %index, %count;
  @%p bra NEXT;
  mad.lo.u64 %at, %index, %wide, %first;
  ld.global.u16 %half, [%at];
  cvt.u32.u16 %bits, %half;
  and.b32 %bits, %bits, %exponent;
  add.u64 %index, %index, %step;
  setp.ne.u32 %p, %bits, %exponent;
  @%p bra LOOP;
  add.u32 %range, %range, 1;
  ld.param.u64 %at, [result];
  red.global.max.u32 [%at], %range;
DONE:
  ret;
}
)";
}

static std::vector<TableEntry> tableOf(const std::vector<NumberRange> &ranges) {
  static_assert(sizeof(TableEntry) == 24);
  std::vector<TableEntry> table;
  for (const NumberRange &range : ranges) {
    auto bytes = uint32_t(plan::byteSize(range.type));
    // Numbers are stored with their least significant byte first.
    table.push_back(
        {range.begin.value() + bytes - 2, uint64_t(range.count), bytes,
         range.type == plan::DType::F16 ? exponentOfF16 : exponentOfF32});
  }
  return table;
}

NonfiniteKernel::NonfiniteKernel(const Driver &driver, Device &device,
                                 StreamHandle stream,
                                 const std::vector<NumberRange> &ranges)
    : driver(driver), device(device), compute(stream),
      numRanges(uint32_t(ranges.size())) {
  std::vector<TableEntry> table = tableOf(ranges);
  auto tableBytes = int64_t(table.size() * sizeof(TableEntry));
  memory.emplace(
      device, MemoryRequest{MemoryKind::Device,
                            io::roundUp(tableOffset + tableBytes, page),
                            doing});
  device.copyIn(Stream::Compute, memory->address() + tableOffset, table.data(),
                tableBytes);
  device.synchronize(Stream::Compute);
  check(driver.loadModule(&module, text().c_str(), 0, nullptr, nullptr),
        "the runtime's own kernels");
  check(driver.findFunction(&function, module, kernelName),
        "the runtime's own kernels");
}

NonfiniteKernel::~NonfiniteKernel() { driver.unloadModule(module); }

void NonfiniteKernel::submit(Address condition) {
  device.fill(Stream::Compute, result(), 0, sizeof(int32_t));
  uint64_t at = condition.value(), to = result().value();
  uint64_t table = to + tableOffset;
  void *arguments[] = {&at, &table, &numRanges, &to};
  LaunchConfig config = {blocks, 1, 1, threads, 1, 1, 0, compute, nullptr, 0};
  check(driver.launch(&config, function, arguments, nullptr), doing);
}
