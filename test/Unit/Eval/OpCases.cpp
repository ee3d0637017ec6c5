//===- OpCases.cpp - An instance of every nn computation --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpCases.h"

#include "dialects/Plan/PlanDialect.h"
#include "heddle/Codegen/Common/LinalgLowerings.h"
#include "heddle/Eval/ReferenceEvaluations.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace heddle::test {

static std::vector<OpCase> makeElementwiseCases() {
  const std::string x = "%x: tensor<2x3x4xf32>", gx = "%g: tensor<2x3x4xf32>, ";
  const std::string t = " : tensor<2x3x4xf32>";
  return {
      {"nn.embedding", "%w: tensor<5x4xf32>, %ids: tensor<2x3xi32>",
       "nn.embedding %w[%ids] : (tensor<5x4xf32>, tensor<2x3xi32>) -> "
       "tensor<2x3x4xf32>"},
      {"nn.embedding_grad", gx + "%ids: tensor<2x3xi32>, %i: tensor<5x4xf32>",
       "nn.embedding_grad %g[%ids] init %i : (tensor<2x3x4xf32>, "
       "tensor<2x3xi32>, tensor<5x4xf32>) -> tensor<5x4xf32>"},
      {"nn.embedding",
       "%w: tensor<2x4xf32>, %ids: tensor<2x3xi32>, %first: index",
       "nn.embedding %w[%ids] first %first : (tensor<2x4xf32>, "
       "tensor<2x3xi32>, index) -> tensor<2x3x4xf32>"},
      {"nn.embedding_grad", gx + "%ids: tensor<2x3xi32>, %first: index",
       "nn.embedding_grad %g[%ids] first %first : (tensor<2x3x4xf32>, "
       "tensor<2x3xi32>, index) -> tensor<2x4xf32>"},
      {"nn.embedding_grad", gx + "%ids: tensor<2x3xi32>, %first: index",
       "nn.embedding_grad %g[%ids] first %first {padding = 2 : i64} : "
       "(tensor<2x3x4xf32>, tensor<2x3xi32>, index) -> tensor<2x4xf32>"},
      {"nn.positions", "", "nn.positions {offset = 2} : () -> tensor<2x3xi32>"},
      {"nn.positions", "%first: index",
       "nn.positions first %first : (index) -> tensor<2x3xi32>"},
      {"nn.add", x + ", %y: tensor<2x3x4xf32>", "nn.add %x, %y" + t},
      {"nn.mul", x + ", %y: tensor<2x3x4xf32>", "nn.mul %x, %y" + t},
      {"nn.map", x, "nn.map gelu(%x)" + t},
      {"nn.map", x, "nn.map gelu_tanh(%x)" + t},
      {"nn.map", gx + x, "nn.map gelu_tanh_grad(%g, %x)" + t},
      {"nn.map", x, "nn.map silu(%x)" + t},
      {"nn.map", gx + x, "nn.map silu_grad(%g, %x)" + t},
      {"nn.map", x, "nn.map relu(%x)" + t},
      {"nn.map", gx + x, "nn.map relu_grad(%g, %x)" + t},
      {"nn.map", "%x: tensor<2x4xf32>, %s: tensor<f32>, %y: tensor<2x4xf32>",
       "nn.map (%a = %x, %b = %s, %c = %y) : (tensor<2x4xf32>, tensor<f32>, "
       "tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xbf16>) {\n"
       "%0 = arith.mulf %a, %b : f64\n%1 = math.exp %c : f64\n"
       "%2 = arith.divf %0, %1 : f64\nnn.return %2, %1 : f64, f64\n}"},
      // Every scalar operation, each in a term of the sum that is returned.
      {"nn.map", "%x: tensor<2x4xf32>, %y: tensor<2x4xf32>, %s: tensor<f32>",
       "nn.map (%a = %x, %b = %y, %c = %s) : (tensor<2x4xf32>, "
       "tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32> {\n"
       "%0 = math.exp %a : f64\n%1 = math.log %0 : f64\n"
       "%2 = arith.mulf %1, %b : f64\n%3 = math.sqrt %0 : f64\n"
       "%4 = math.rsqrt %0 : f64\n%5 = arith.divf %3, %4 : f64\n"
       "%6 = arith.divf %c, %0 : f64\n%7 = math.tanh %2 : f64\n"
       "%8 = math.erf %b : f64\n%9 = nn.logistic %6 : f64\n"
       "%10 = arith.negf %9 : f64\n%11 = math.absf %b : f64\n"
       "%12 = arith.maximumf %7, %8 : f64\n"
       "%13 = arith.minimumf %10, %11 : f64\n"
       "%14 = arith.cmpf olt, %a, %b : f64\n"
       "%15 = arith.select %14, %5, %12 : f64\n"
       "%k = arith.constant 0.75 : f64\n%16 = arith.subf %15, %13 : f64\n"
       "%17 = arith.mulf %k, %11 : f64\n%18 = arith.addf %16, %17 : f64\n"
       "%19 = arith.mulf %18, %18 : f64\nnn.return %19 : f64\n}"},
      {"nn.cast", x, "nn.cast %x : (tensor<2x3x4xf32>) -> tensor<2x3x4xbf16>"},
      {"nn.dropout", x + ", %rng: tensor<4xi32>, %l: index, %m: index",
       "nn.dropout %x rng %rng layer %l micro_batch %m {p = 0.25 : f64, site = "
       "11 : i32} : (tensor<2x3x4xf32>, tensor<4xi32>, index, index) -> "
       "tensor<2x3x4xf32>"},
      {"nn.dropout",
       x + ", %rng: tensor<4xi32>, %l: index, %m: index, %part: index",
       "nn.dropout %x rng %rng layer %l micro_batch %m part %part {p = 0.25 : "
       "f64, site = 11 : i32, parts = array<i64: 5>, inner = array<i64: 12>} : "
       "(tensor<2x3x4xf32>, "
       "tensor<4xi32>, index, index, index) -> tensor<2x3x4xf32>"},
      {"nn.slice", x + ", %first: index",
       "nn.slice %x dim 1 first %first {offset = 1} : (tensor<2x3x4xf32>, "
       "index) -> tensor<2x2x4xf32>"},
      {"nn.concat", x + ", %y: tensor<2x1x4xf32>",
       "nn.concat %x, %y dim 1 : (tensor<2x3x4xf32>, tensor<2x1x4xf32>) -> "
       "tensor<2x4x4xf32>"},
  };
}

static std::vector<OpCase> makeLinearCases() {
  const std::string x = "%x: tensor<2x3x4xf32>", g5 = "%g: tensor<2x3x5xf32>";
  return {
      {"nn.linear", x + ", %w: tensor<4x5xf32>, %b: tensor<5xf32>",
       "nn.linear %x, %w bias %b : (tensor<2x3x4xf32>, tensor<4x5xf32>, "
       "tensor<5xf32>) -> tensor<2x3x5xf32>"},
      {"nn.linear", x + ", %w: tensor<5x4xf32>",
       "nn.linear %x, %w {transposed} : (tensor<2x3x4xf32>, tensor<5x4xf32>) "
       "-> tensor<2x3x5xf32>"},
      {"nn.packed_linear",
       "%x: tensor<2x8xf32>, %w: tensor<2x4x32x2xbf16>, %b: tensor<64xf32>",
       "nn.packed_linear %x, %w bias %b : (tensor<2x8xf32>, "
       "tensor<2x4x32x2xbf16>, tensor<64xf32>) -> tensor<2x64xf32>"},
      {"nn.packed_linear",
       "%x: tensor<1x16xf32>, %w: tensor<2x2x32xi32>, %s: tensor<2x2x32xf32>, "
       "%z: tensor<2x2x32xf32>",
       "nn.packed_linear %x, %w scales %s zeros %z bits 4 : "
       "(tensor<1x16xf32>, tensor<2x2x32xi32>, tensor<2x2x32xf32>, "
       "tensor<2x2x32xf32>) -> tensor<1x64xf32>",
       int64_t(1) << 31},
      {"nn.packed_linear",
       "%x: tensor<2x7xf32>, %w: tensor<1x2x32xi32>, %s: tensor<1x1x32xf32>",
       "nn.packed_linear %x, %w scales %s bits 8 : (tensor<2x7xf32>, "
       "tensor<1x2x32xi32>, tensor<1x1x32xf32>) -> tensor<2x5xf32>",
       int64_t(1) << 31},
      {"nn.packed_linear",
       "%x: tensor<2x24xf32>, %w: tensor<2x3x32xi32>, %s: tensor<2x3x32xf32>",
       "nn.packed_linear %x, %w scales %s bits 4 input_block 8 : "
       "(tensor<2x24xf32>, tensor<2x3x32xi32>, tensor<2x3x32xf32>) -> "
       "tensor<2x64xf32>",
       int64_t(1) << 31},
      {"nn.packed_linear",
       "%x: tensor<2x12xf32>, %w: tensor<1x3x32xi32>, %s: tensor<1x1x32xf32>",
       "nn.packed_linear %x, %w scales %s bits 8 input_block 8 : "
       "(tensor<2x12xf32>, tensor<1x3x32xi32>, tensor<1x1x32xf32>) -> "
       "tensor<2x32xf32>",
       int64_t(1) << 31},
      {"nn.packed_linear",
       "%x: tensor<2x16xf32>, %w: tensor<2x1x128x2xbf16>, %b: tensor<32xf32>",
       "nn.packed_linear %x, %w bias %b layout fragments : (tensor<2x16xf32>, "
       "tensor<2x1x128x2xbf16>, tensor<32xf32>) -> tensor<2x32xf32>"},
      {"nn.packed_linear",
       "%x: tensor<2x96xf32>, %w: tensor<2x3x128xi32>, %s: tensor<2x6x16xf32>, "
       "%z: tensor<2x6x16xf32>",
       "nn.packed_linear %x, %w scales %s zeros %z bits 4 layout fragments : "
       "(tensor<2x96xf32>, tensor<2x3x128xi32>, tensor<2x6x16xf32>, "
       "tensor<2x6x16xf32>) -> tensor<2x21xf32>",
       int64_t(1) << 31},
      {"nn.add_bias", x + ", %b: tensor<4xf32>",
       "nn.add_bias %x, %b : (tensor<2x3x4xf32>, tensor<4xf32>) -> "
       "tensor<2x3x4xf32>"},
      {"nn.linear_grad_weight", x + ", " + g5 + ", %i: tensor<4x5xf32>",
       "nn.linear_grad_weight %x, %g init %i : (tensor<2x3x4xf32>, "
       "tensor<2x3x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>"},
      {"nn.sum_rows", g5 + ", %i: tensor<5xf32>",
       "nn.sum_rows %g init %i : (tensor<2x3x5xf32>, tensor<5xf32>) -> "
       "tensor<5xf32>"},
  };
}

static std::vector<OpCase> makeNormCases() {
  const std::string x = "%x: tensor<2x3x4xf32>", w = ", %w: tensor<4xf32>";
  const std::string gx = "%g: tensor<2x3x4xf32>, ";
  const std::string stats = ", %m: tensor<2x3xf32>, %r: tensor<2x3xf32>";
  const std::string tx = "tensor<2x3x4xf32>", ts = "tensor<2x3xf32>";
  return {
      {"nn.layer_norm", x + w + ", %b: tensor<4xf32>",
       "nn.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : (" + tx +
           ", tensor<4xf32>, tensor<4xf32>) -> (" + tx + ", " + ts + ", " + ts +
           ")"},
      {"nn.layer_norm_grad_input", gx + x + w + stats,
       "nn.layer_norm_grad_input %g, %x, %w, %m, %r : (" + tx + ", " + tx +
           ", tensor<4xf32>, " + ts + ", " + ts + ") -> " + tx},
      {"nn.layer_norm_grad_weight", gx + x + stats,
       "nn.layer_norm_grad_weight %g, %x, %m, %r : (" + tx + ", " + tx + ", " +
           ts + ", " + ts + ") -> (tensor<4xf32>, tensor<4xf32>)"},
      {"nn.rms_norm", x + w,
       "nn.rms_norm %x, %w {eps = 1.0e-5 : f64} : (" + tx +
           ", tensor<4xf32>) -> (" + tx + ", " + ts + ")"},
      {"nn.rms_norm_grad_input", gx + x + w + ", %r: tensor<2x3xf32>",
       "nn.rms_norm_grad_input %g, %x, %w, %r : (" + tx + ", " + tx +
           ", tensor<4xf32>, " + ts + ") -> " + tx},
      {"nn.rms_norm_grad_weight",
       gx + x + ", %r: tensor<2x3xf32>, %i: tensor<4xf32>",
       "nn.rms_norm_grad_weight %g, %x, %r init %i : (" + tx + ", " + tx +
           ", " + ts + ", tensor<4xf32>) -> tensor<4xf32>"},
  };
}

static std::vector<OpCase> makeReshapeCases() {
  return {{"nn.reshape", "%x: tensor<2x3x8xf32>",
           "nn.reshape %x : (tensor<2x3x8xf32>) -> tensor<2x3x4x2xf32>"},
          {"nn.reshape", "%x: tensor<3x4x2xf32>",
           "nn.reshape %x : (tensor<3x4x2xf32>) -> tensor<3x8xf32>"}};
}

static std::vector<OpCase> makeAttentionCases() {
  const std::string tq = "tensor<2x3x8xf32>", tk = "tensor<2x3x4xf32>";
  const std::string lse = "tensor<2x4x3xf32>";
  const std::string attributes =
      "heads = #nn.heads<4, kv = 2, scale = 0.7>, mask = #nn.mask<causal>";
  const std::string dropout = ", dropout = #nn.dropout<0.3, site = 5>";
  const std::string cache =
      "%k: tensor<3x2x2x4xf32>, %v: tensor<3x2x4x2xf32>, ";
  const std::string codes = "%k: tensor<3x2x2x4xi8>, %v: tensor<3x2x4x2xi8>, "
                            "%s: tensor<3x2x2x4xf16>, ";
  const std::string row = "%x: tensor<2x3x12xf32>, ";
  const std::string where =
      "%pages: tensor<2x2xi32>, %at: tensor<2x3xi32>, %n: tensor<2xi32>";
  const std::string whereTypes =
      ", tensor<2x2xi32>, tensor<2x3xi32>, tensor<2xi32>";
  const std::string random = ", %rng: tensor<4xi32>, %l: index, %m: index";
  return {
      {"nn.attention", "%x: tensor<2x3x12xf32>",
       "nn.attention %x {heads = #nn.heads<2, scale = 0.5>, mask = "
       "#nn.mask<causal>} : (tensor<2x3x12xf32>) -> (tensor<2x3x4xf32>, "
       "tensor<2x2x3xf32>)"},
      {"nn.attention", "%q: " + tq + ", %k: " + tk + ", %v: " + tk + random,
       "nn.attention %q, %k, %v rng %rng layer %l micro_batch %m {" +
           attributes + dropout + "} : (" + tq + ", " + tk + ", " + tk +
           ", tensor<4xi32>, index, index) -> (" + tq + ", " + lse + ")"},
      {"nn.attention",
       "%q: " + tq + ", %k: " + tk + ", %v: " + tk + random + ", %part: index",
       "nn.attention %q, %k, %v rng %rng layer %l micro_batch %m part %part {" +
           attributes + dropout +
           ", placement = #nn.placement<parts = 5>} : (" + tq + ", " + tk +
           ", " + tk + ", tensor<4xi32>, index, index, index) -> " + "(" + tq +
           ", " + lse + ")"},
      {"nn.attention", "%q: " + tq + ", %k: " + tk + ", %v: " + tk,
       "nn.attention %q, %k, %v {heads = #nn.heads<4, kv = 2, scale = 0.7>, "
       "mask = #nn.mask<full>} : (" +
           tq + ", " + tk + ", " + tk + ") -> (" + tq + ", " + lse + ")"},
      {"nn.attention", "%q: " + tq + ", %k: " + tk + ", %v: " + tk,
       "nn.attention %q, %k, %v {heads = #nn.heads<4, kv = 2, scale = 0.7, "
       "softcap = 1.5>, mask = #nn.mask<causal, window = 2>} : (" +
           tq + ", " + tk + ", " + tk + ") -> (" + tq + ", " + lse + ")"},
      {"nn.attention_grad",
       "%g: " + tq + ", %q: " + tq + ", %k: " + tk + ", %v: " + tk +
           ", %f: " + tq + ", %s: " + lse,
       "nn.attention_grad %g, %q, %k, %v forward %f lse %s {" + attributes +
           "} : (" + tq + ", " + tq + ", " + tk + ", " + tk + ", " + tq + ", " +
           lse + ") -> (" + tq + ", " + tk + ", " + tk + ")"},
      {"nn.attention",
       "%q: " + tq + ", %k: " + tk + ", %v: " + tk +
           ", %place: index, %turn: index",
       "nn.attention %q, %k, %v sequence_shard %place ring_step %turn {" +
           attributes +
           ", placement = #nn.placement<sequence_shards = 4>} : (" + tq + ", " +
           tk + ", " + tk + ", index, index) -> (" + tq + ", " + lse + ")",
       4},
      {"nn.attention",
       "%q: " + tq + ", %k: " + tk + ", %v: " + tk + ", %n: tensor<2xi32>",
       "nn.attention %q, %k, %v lengths %n {" + attributes + "} : (" + tq +
           ", " + tk + ", " + tk + ", tensor<2xi32>) -> (" + tq + ", " + lse +
           ")",
       4},
      {"nn.cache_write", cache + row + where,
       "nn.cache_write %k, %v of %x pages %pages at %at lengths %n {heads = "
       "#nn.heads<2, scale = 0.5>} : (tensor<3x2x2x4xf32>, "
       "tensor<3x2x4x2xf32>, tensor<2x3x12xf32>" +
           whereTypes + ") -> (tensor<3x2x2x4xf32>, tensor<3x2x4x2xf32>)",
       3},
      {"nn.cache_write",
       cache + "%q: " + tq + ", %y: " + tk + ", %z: " + tk + ", " + where,
       "nn.cache_write %k, %v of %q, %y, %z pages %pages at %at lengths %n "
       "{heads = #nn.heads<4, kv = 2, scale = 0.5>} : (tensor<3x2x2x4xf32>, "
       "tensor<3x2x4x2xf32>, " +
           tq + ", " + tk + ", " + tk + whereTypes +
           ") -> (tensor<3x2x2x4xf32>, tensor<3x2x4x2xf32>)",
       3},
      {"nn.cache_write", codes + row + where,
       "nn.cache_write %k, %v scales %s of %x pages %pages at %at lengths %n "
       "{heads = #nn.heads<2, scale = 0.5>} : (tensor<3x2x2x4xi8>, "
       "tensor<3x2x4x2xi8>, tensor<3x2x2x4xf16>, tensor<2x3x12xf32>" +
           whereTypes +
           ") -> (tensor<3x2x2x4xi8>, tensor<3x2x4x2xi8>, tensor<3x2x2x4xf16>)",
       3},
      {"nn.paged_attention", codes + row + where,
       "nn.paged_attention %k, %v scales %s of %x pages %pages at %at lengths "
       "%n {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : "
       "(tensor<3x2x2x4xi8>, tensor<3x2x4x2xi8>, tensor<3x2x2x4xf16>, "
       "tensor<2x3x12xf32>" +
           whereTypes + ") -> tensor<2x3x4xf32>",
       3},
      {"nn.paged_attention", cache + row + where,
       "nn.paged_attention %k, %v of %x pages %pages at %at lengths %n {heads "
       "= #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : "
       "(tensor<3x2x2x4xf32>, tensor<3x2x4x2xf32>, tensor<2x3x12xf32>" +
           whereTypes + ") -> tensor<2x3x4xf32>",
       3},
      {"nn.paged_attention", cache + row + where,
       "nn.paged_attention %k, %v of %x pages %pages at %at lengths %n {heads "
       "= #nn.heads<2, scale = 0.5, softcap = 0.75>, mask = #nn.mask<causal, "
       "window = 2>} : (tensor<3x2x2x4xf32>, tensor<3x2x4x2xf32>, "
       "tensor<2x3x12xf32>" +
           whereTypes + ") -> tensor<2x3x4xf32>",
       3},
      {"nn.paged_attention",
       cache + row + where + ", %layout: tensor<2x1x1xi32>",
       "nn.paged_attention %k, %v of %x pages %pages at %at lengths %n layout "
       "%layout {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal, "
       "block = 16, density = 1.0>} : (tensor<3x2x2x4xf32>, "
       "tensor<3x2x4x2xf32>, tensor<2x3x12xf32>" +
           whereTypes + ", tensor<2x1x1xi32>) -> tensor<2x3x4xf32>",
       3},
      {"nn.paged_attention", cache + row + where,
       "nn.paged_attention %k, %v of %x pages %pages at %at lengths %n {heads "
       "= #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>, in_parts} : "
       "(tensor<3x2x2x4xf32>, tensor<3x2x4x2xf32>, tensor<2x3x12xf32>" +
           whereTypes + ") -> tensor<2x3x1x2x4xf32>",
       3},
      {"nn.paged_attention_join",
       "%x: tensor<2x3x2x4x5xf32>, %at: tensor<2x3xi32>, %n: tensor<2xi32>",
       "nn.paged_attention_join %x at %at lengths %n {mask = #nn.mask<causal, "
       "window = 2>, part_tokens = 2 : i64} : (tensor<2x3x2x4x5xf32>, "
       "tensor<2x3xi32>, tensor<2xi32>) -> tensor<2x3x12xf32>",
       3},
      {"nn.attention_join",
       "%x: " + tq + ", %s: " + lse + ", %y: " + tq + ", %t: " + lse,
       "nn.attention_join %x, %s, %y, %t : (" + tq + ", " + lse + ", " + tq +
           ", " + lse + ") -> " + tq},
      {"nn.log_add_exp", "%s: " + lse + ", %t: " + lse,
       "nn.log_add_exp %s, %t : (" + lse + ", " + lse + ") -> " + lse},
      {"nn.rotary", "%q: " + tq + ", %ids: tensor<2x3xi32>",
       "nn.rotary %q at %ids {heads = 2 : i64, dims = 2 : i64, theta = 100.0 : "
       "f64} : (" +
           tq + ", tensor<2x3xi32>) -> " + tq},
  };
}

static std::vector<OpCase> makeLossCases() {
  const std::string logits = "%x: tensor<2x3x5xf32>, %ids: tensor<2x3xi32>";
  return {
      {"nn.cross_entropy", logits,
       "nn.cross_entropy %x, %ids : (tensor<2x3x5xf32>, tensor<2x3xi32>) -> "
       "(tensor<2x3xf32>, tensor<2x3xf32>)"},
      {"nn.cross_entropy", logits,
       "nn.cross_entropy %x, %ids {smoothing = 0.25 : f64} : "
       "(tensor<2x3x5xf32>, tensor<2x3xi32>) -> "
       "(tensor<2x3xf32>, tensor<2x3xf32>)"},
      {"nn.cross_entropy_grad",
       logits + ", %s: tensor<2x3xf32>, %d: tensor<2x3xf32>",
       "nn.cross_entropy_grad %x, %ids, %s, %d : (tensor<2x3x5xf32>, "
       "tensor<2x3xi32>, tensor<2x3xf32>, tensor<2x3xf32>) -> "
       "tensor<2x3x5xf32>"},
      {"nn.cross_entropy_grad",
       logits + ", %s: tensor<2x3xf32>, %d: tensor<2x3xf32>, %first: index",
       "nn.cross_entropy_grad %x, %ids, %s, %d first %first {vocab = 7} : "
       "(tensor<2x3x5xf32>, tensor<2x3xi32>, tensor<2x3xf32>, "
       "tensor<2x3xf32>, index) -> tensor<2x3x5xf32>"},
      {"nn.cross_entropy_part", logits + ", %first: index",
       "nn.cross_entropy_part %x, %ids first %first {vocab = 7} : "
       "(tensor<2x3x5xf32>, tensor<2x3xi32>, index) -> (tensor<2x3xf32>, "
       "tensor<2x3xf32>)"},
      {"nn.cross_entropy_join",
       "%x: tensor<4x3xf32>, %y: tensor<2x3xf32>, %ids: tensor<2x3xi32>",
       "nn.cross_entropy_join %x, %y, %ids : (tensor<4x3xf32>, "
       "tensor<2x3xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, "
       "tensor<2x3xf32>)"},
      {"nn.sum", "%x: tensor<2x3xf32>, %i: tensor<f32>",
       "nn.sum %x init %i : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>"},
      {"nn.sum", "%x: tensor<2x3xf32>, %y: tensor<2x3xf32>, %i: tensor<f32>",
       "nn.sum %x weights %y init %i : (tensor<2x3xf32>, tensor<2x3xf32>, "
       "tensor<f32>) -> tensor<f32>"},
      {"nn.count_labels", "%ids: tensor<2x3xi32>, %y: tensor<2x3xf32>",
       "nn.count_labels %ids weights %y : (tensor<2x3xi32>, tensor<2x3xf32>) "
       "-> tensor<f32>"},
      {"nn.loss_scale", "%x: tensor<f32>",
       "nn.loss_scale %x : (tensor<f32>) -> tensor<f32>"},
      {"nn.token_weights",
       "%ids: tensor<2x3xi32>, %x: tensor<f32>, %y: tensor<2x3xf32>",
       "nn.token_weights %ids scale %x weights %y : (tensor<2x3xi32>, "
       "tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>"},
      {"nn.reorder", "%x: tensor<2x3x4xf32>, %o: tensor<3xi32>",
       "nn.reorder %x by %o : (tensor<2x3x4xf32>, tensor<3xi32>) -> "
       "tensor<2x3x3xf32>",
       4},
      {"nn.take_row", "%x: tensor<2x3x4xf32>, %p: tensor<i32>",
       "nn.take_row %x[%p] : (tensor<2x3x4xf32>, tensor<i32>) -> "
       "tensor<2x1x4xf32>",
       3},
      {"nn.fill", "", "nn.fill 1.5 : () -> tensor<3xf32>"},
      {"nn.global_norm", "%x: tensor<3xf32>, %y: tensor<4xf32>",
       "nn.global_norm %x, %y : (tensor<3xf32>, tensor<4xf32>) -> tensor<f32>"},
      {"nn.square_sums", "%x: tensor<3xf32>",
       "nn.square_sums %x : (tensor<3xf32>) -> tensor<1xf32>"},
      {"nn.update",
       "%p: tensor<3xf32>, %g: tensor<3xf32>, %m: tensor<3xf32>, %lr: "
       "tensor<f32>, %if: tensor<f32>",
       "nn.update \"momentum\" %p, %g states(%m) with(%lr) if %if : "
       "(tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<f32>, "
       "tensor<f32>) "
       "-> (tensor<3xf32>, tensor<3xf32>, tensor<3xbf16>) { ^bb0(%a: f64, %b: "
       "f64, %c: f64, %d: f64): %0 = arith.addf %b, %c : f64 %1 = arith.mulf "
       "%d, %0 : f64 %2 = arith.subf %a, %1 : f64 nn.return %2, %0 : f64, f64 "
       "}"},
      {"nn.segment_sums", "%x: tensor<128xf32>, %first: index",
       "nn.segment_sums %x first %first {segments = array<i64: 64, 64, 128>} : "
       "(tensor<128xf32>, index) -> tensor<3xf32>"},
      {"nn.scale_segments", "%x: tensor<128xf32>, %f: tensor<2xf32>",
       "nn.scale_segments %x by %f {segments = array<i64: 64, 64>} : "
       "(tensor<128xf32>, tensor<2xf32>) -> tensor<128xf32>"},
      {"nn.segment_maxima", "%x: tensor<256xf32>",
       "nn.segment_maxima %x {counts = array<i64: 50, 64, 100>} : "
       "(tensor<256xf32>) -> tensor<1x3xf32>"},
      {"nn.group_maxima", "%x: tensor<192xf32>",
       "nn.group_maxima %x {tensors = array<i64: 4, 6, 2, 1, 4, 6, 0, 5, 20, "
       "1, 0, 5, 20, 0>} : (tensor<192xf32>) -> tensor<1x6xf32>"},
      {"nn.group_sums", "%x: tensor<192xf32>, %t: tensor<3xf32>",
       "nn.group_sums %x above %t {tensors = array<i64: 4, 6, 2, 1, 4, 6, 0, "
       "5, 20, 1, 0, 5, 20, 0>} : (tensor<192xf32>, tensor<3xf32>) -> "
       "(tensor<3xf32>, "
       "tensor<3xf32>)"},
      {"nn.fake_quantize",
       "%x: tensor<192xf32>, %m: tensor<6xf32>, %b: tensor<f32>, %r: "
       "tensor<f32>, %a: tensor<3xf32>, %l: tensor<3xf32>",
       "nn.fake_quantize %x by %m bits %b ratio %r means %a levels %l "
       "{tensors = array<i64: 4, 6, 2, 1, 4, 6, 0, 5, 20, 1, 0, 5, 20, 0>} : "
       "(tensor<192xf32>, tensor<6xf32>, tensor<f32>, tensor<f32>, "
       "tensor<3xf32>, tensor<3xf32>) -> tensor<192xbf16>"},
      {"nn.max_rows", "%x: tensor<3x5xf32>",
       "nn.max_rows %x : (tensor<3x5xf32>) -> tensor<5xf32>"},
      {"nn.read_numbers", "%x: tensor<192xf32>",
       "nn.read_numbers %x : (tensor<192xf32>) -> tensor<2xf32>"},
      {"nn.write_numbers",
       "%n: tensor<2xf32>, %x: tensor<192xf32>, %if: tensor<f32>",
       "nn.write_numbers %n to %x if %if : (tensor<2xf32>, tensor<192xf32>, "
       "tensor<f32>) -> tensor<192xf32>"},
      {"nn.average",
       "%m: tensor<64xf32>, %g: tensor<64xf32>, %f: tensor<f32>, %if: "
       "tensor<f32>",
       "nn.average %m, %g with(%f) if %if wire \"f32\" : (tensor<64xf32>, "
       "tensor<64xf32>, tensor<f32>, tensor<f32>) -> tensor<64xf32> { "
       "^bb0(%a: f64, %b: f64, %c: f64): %0 = arith.mulf %b, %c : f64 %1 = "
       "arith.addf %a, %0 : f64 nn.return %1 : f64 }"},
      {"nn.sign_scales", "%x: tensor<256xf32>, %if: tensor<f32>",
       "nn.sign_scales %x if %if parts 2 {counts = array<i64: 40, 64>} : "
       "(tensor<256xf32>, tensor<f32>) -> tensor<2x2xf32>"},
      {"nn.join_scales", "%a: tensor<2x2xf32>",
       "nn.join_scales %a parts 2 {chunked, counts = array<i64: 40, 64>} : "
       "(tensor<2x2xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>)"},
      {"nn.pack_signs", "%x: tensor<256xf32>, %a: tensor<2x2xf32>",
       "nn.pack_signs %x scales %a parts 2 {counts = array<i64: 40, 64>} : "
       "(tensor<256xf32>, tensor<2x2xf32>) -> (tensor<2x2x4xi32>, "
       "tensor<256xf32>)"},
      {"nn.mean_signs",
       "%w: tensor<2x1x4xi32>, %a: tensor<2x2xf32>, %e: tensor<128xf32>",
       "nn.mean_signs %w scales %a to %e parts 2 {counts = array<i64: 40, 64>} "
       ": (tensor<2x1x4xi32>, tensor<2x2xf32>, tensor<128xf32>) -> "
       "tensor<128xf32>"},
      {"nn.unpack_signs",
       "%w: tensor<2x1x4xi32>, %a: tensor<2x2xf32>, %m: tensor<128xf32>, %if: "
       "tensor<f32>",
       "nn.unpack_signs %w scales %a else %m if %if parts 2 {counts = "
       "array<i64: 40, 64>} : (tensor<2x1x4xi32>, tensor<2x2xf32>, "
       "tensor<128xf32>, tensor<f32>) -> tensor<128xf32>"},
      {"nn.advance_power", "%p: tensor<f64>, %if: tensor<f32>",
       "nn.advance_power %p by 0.9 if %if : (tensor<f64>, tensor<f32>) -> "
       "(tensor<f64>, tensor<f32>)"},
      {"nn.count_update", "%c: tensor<f64>, %if: tensor<f32>",
       "nn.count_update %c if %if : (tensor<f64>, tensor<f32>) -> tensor<f64>"},
      {"nn.take_rate", "%r: tensor<2xf32>, %c: tensor<f64>",
       "nn.take_rate %r[%c] : (tensor<2xf32>, tensor<f64>) -> tensor<f32>"},
      {"nn.advance_loss_scale",
       "%s: tensor<f32>, %l: tensor<f32>, %k: tensor<f32>, %e: tensor<f32>, "
       "%n: tensor<f32>",
       "nn.advance_loss_scale %s, %l, %k, %e of(%n) {window = 2 : i64, "
       "hysteresis = 2 : i64, least = 0.5} : (tensor<f32>, tensor<f32>, "
       "tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, "
       "tensor<f32>, tensor<f32>, tensor<f32>)"},
  };
}

const std::vector<OpCase> &opCases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    for (auto make : {makeElementwiseCases, makeLinearCases, makeNormCases,
                      makeReshapeCases, makeAttentionCases, makeLossCases})
      llvm::append_range(all, make());
    return all;
  }();
  return cases;
}

std::string caseName(const ::testing::TestParamInfo<OpCase> &info) {
  return std::to_string(info.index) + "_" + info.param.operation.substr(3);
}

MLIRContext &testContext() {
  static MLIRContext *context = [] {
    DialectRegistry registry;
    registry.insert<nn::NNDialect, dist::DistDialect, planir::PlanDialect,
                    arith::ArithDialect>();
    eval::registerReferenceEvaluations(registry);
    codegen::registerLinalgLowerings(registry);
    auto *result = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    result->loadAllAvailableDialects();
    return result;
  }();
  return *context;
}

/// The names in `%x: tensor<4xf32>, %y: index`, as ports.
static std::string argumentPorts(llvm::StringRef arguments) {
  std::string ports;
  while (!arguments.empty()) {
    auto [name, rest] = arguments.split(':');
    ports += (ports.empty() ? "#nn.port<value, \"" : ", #nn.port<value, \"") +
             name.split('%').second.str() + "\">";
    size_t next = rest.find('%');
    arguments = next == llvm::StringRef::npos ? "" : rest.substr(next);
  }
  return ports;
}

nn::PortAttr valuePort(MLIRContext *context, const Twine &name) {
  return nn::PortAttr::get(context, nn::PortRole::Value,
                           StringAttr::get(context, name));
}

void returnValues(nn::FuncOp function, ValueRange values) {
  OpBuilder builder(function.getContext());
  Operation *end = function.getBody().front().getTerminator();
  end->setOperands(values);
  function.setFunctionTypeAttr(TypeAttr::get(
      builder.getFunctionType(function.getArgumentTypes(), values.getTypes())));
  SmallVector<Attribute> ports;
  for (size_t i = 0; i < values.size(); ++i)
    ports.push_back(valuePort(function.getContext(), "r" + Twine(i)));
  function.setOutputsAttr(builder.getArrayAttr(ports));
}

CaseModule parseCase(const OpCase &opCase) {
  std::string text =
      "nn.model @m family \"test\" phase \"model\" attributes {strategy = "
      "#dist.strategy<{}>, config = \"{}\", weights = {random = true, seed = 1 "
      ": i64}} {\n nn.func @f(" +
      opCase.arguments +
      ") attributes {program = #nn.program<train>, inputs = [" +
      argumentPorts(opCase.arguments) + "], outputs = []} {\n  " + opCase.body +
      "\n  nn.return\n }\n}\n";
  CaseModule result;
  result.module = parseSourceString<ModuleOp>(text, &testContext());
  if (!result.module) {
    ADD_FAILURE() << "does not parse:\n" << text;
    return result;
  }
  auto model = *result.module->getOps<nn::ModelOp>().begin();
  result.function = *model.getOps<nn::FuncOp>().begin();
  result.operation = &result.function.getBody().front().front();
  returnValues(result.function, result.operation->getResults());
  return result;
}

/// Numbers in (0, 1) that look random, the same in every run.
static double nextNumber(uint64_t &state) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return static_cast<double>(state >> 40) / (1 << 24);
}

eval::TensorMap inputsOf(nn::FuncOp function, int64_t limit) {
  eval::TensorMap inputs;
  uint64_t state = 12345;
  for (auto [port, type] :
       llvm::zip(function.getInputs()->getAsRange<nn::PortAttr>(),
                 function.getArgumentTypes())) {
    eval::Tensor tensor(type);
    if (!eval::isFloat(tensor.kind()))
      for (int64_t &value : tensor.mutableInts())
        value = static_cast<int64_t>(nextNumber(state) * limit);
    else
      for (double &value : tensor.mutableFloats())
        value = 2 * nextNumber(state) - 1;
    inputs[port.getKey().str()] = tensor;
  }
  // Second moments, rates and corrections are positive.
  for (const char *name : {"v", "lr", "b", "c", "clip"})
    if (auto found = inputs.find(name);
        found != inputs.end() && eval::isFloat(found->second.kind()))
      for (double &value : found->second.mutableFloats())
        value = 0.25 + 0.5 * value * value;
  return inputs;
}

eval::TensorMap runModule(ModuleOp module, const eval::TensorMap &inputs) {
  eval::InterpreterOptions options;
  options.fullPrecision = true;
  eval::TensorMap outputs;
  std::unique_ptr<eval::Interpreter> interpreter =
      eval::Interpreter::create(module, options);
  EXPECT_TRUE(interpreter && succeeded(interpreter->run(nn::ProgramKind::Train,
                                                        inputs, outputs)));
  return outputs;
}

} // namespace heddle::test
