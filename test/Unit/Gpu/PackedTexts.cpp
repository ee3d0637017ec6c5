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

/// The norm's operation, which computes %n of %x; its operands are added to
/// `arguments`.
static std::string normOf(const PackedForm &form, int64_t rows,
                          std::string &arguments) {
  bool isLayer = form.norm == "layer_norm";
  std::string x = tensor({rows, form.in}, form.type.c_str());
  std::string vector = tensor({form.in}, form.type.c_str());
  std::string ofRow = tensor({rows}, "f32");
  arguments += ", %g: " + vector + (isLayer ? ", %c: " + vector : "");
  return "%n, %m" + std::string(isLayer ? ", %d" : "") + " = nn." + form.norm +
         " %x, %g" + (isLayer ? ", %c" : "") + " {eps = 1.0e-05 : f64} : (" +
         x + ", " + vector + (isLayer ? ", " + vector : "") + ") -> (" + x +
         ", " + ofRow + (isLayer ? ", " + ofRow : "") + ")\n";
}

std::string normText(const PackedForm &form, int64_t rows) {
  std::string x = tensor({rows, form.in}, form.type.c_str());
  std::string arguments = "%x: " + x;
  std::string body = normOf(form, rows, arguments);
  return kernelText("rows", arguments, x, body, "%n");
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
  const char *type = form.type.c_str();
  int64_t typeBytes = form.type == "f32" ? 4 : 2;
  std::string x = tensor({rows, form.in}, type);
  std::string y = tensor({rows, form.out}, type);
  std::string w = tensor(words, hasCodes ? "i32" : type);
  std::string table = tensor(scales, "f16");
  std::string arguments = "%x: " + x + ", %w: " + w, types = x + ", " + w;
  std::string operands = form.norm.empty() ? "%x, %w" : "%n, %w";
  PackedText text;
  text.panels = packed.panels();
  text.panelBytes = packed.panelWords() * 4;
  text.rowBytes = rows * form.in * typeBytes;
  text.bytes = {rows * form.in * typeBytes, text.panels * text.panelBytes};
  auto add = [&](const std::string &name, const std::string &word) {
    arguments += ", " + name + ": " + table;
    if (word == "zeros")
      arguments += " {test.integral}";
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
  std::string norm;
  if (!form.norm.empty()) {
    norm = normOf(form, rows, arguments);
    for (int i = 0; i < (form.norm == "layer_norm" ? 2 : 1); ++i) {
      text.bytes.push_back(form.in * typeBytes);
      text.rowBytes += form.in * typeBytes;
    }
  }
  text.bytes.push_back(rows * form.out * typeBytes);
  if (hasCodes)
    operands += " bits " + std::to_string(form.bits);
  text.text = kernelText("gemm", arguments, y,
                         norm + "%y = nn.packed_linear " + operands +
                             " layout fragments : (" + types + ") -> " + y,
                         "%y");
  return text;
}

} // namespace heddle::test
