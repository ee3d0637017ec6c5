//===- DrawOperand.cpp - Operands to check kernels ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/DrawOperand.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/runtime/core/Philox.h"
#include "heddle/runtime/io/Safetensors.h"

#include <algorithm>
#include <cstring>

using namespace heddle;
using namespace heddle::rt;

void heddle::rt::drawOperand(const plan::PlainKernel::Argument &argument,
                             uint32_t number, char *to, int64_t count) {
  int64_t drawn = argument.step ? count : std::min(count, drawnPeriod);
  int64_t size = plan::byteSize(argument.type);
  bool isFloat = argument.type != plan::DType::I32 &&
                 argument.type != plan::DType::I64 &&
                 argument.type != plan::DType::U8;
  if (isFloat) {
    std::vector<float> values(drawn);
    for (int64_t i = 0; i < drawn; ++i) {
      double share = philox(0, uint64_t(i), number, 0)[0] * 0x1p-32;
      values[i] = float(argument.low + share * (argument.high - argument.low));
    }
    io::convertElements(values.data(), "F32", to, plan::nameOf(argument.type),
                        drawn);
  } else {
    auto low = int64_t(argument.low);
    auto span = uint64_t(int64_t(argument.high) - low + 1);
    for (int64_t i = 0; i < drawn; ++i) {
      uint64_t offset = argument.step
                            ? span - 1 - uint64_t(i * argument.step) % span
                            : philox(0, uint64_t(i), number, 0)[0] % span;
      int64_t value = low + int64_t(offset);
      // Numbers are little-endian, so the first `size` bytes of `value` are its
      // low bytes.
      memcpy(to + i * size, &value, size);
    }
  }
  for (int64_t done = drawn; done < count; done += drawn)
    memcpy(to + done * size, to, std::min(drawn, count - done) * size);
}

void OperandWriter::write(const plan::PlainKernel::Argument &argument,
                          uint32_t number, char *to, int64_t count) {
  auto found = constants.find(next++);
  if (found == constants.end() || argument.type != plan::DType::I32 ||
      int64_t(found->second->value.elements.size()) < count)
    drawOperand(argument, number, to, count);
  else
    memcpy(to, found->second->value.elements.data(), count * sizeof(int32_t));
}
