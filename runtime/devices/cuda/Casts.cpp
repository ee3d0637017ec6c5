//===- Casts.cpp - Kernels that cast buffers between types ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes PTX text of kernels that cast buffers from one type to another, loads
// the PTX, and launches the kernels.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cuda/Casts.h"

#include <algorithm>
#include <climits>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;
using plan::DType;

static constexpr DType types[] = {DType::F32, DType::BF16, DType::F16};
/// The number of elements that a thread casts: one, or four by a wide access.
static constexpr int widths[] = {1, 4};
static constexpr unsigned threads = 256;

bool Casts::takes(DType type) {
  return std::find(std::begin(types), std::end(types), type) != std::end(types);
}

static std::string nameOf(DType to, DType from, int each) {
  return std::string("cast_") + plan::nameOf(from) + "_" + plan::nameOf(to) +
         "_x" + std::to_string(each);
}

//===----------------------------------------------------------------------===//
// PTX of the kernels
//===----------------------------------------------------------------------===//

/// Returns a list of registers in PTX, for example "{%h0, %h1, %h2, %h3}" or
/// "%h0".
static std::string registers(const char *prefix, int count) {
  std::string list = count > 1 ? "{" : "";
  for (int i = 0; i < count; ++i)
    list += (i > 0 ? ", %" : "%") + (prefix + std::to_string(i));
  return list + (count > 1 ? "}" : "");
}

/// Returns PTX that loads or stores a thread's elements. The register %at holds
/// their address.
static std::string access(const char *what, DType type, int each) {
  bool isWide = type == DType::F32;
  std::string name = std::string(what) + ".global" + (each > 1 ? ".v4" : "") +
                     (isWide ? ".f32 " : ".b16 ");
  std::string values = registers(isWide ? "f" : "h", each);
  return "  " + name +
         (what[0] == 'l' ? values + ", [%at]" : "[%at], " + values) + ";\n";
}

/// Returns PTX that converts element `i` of the thread to f32.
static std::string widen(DType type, int i) {
  std::string number = std::to_string(i);
  if (type == DType::F16)
    return "  cvt.f32.f16 %f" + number + ", %h" + number + ";\n";
  // The bits of a bf16 are the upper half of the bits of the f32 with the same
  // value.
  return "  mov.b32 %r0, {%zero, %h" + number + "};\n  mov.b32 %f" + number +
         ", %r0;\n";
}
static std::string narrow(DType type, int i) {
  std::string number = std::to_string(i);
  return std::string("  cvt.rn.") + (type == DType::F16 ? "f16" : "bf16") +
         ".f32 %h" + number + ", %f" + number + ";\n";
}

/// Returns PTX that sets the register %at to the address of a thread's
/// elements.
static std::string setAddress(const char *parameter, DType type, int each) {
  return std::string("  ld.param.u64 %at, [") + parameter +
         "];\n  mul.wide.u32 %offset, %index, " +
         std::to_string(each * plan::byteSize(type)) +
         ";\n  add.u64 %at, %at, %offset;\n";
}

static std::string textOf(DType to, DType from, int each) {
  std::string text =
      ".visible .entry " + nameOf(to, from, each) +
      R"((.param .u64 target, .param .u64 source, .param .u32 count) {
  .reg .pred %beyond;
  .reg .b16 %h<4>, %zero;
  .reg .b32 %r0, %index, %block, %size, %count;
  .reg .f32 %f<4>;
  .reg .b64 %at, %offset;
  mov.u32 %index, %tid.x;
  mov.u32 %block, %ctaid.x;
  mov.u32 %size, %ntid.x;
  mad.lo.u32 %index, %block, %size, %index;
  ld.param.u32 %count, [count];
  setp.ge.u32 %beyond, %index, %count;
  @%beyond bra DONE;
  mov.b16 %zero, 0;
)";
  text += setAddress("source", from, each) + access("ld", from, each);
  for (int i = 0; i < each; ++i)
    text += (from == DType::F32 ? "" : widen(from, i)) +
            (to == DType::F32 ? "" : narrow(to, i));
  return text + setAddress("target", to, each) + access("st", to, each) +
         "DONE:\n  ret;\n}\n";
}

/// Calls `function` for each pair of types and each number of elements that a
/// thread casts (`widths`).
template <typename Function> static void forEachCast(Function function) {
  for (DType from : types)
    for (DType to : types)
      for (int each : widths)
        if (from != to)
          function(to, from, each);
}

std::string Casts::text() {
  std::string text = ".version 7.0\n.target sm_80\n.address_size 64\n";
  forEachCast(
      [&](DType to, DType from, int each) { text += textOf(to, from, each); });
  return text;
}

//===----------------------------------------------------------------------===//
// Loading and launching
//===----------------------------------------------------------------------===//

Casts::Casts(const Driver &driver) : driver(driver) {
  check(driver.loadModule(&module, text().c_str(), 0, nullptr, nullptr),
        "the runtime's own kernels");
  forEachCast([&](DType to, DType from, int each) {
    std::string name = nameOf(to, from, each);
    check(driver.findFunction(&functions[name], module, name.c_str()),
          "the runtime's own kernels");
    // Ask for an attribute, so that the driver loads the function now: it must
    // not load a function while work is captured.
    int registers = 0;
    check(driver.functionAttribute(&registers, FunctionRegisters,
                                   functions[name]),
          "the runtime's own kernels");
  });
}

Casts::~Casts() { driver.unloadModule(module); }

void Casts::launch(StreamHandle stream, DType to, Address target, DType from,
                   Address source, int64_t count, int each) const {
  auto groups = uint32_t(count / each);
  uint64_t addresses[] = {target.value(), source.value()};
  void *arguments[] = {&addresses[0], &addresses[1], &groups};
  unsigned blocks = (groups + threads - 1) / threads;
  LaunchConfig config = {blocks, 1, 1, threads, 1, 1, 0, stream, nullptr, 0};
  if (groups > 0)
    check(driver.launch(&config, functions.at(nameOf(to, from, each)),
                        arguments, nullptr),
          "a cast");
}

void Casts::submit(StreamHandle stream, DType to, Address target, DType from,
                   Address source, int64_t count) const {
  constexpr int wide = widths[1];
  auto isAligned = [&](Address address, DType type) {
    return address.value() % uint64_t(wide * plan::byteSize(type)) == 0;
  };
  constexpr int64_t most = INT_MAX - INT_MAX % wide;
  for (int64_t done = 0; done < count;) {
    Address to0 = target + done * plan::byteSize(to);
    Address from0 = source + done * plan::byteSize(from);
    int64_t left = std::min(most, count - done);
    bool isWide = left >= wide && isAligned(to0, to) && isAligned(from0, from);
    left -= isWide ? left % wide : 0;
    launch(stream, to, to0, from, from0, left, isWide ? wide : 1);
    done += left;
  }
}
