//===- PtxRun.cpp - Runs PTX in tests -------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxRun.h"
#include "gtest/gtest.h"

#include <random>

namespace heddle::test {

std::string ptx(const std::string &text, const std::string &chip) {
  return ".version 8.0\n.target " + chip + "\n.address_size 64\n" + text;
}

std::string hopper(std::string text) {
  return text.replace(text.find("sm_80"), 5, "sm_90a");
}

std::string changed(std::string text, const std::string &from,
                    const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

std::string parseError(const std::string &text) {
  std::string error;
  return Module::load(text, error) ? "" : error;
}

void PtxRun::add(void *data, size_t bytes) {
  memory.add("buffer " + std::to_string(pointers.size()), data, bytes);
  pointers.push_back(reinterpret_cast<uint64_t>(data));
}

std::string PtxRun::execute() {
  std::string error;
  auto module = Module::load(text, error);
  if (!module)
    return error;
  Launch launch;
  launch.kernel = module->kernels().front();
  launch.grid = grid;
  launch.block = block;
  launch.cluster = cluster;
  launch.sharedBytes = sharedBytes;
  for (uint64_t &pointer : pointers)
    launch.arguments.push_back(&pointer);
  counters = Counters();
  touched = AccessedRanges();
  return module->run(launch, memory, options, &counters, &touched);
}

std::string kernel(int parameters, const std::string &body,
                   int64_t sharedBytes) {
  std::string text = ".visible .entry k(";
  for (int i = 0; i < parameters; ++i)
    text += (i ? ", .param .u64 p" : ".param .u64 p") + std::to_string(i);
  text += ")\n{\n.reg .pred %p<40>; .reg .b16 %h<40>; .reg .b32 %r<40>;\n"
          ".reg .f32 %f<40>; .reg .b64 %rd<40>; .reg .f64 %fd<40>;\n";
  if (sharedBytes)
    text +=
        ".shared .align 16 .b8 memory[" + std::to_string(sharedBytes) + "];\n";
  for (int i = 0; i < parameters; ++i) {
    std::string n = std::to_string(i);
    text += "ld.param.u64 %rd" + n + ", [p" + n + "];\n";
  }
  return ptx(text + "mov.u32 %r0, %tid.x;\n" + body + "\nret;\n}\n");
}

static std::string declare(const std::string &name, int width) {
  return width == 1 ? ".reg .pred " + name + "; .reg .b32 " + name + "x;\n"
                    : ".reg .b" + std::to_string(width) + " " + name + ";\n";
}

std::vector<uint64_t> apply(const std::string &code,
                            const std::vector<int> &widths,
                            const std::vector<std::vector<uint64_t>> &operands,
                            Options options) {
  static const char *const names[] = {"%d", "%a", "%b", "%c", "%e"};
  size_t count = operands.size(), numOperands = widths.size() - 1;
  std::string text = ".visible .entry k(.param .u64 out, .param .u64 in)\n{\n"
                     ".reg .pred %more; .reg .b32 %t<4>; .reg .b64 %at<6>;\n";
  for (size_t i = 0; i < widths.size(); ++i)
    text += declare(names[i], widths[i]);
  text += "mov.u32 %t0, %tid.x; mov.u32 %t1, %ctaid.x;\n"
          "mad.lo.s32 %t2, %t1, 32, %t0;\n"
          "setp.ge.u32 %more, %t2, " +
          std::to_string(count) +
          ";\n"
          "@%more ret;\n"
          "ld.param.u64 %at0, [out]; ld.param.u64 %at1, [in];\n"
          "mad.wide.u32 %at2, %t2, 8, %at0;\n"
          "mad.wide.u32 %at3, %t2, " +
          std::to_string(8 * numOperands) + ", %at1;\n";
  for (size_t i = 0; i < numOperands; ++i) {
    std::string at = ", [%at3+" + std::to_string(8 * i) + "];\n";
    std::string name = names[i + 1];
    if (widths[i + 1] == 1)
      text += "ld.global.u32 " + name + "x" + at + "setp.ne.u32 " + name +
              ", " + name + "x, 0;\n";
    else
      text += "ld.global.b" + std::to_string(widths[i + 1]) + " " + name + at;
  }
  text += code + "\n";
  if (widths[0] == 1)
    text += "selp.u32 %dx, 1, 0, %d;\nst.global.u32 [%at2], %dx;\n";
  else
    text += "st.global.b" + std::to_string(widths[0]) + " [%at2], %d;\n";
  PtxRun run;
  run.text = ptx(text + "ret;\n}\n");
  run.grid = {static_cast<int64_t>(count + 31) / 32, 1, 1};
  run.options = options;
  std::vector<uint64_t> results(count), inputs;
  for (const std::vector<uint64_t> &values : operands)
    inputs.insert(inputs.end(), values.begin(), values.end());
  EXPECT_EQ(run.run(results, inputs), "") << run.text;
  return results;
}

std::vector<uint64_t> integerEdges(int width) {
  uint64_t mask = width == 64 ? ~uint64_t(0) : (uint64_t(1) << width) - 1;
  uint64_t sign = uint64_t(1) << (width - 1);
  std::vector<uint64_t> values = {0,        1,    2,        3,    7,
                                  31,       32,   33,       63,   64,
                                  sign - 1, sign, sign + 1, mask, mask - 1};
  std::mt19937_64 random(width);
  for (int i = 0; i < 8; ++i)
    values.push_back(random() >> (random() % 60));
  for (uint64_t &value : values)
    value &= mask;
  return values;
}

std::vector<uint64_t> floatEdges(int width) {
  std::vector<uint64_t> values;
  std::mt19937_64 random(width);
  auto both = [&](uint64_t bits) {
    values.push_back(bits);
    values.push_back(bits | uint64_t(1) << (width - 1));
  };
  if (width == 32) {
    for (uint32_t bits :
         {0u, 1u, 0x7fffffu, 0x800000u, 0x3f800000u, 0x3f800001u, 0x3fc00000u,
          0x40200000u, 0x4f000000u, 0x5f000000u, 0x7f7fffffu, 0x7f800000u,
          0x7fc00000u, 0x7f800001u, 0x42fe0000u, 0x33800000u})
      both(bits);
  } else {
    for (uint64_t bits :
         {uint64_t(0), uint64_t(1), uint64_t(0x3ff0000000000000),
          uint64_t(0x3ff8000000000000), uint64_t(0x7fefffffffffffff),
          uint64_t(0x7ff0000000000000), uint64_t(0x7ff8000000000000),
          uint64_t(0x36a0000000000000), uint64_t(0x3690000000000001),
          uint64_t(0x47efffffe0000000), uint64_t(0x41dfffffffc00000)})
      both(bits);
  }
  for (int i = 0; i < 12; ++i)
    values.push_back(
        width == 32
            ? bitsOf(std::ldexp(static_cast<float>(random() % 1999) - 999.5f,
                                static_cast<int>(random() % 40) - 20))
            : bitsOf(std::ldexp(double(random() % 99991) - 5e4,
                                static_cast<int>(random() % 90) - 45)));
  return values;
}

std::vector<std::vector<uint64_t>>
tuples(const std::vector<std::vector<uint64_t>> &values, size_t most) {
  std::vector<std::vector<uint64_t>> result = {{}};
  for (const std::vector<uint64_t> &next : values) {
    std::vector<std::vector<uint64_t>> longer;
    for (const std::vector<uint64_t> &prefix : result)
      for (uint64_t value : next) {
        longer.push_back(prefix);
        longer.back().push_back(value);
      }
    result = std::move(longer);
  }
  if (result.size() <= most)
    return result;
  std::mt19937 random(1);
  std::vector<std::vector<uint64_t>> sample;
  for (size_t i = 0; i < most; ++i)
    sample.push_back(result[random() % result.size()]);
  return sample;
}

} // namespace heddle::test
