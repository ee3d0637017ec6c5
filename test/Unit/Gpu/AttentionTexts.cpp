//===- AttentionTexts.cpp - Attention kernels for tests -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTexts.h"
#include <cmath>

namespace heddle::test {

static std::string tensor(std::initializer_list<int64_t> shape,
                          const std::string &type) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + type + ">";
}

namespace {
/// The kernels of an attention and its gradient.
struct Texts {
  explicit Texts(const AttentionForm &form);

  std::string forward, gradient;
};
} // namespace

Texts::Texts(const AttentionForm &form) {
  int64_t q = form.heads * form.headDim, kv = form.kvHeads * form.headDim;
  std::string output = tensor({2, form.seq, q}, form.type);
  std::string lse = tensor({2, form.heads, form.seq}, "f32");
  std::string keys = tensor({2, form.seq, kv}, form.type);
  std::string all = tensor({2, form.seq, q + 2 * kv}, form.type);
  std::string inputs =
      form.packed ? "%x: " + all
                  : "%q: " + output + ", %k: " + keys + ", %v: " + keys;
  std::string types = form.packed ? all : output + ", " + keys + ", " + keys;
  std::string names = form.packed ? "%x" : "%q, %k, %v";
  std::string rest, restTypes;
  if (form.hasLengths) {
    inputs += ", %n: tensor<2xi32>";
    rest += " lengths %n";
    restTypes += ", tensor<2xi32>";
  }
  if (form.block) {
    auto [layouts, blocks, words] = form.layoutShape();
    std::string layout = tensor({layouts, blocks, words}, "i32");
    inputs += ", %layout: " + layout +
              " {test.bits = " + std::to_string(form.density) + "}";
    rest += " layout %layout";
    restTypes += ", " + layout;
  }
  std::string attributes =
      " {heads = #nn.heads<" + std::to_string(form.heads) +
      ", kv = " + std::to_string(form.kvHeads) +
      ", scale = " + std::to_string(1 / std::sqrt(form.headDim)) +
      (form.softcap > 0 ? ", softcap = " + std::to_string(form.softcap) : "") +
      ">, mask = #nn.mask<" + (form.causal ? "causal" : "full") +
      (form.window ? ", window = " + std::to_string(form.window) : "") +
      (form.block ? ", block = " + std::to_string(form.block) +
                        ", density = " + std::to_string(form.density)
                  : "") +
      ">";
  if (form.p > 0) {
    inputs += ", %rng: tensor<4xi32>, %l: index, %m: index";
    rest += " rng %rng layer %l micro_batch %m";
    restTypes += ", tensor<4xi32>, index, index";
    attributes +=
        ", dropout = #nn.dropout<" + std::to_string(form.p) + ", site = 7>";
  }
  if (form.parts > 1) {
    inputs += ", %part: index";
    rest += " part %part";
    restTypes += ", index";
    attributes +=
        ", placement = #nn.placement<parts = " + std::to_string(form.parts) +
        ">";
  }
  std::string results = "(" + output + ", " + lse + ")";
  std::string kernel = " attributes {generator = #plan.generator<attention>, "
                       "ties = array<i64: -1, -1";
  forward = "plan.kernel @k(" + inputs + ") -> " + results + kernel +
            ">} {\n%y, %lse = nn.attention " + names + rest + attributes +
            "} : (" + types + restTypes + ") -> " + results +
            "\nplan.yield %y, %lse : " + output + ", " + lse + "\n}";
  std::string ties =
      form.packed ? kernel.substr(0, kernel.size() - 4) : kernel + ", -1";
  gradient = "plan.kernel @k(%g: " + output + ", %y: " + output +
             ", %lse: " + lse + ", " + inputs + ") -> (" + types + ")" + ties +
             ">} {\n%d" + (form.packed ? "" : ":3") +
             " = nn.attention_grad %g, " + names + " forward %y lse %lse" +
             rest + attributes + "} : (" + output + ", " + types + ", " +
             output + ", " + lse + restTypes + ") -> (" + types +
             ")\nplan.yield " + (form.packed ? "%d" : "%d#0, %d#1, %d#2") +
             " : " + types + "\n}";
}

KernelCheck attentionCheck(const AttentionForm &form, bool isGradient,
                           double tolerance) {
  Texts texts(form);
  KernelCheck check{isGradient ? texts.gradient : texts.forward, tolerance};
  // Of a single key the gradient is zero.
  if (isGradient && form.seq > 1)
    check.forward = texts.forward;
  if (form.p > 0)
    check.scalars = {11, 3};
  if (form.parts > 1)
    check.scalars.push_back(form.parts - 1);
  check.limit = form.hasLengths ? form.seq + 1 : 2000000000;
  return check;
}

} // namespace heddle::test
