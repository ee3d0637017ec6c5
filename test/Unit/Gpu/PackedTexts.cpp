//===- PackedTexts.cpp - Kernels of products with packed weights ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackedTexts.h"
#include "GpuKernel.h"
#include "heddle/PlanFormat/PackedWeight.h"

namespace heddle::test {

static std::string tensor(const std::vector<int64_t> &sizes, const char *type) {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + type + ">";
}

PackedText packedText(const PackedForm &form, int64_t rows) {
  plan::PackedWeight packed;
  packed.shape = {form.in, form.out};
  packed.bits = form.bits;
  packed.group = form.group;
  packed.layout = plan::PackedLayout::Fragments;
  bool hasCodes = packed.isQuantized();
  std::vector<int64_t> words = packed.stateShape();
  packed.part = plan::PackedPart::Scales;
  std::vector<int64_t> scales = packed.stateShape();
  std::string x = tensor({rows, form.in}, "bf16");
  std::string y = tensor({rows, form.out}, "bf16");
  std::string w = tensor(words, hasCodes ? "i32" : "bf16");
  std::string table = tensor(scales, "f16");
  std::string arguments = "%x: " + x + ", %w: " + w, types = x + ", " + w;
  std::string operands = "%x, %w";
  PackedText text;
  text.panels = packed.panels();
  text.panelBytes = packed.panelWords() * 4;
  text.bytes = {rows * form.in * 2, text.panels * text.panelBytes};
  auto add = [&](const std::string &name, const std::string &word) {
    arguments += ", " + name + ": " + table;
    operands += " " + word + " " + name;
    types += ", " + table;
    int64_t bytes = packed.groups() * packed.block().outputs * 2;
    text.bytes.push_back(text.panels * bytes);
    text.panelBytes += bytes;
  };
  if (hasCodes)
    add("%s", "scales");
  if (form.hasZeros)
    add("%z", "zeros");
  text.bytes.push_back(rows * form.out * 2);
  if (hasCodes)
    operands += " bits " + std::to_string(form.bits);
  text.text = kernelText("gemm", arguments, y,
                         "%y = nn.packed_linear " + operands +
                             " layout fragments : (" + types + ") -> " + y,
                         "%y");
  return text;
}

} // namespace heddle::test
