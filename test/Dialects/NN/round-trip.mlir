// RUN: heddle-opt %s --verify-roundtrip | FileCheck %s
// Every operation of the dialect, with and without what is optional.

// CHECK-LABEL: nn.func @embeddings
nn.func @embeddings(%table: tensor<8x4xf32>, %ids: tensor<2x3xi32>,
    %grad: tensor<2x3x4xf32>, %init: tensor<8x4xf32>, %first: index) {
  // CHECK: nn.embedding %{{.*}}[%{{.*}}] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
  %0 = nn.embedding %table[%ids] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
  // CHECK: nn.embedding_grad %{{.*}}[%{{.*}}] : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> tensor<8x4xf32>
  %1 = nn.embedding_grad %grad[%ids] : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> tensor<8x4xf32>
  // CHECK: nn.embedding_grad %{{.*}}[%{{.*}}] init %{{.*}} : (tensor<2x3x4xf32>, tensor<2x3xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = nn.embedding_grad %grad[%ids] init %init : (tensor<2x3x4xf32>, tensor<2x3xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: nn.positions : () -> tensor<2x3xi32>
  %3 = nn.positions : () -> tensor<2x3xi32>
  // CHECK: nn.positions {offset = 5 : i64} : () -> tensor<2x3xi32>
  %4 = nn.positions {offset = 5 : i64} : () -> tensor<2x3xi32>
  // CHECK: nn.embedding %{{.*}}[%{{.*}}] first %{{.*}} : (tensor<8x4xf32>, tensor<2x3xi32>, index) -> tensor<2x3x4xf32>
  %5 = nn.embedding %table[%ids] first %first : (tensor<8x4xf32>, tensor<2x3xi32>, index) -> tensor<2x3x4xf32>
  // CHECK: nn.embedding_grad %{{.*}}[%{{.*}}] {padding = 3 : i64} : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> tensor<8x4xf32>
  %padded = nn.embedding_grad %grad[%ids] {padding = 3 : i64} : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> tensor<8x4xf32>
  // CHECK: nn.embedding_grad %{{.*}}[%{{.*}}] first %{{[^ ]*}} : (tensor<2x3x4xf32>, tensor<2x3xi32>, index) -> tensor<8x4xf32>
  %6 = nn.embedding_grad %grad[%ids] first %first : (tensor<2x3x4xf32>, tensor<2x3xi32>, index) -> tensor<8x4xf32>
  // CHECK: nn.embedding_grad %{{.*}}[%{{.*}}] init %{{[^ ]*}} first %{{[^ ]*}} : (tensor<2x3x4xf32>, tensor<2x3xi32>, tensor<8x4xf32>, index) -> tensor<8x4xf32>
  %7 = nn.embedding_grad %grad[%ids] init %init first %first : (tensor<2x3x4xf32>, tensor<2x3xi32>, tensor<8x4xf32>, index) -> tensor<8x4xf32>
  // CHECK: nn.positions first %{{.*}} {offset = 5 : i64} : (index) -> tensor<2x3xi32>
  %8 = nn.positions first %first {offset = 5 : i64} : (index) -> tensor<2x3xi32>
  nn.return
}

// CHECK-LABEL: nn.func @elementwise
nn.func @elementwise(%x: tensor<2x4xbf16>, %g: tensor<2x4xbf16>,
    %scale: tensor<f32>, %rng: tensor<4xi32>, %layer: index,
    %micro_batch: index, %part: index) {
  // CHECK: nn.add %{{.*}}, %{{.*}} : tensor<2x4xbf16>
  %0 = nn.add %x, %g : tensor<2x4xbf16>
  // CHECK: nn.mul %{{.*}}, %{{.*}} : tensor<2x4xbf16>
  %1 = nn.mul %x, %g : tensor<2x4xbf16>
  // CHECK: nn.map gelu(%{{.*}}) : tensor<2x4xbf16>
  %2 = nn.map gelu(%x) : tensor<2x4xbf16>
  // CHECK: nn.map gelu_tanh(%{{.*}}) : tensor<2x4xbf16>
  %3 = nn.map gelu_tanh(%x) : tensor<2x4xbf16>
  // CHECK: nn.map gelu_tanh_grad(%{{.*}}, %{{.*}}) : tensor<2x4xbf16>
  %4 = nn.map gelu_tanh_grad(%g, %x) : tensor<2x4xbf16>
  // CHECK: nn.map silu(%{{.*}}) : tensor<2x4xbf16>
  %5 = nn.map silu(%x) : tensor<2x4xbf16>
  // CHECK: nn.map silu_grad(%{{.*}}, %{{.*}}) : tensor<2x4xbf16>
  %6 = nn.map silu_grad(%g, %x) : tensor<2x4xbf16>
  // CHECK: nn.map relu(%{{.*}}) : tensor<2x4xbf16>
  %7 = nn.map relu(%x) : tensor<2x4xbf16>
  // CHECK: nn.map relu_grad(%{{.*}}, %{{.*}}) : tensor<2x4xbf16>
  %8 = nn.map relu_grad(%g, %x) : tensor<2x4xbf16>
  // CHECK: nn.map gelu(%{{.*}}) {shardings = []} : (tensor<2x4xbf16>) -> tensor<2x4xf32>
  %mixed = nn.map gelu(%x) {shardings = []} : (tensor<2x4xbf16>) -> tensor<2x4xf32>
  // In the generic form the body is there, and the name.
  // CHECK: nn.map relu(%{{.*}}) : tensor<2x4xbf16>
  %generic = "nn.map"(%x) <{function = #nn.function<relu>}> ({
  ^bb0(%a: f64):
    %zero = arith.constant 0.0 : f64
    %larger = arith.maximumf %a, %zero : f64
    nn.return %larger : f64
  }) : (tensor<2x4xbf16>) -> tensor<2x4xbf16>
  // CHECK: nn.map (%[[A:.*]] = %{{.*}}, %[[S:.*]] = %{{.*}}) : (tensor<2x4xbf16>, tensor<f32>) -> (tensor<2x4xbf16>, tensor<2x4xf32>) {
  // CHECK-NEXT: %[[P:.*]] = arith.mulf %[[A]], %[[S]] : f64
  // CHECK-NEXT: %[[L:.*]] = nn.logistic %[[P]] : f64
  // CHECK-NEXT: nn.return %[[P]], %[[L]] : f64, f64
  // CHECK-NEXT: }
  %two:2 = nn.map (%a = %x, %b = %scale) : (tensor<2x4xbf16>, tensor<f32>) -> (tensor<2x4xbf16>, tensor<2x4xf32>) {
    %p = arith.mulf %a, %b : f64
    %l = nn.logistic %p : f64
    nn.return %p, %l : f64, f64
  }
  // CHECK: nn.cast %{{.*}} : (tensor<2x4xbf16>) -> tensor<2x4xf32>
  %9 = nn.cast %x : (tensor<2x4xbf16>) -> tensor<2x4xf32>
  // CHECK: nn.dropout %{{.*}} rng %{{.*}} layer %{{.*}} micro_batch %{{.*}} {p = 1.000000e-01 : f64, site = 7 : i32} : (tensor<2x4xbf16>, tensor<4xi32>, index, index) -> tensor<2x4xbf16>
  %10 = nn.dropout %x rng %rng layer %layer micro_batch %micro_batch {p = 0.1 : f64, site = 7 : i32} : (tensor<2x4xbf16>, tensor<4xi32>, index, index) -> tensor<2x4xbf16>
  // CHECK: nn.dropout %{{.*}} micro_batch %{{.*}} part %{{.*}} {inner = array<i64: 4>, p = 1.000000e-01 : f64, parts = array<i64: 2>, site = 7 : i32} : (tensor<2x4xbf16>, tensor<4xi32>, index, index, index) -> tensor<2x4xbf16>
  %11 = nn.dropout %x rng %rng layer %layer micro_batch %micro_batch part %part {p = 0.1 : f64, site = 7 : i32, parts = array<i64: 2>, inner = array<i64: 4>} : (tensor<2x4xbf16>, tensor<4xi32>, index, index, index) -> tensor<2x4xbf16>
  // CHECK: nn.slice %{{.*}} dim 1 first %{{.*}} {offset = 1 : i64} : (tensor<2x4xbf16>, index) -> tensor<2x2xbf16>
  %12 = nn.slice %x dim 1 first %part {offset = 1} : (tensor<2x4xbf16>, index) -> tensor<2x2xbf16>
  // CHECK: nn.concat %{{.*}}, %{{.*}} dim 1 : (tensor<2x4xbf16>, tensor<2x2xbf16>) -> tensor<2x6xbf16>
  %13 = nn.concat %x, %12 dim 1 : (tensor<2x4xbf16>, tensor<2x2xbf16>) -> tensor<2x6xbf16>
  nn.return
}

// CHECK-LABEL: nn.func @packed_linear
nn.func @packed_linear(%x: tensor<2x3x16xbf16>, %f: tensor<2x16x32x1xf32>,
    %h: tensor<2x8x32x2xbf16>, %c: tensor<2x2x32xi32>, %s: tensor<2x2x32xf16>,
    %b: tensor<40xbf16>, %g: tensor<3x1x128xi32>, %t: tensor<3x2x16xf16>) {
  // CHECK: nn.packed_linear %{{.*}}, %{{.*}} : (tensor<2x3x16xbf16>, tensor<2x16x32x1xf32>) -> tensor<2x3x40xbf16>
  %0 = nn.packed_linear %x, %f : (tensor<2x3x16xbf16>, tensor<2x16x32x1xf32>) -> tensor<2x3x40xbf16>
  // CHECK: nn.packed_linear %{{.*}}, %{{.*}} bias %{{.*}} : (tensor<2x3x16xbf16>, tensor<2x8x32x2xbf16>, tensor<40xbf16>) -> tensor<2x3x40xbf16>
  %1 = nn.packed_linear %x, %h bias %b : (tensor<2x3x16xbf16>, tensor<2x8x32x2xbf16>, tensor<40xbf16>) -> tensor<2x3x40xbf16>
  // CHECK: nn.packed_linear %{{.*}}, %{{.*}} scales %{{.*}} zeros %{{.*}} bias %{{.*}} bits 4 : (tensor<2x3x16xbf16>, tensor<2x2x32xi32>, tensor<2x2x32xf16>, tensor<2x2x32xf16>, tensor<40xbf16>) -> tensor<2x3x40xbf16>
  %2 = nn.packed_linear %x, %c scales %s zeros %s bias %b bits 4 : (tensor<2x3x16xbf16>, tensor<2x2x32xi32>, tensor<2x2x32xf16>, tensor<2x2x32xf16>, tensor<40xbf16>) -> tensor<2x3x40xbf16>
  // CHECK: nn.packed_linear %{{.*}}, %{{.*}} scales %{{.*}} bits 4 input_block 8 :
  %3 = nn.packed_linear %x, %c scales %s bits 4 input_block 8 : (tensor<2x3x16xbf16>, tensor<2x2x32xi32>, tensor<2x2x32xf16>) -> tensor<2x3x40xbf16>
  // CHECK: nn.packed_linear %{{.*}}, %{{.*}} scales %{{.*}} bits 4 layout fragments :
  %4 = nn.packed_linear %x, %g scales %t bits 4 layout fragments : (tensor<2x3x16xbf16>, tensor<3x1x128xi32>, tensor<3x2x16xf16>) -> tensor<2x3x40xbf16>
  nn.return
}

// CHECK-LABEL: nn.func @linear(
nn.func @linear(%x: tensor<2x3x4xf32>, %w: tensor<4x6xf32>, %t: tensor<6x4xf32>,
    %b: tensor<6xf32>, %g: tensor<2x3x6xf32>) {
  // CHECK: nn.linear %{{.*}}, %{{.*}} : (tensor<2x3x4xf32>, tensor<4x6xf32>) -> tensor<2x3x6xf32>
  %0 = nn.linear %x, %w : (tensor<2x3x4xf32>, tensor<4x6xf32>) -> tensor<2x3x6xf32>
  // CHECK: nn.linear %{{.*}}, %{{.*}} bias %{{.*}} {transposed} : (tensor<2x3x4xf32>, tensor<6x4xf32>, tensor<6xf32>) -> tensor<2x3x6xf32>
  %1 = nn.linear %x, %t bias %b {transposed} : (tensor<2x3x4xf32>, tensor<6x4xf32>, tensor<6xf32>) -> tensor<2x3x6xf32>
  // CHECK: nn.linear %{{.*}}, %{{.*}} init %{{.*}} : (tensor<2x3x4xf32>, tensor<4x6xf32>, tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %i = nn.linear %x, %w init %g : (tensor<2x3x4xf32>, tensor<4x6xf32>, tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  // CHECK: nn.linear_grad_weight %{{.*}}, %{{.*}} : (tensor<2x3x4xf32>, tensor<2x3x6xf32>) -> tensor<4x6xf32>
  %2 = nn.linear_grad_weight %x, %g : (tensor<2x3x4xf32>, tensor<2x3x6xf32>) -> tensor<4x6xf32>
  // CHECK: nn.linear_grad_weight %{{.*}}, %{{.*}} init %{{.*}} {transposed} : (tensor<2x3x4xf32>, tensor<2x3x6xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %3 = nn.linear_grad_weight %x, %g init %t {transposed} : (tensor<2x3x4xf32>, tensor<2x3x6xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  // CHECK: nn.sum_rows %{{.*}} : (tensor<2x3x6xf32>) -> tensor<6xf32>
  %4 = nn.sum_rows %g : (tensor<2x3x6xf32>) -> tensor<6xf32>
  // CHECK: nn.sum_rows %{{.*}} init %{{.*}} : (tensor<2x3x6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %5 = nn.sum_rows %g init %b : (tensor<2x3x6xf32>, tensor<6xf32>) -> tensor<6xf32>
  // CHECK: nn.add_bias %{{.*}}, %{{.*}} : (tensor<2x3x6xf32>, tensor<6xf32>) -> tensor<2x3x6xf32>
  %6 = nn.add_bias %g, %b : (tensor<2x3x6xf32>, tensor<6xf32>) -> tensor<2x3x6xf32>
  nn.return
}

// CHECK-LABEL: nn.func @norms
nn.func @norms(%x: tensor<2x3x4xbf16>, %w: tensor<4xbf16>, %b: tensor<4xbf16>,
    %g: tensor<2x3x4xbf16>, %i: tensor<4xf32>) {
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}} = nn.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {eps = 1.000000e-05 : f64} : (tensor<2x3x4xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> (tensor<2x3x4xbf16>, tensor<2x3xf32>, tensor<2x3xf32>)
  %y, %m, %r = nn.layer_norm %x, %w, %b {eps = 1.0e-05 : f64} : (tensor<2x3x4xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> (tensor<2x3x4xbf16>, tensor<2x3xf32>, tensor<2x3xf32>)
  // CHECK: nn.layer_norm_grad_input %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>, tensor<4xbf16>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3x4xbf16>
  %0 = nn.layer_norm_grad_input %g, %x, %w, %m, %r : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>, tensor<4xbf16>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3x4xbf16>
  // CHECK: nn.layer_norm_grad_weight %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %1:2 = nn.layer_norm_grad_weight %g, %x, %m, %r : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: nn.layer_norm_grad_weight %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} bias_init %{{[^ ]*}} : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %2:2 = nn.layer_norm_grad_weight %g, %x, %m, %r bias_init %i : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: nn.layer_norm_grad_weight %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} weight_init %{{[^ ]*}} bias_init %{{[^ ]*}} : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %3:2 = nn.layer_norm_grad_weight %g, %x, %m, %r weight_init %i bias_init %i : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: %{{.*}}, %{{.*}} = nn.rms_norm %{{.*}}, %{{.*}} {eps = 1.250000e-01 : f64} : (tensor<2x3x4xbf16>, tensor<4xbf16>) -> (tensor<2x3x4xbf16>, tensor<2x3xf32>)
  %z, %s = nn.rms_norm %x, %w {eps = 0.125 : f64} : (tensor<2x3x4xbf16>, tensor<4xbf16>) -> (tensor<2x3x4xbf16>, tensor<2x3xf32>)
  // CHECK: nn.rms_norm_grad_input %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>, tensor<4xbf16>, tensor<2x3xf32>) -> tensor<2x3x4xbf16>
  %4 = nn.rms_norm_grad_input %g, %x, %w, %s : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>, tensor<4xbf16>, tensor<2x3xf32>) -> tensor<2x3x4xbf16>
  // CHECK: nn.rms_norm_grad_weight %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>, tensor<2x3xf32>) -> tensor<4xf32>
  %5 = nn.rms_norm_grad_weight %g, %x, %s : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>, tensor<2x3xf32>) -> tensor<4xf32>
  // CHECK: nn.rms_norm_grad_weight %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} init %{{[^ ]*}} : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>, tensor<2x3xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = nn.rms_norm_grad_weight %g, %x, %s init %i : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>, tensor<2x3xf32>, tensor<4xf32>) -> tensor<4xf32>
  nn.return
}

// CHECK-LABEL: nn.func @attention
nn.func @attention(%qkv: tensor<1x4x24xf32>, %q: tensor<1x4x16xf32>,
    %k: tensor<1x4x8xf32>, %v: tensor<1x4x8xf32>, %positions: tensor<1x4xi32>,
    %rng: tensor<4xi32>, %layer: index, %micro_batch: index, %part: index,
    %lengths: tensor<1xi32>) {
  // CHECK: nn.rotary %{{.*}} at %{{.*}} {dims = 4 : i64, heads = 2 : i64, theta = 1.000000e+04 : f64} : (tensor<1x4x16xf32>, tensor<1x4xi32>) -> tensor<1x4x16xf32>
  %0 = nn.rotary %q at %positions {heads = 2 : i64, dims = 4 : i64, theta = 1.0e4 : f64} : (tensor<1x4x16xf32>, tensor<1x4xi32>) -> tensor<1x4x16xf32>
  // CHECK: nn.rotary %{{.*}} at %{{.*}} {dims = 8 : i64, heads = 2 : i64, inverse, theta = 1.000000e+04 : f64}
  %1 = nn.rotary %q at %positions {heads = 2 : i64, dims = 8 : i64, theta = 1.0e4 : f64, inverse} : (tensor<1x4x16xf32>, tensor<1x4xi32>) -> tensor<1x4x16xf32>
  // CHECK: nn.rotary {{.*}}scaling = #nn.rotary_scaling<rates, factor = 8.000000e+00 : f64, low = 1.000000e-01 : f64, high = 4.000000e-01 : f64, magnitude = 1.000000e+00 : f64>
  %r = nn.rotary %q at %positions {heads = 2 : i64, dims = 8 : i64, theta = 1.0e4 : f64, scaling = #nn.rotary_scaling<rates, factor = 8.0 : f64, low = 0.1 : f64, high = 0.4 : f64, magnitude = 1.0 : f64>} : (tensor<1x4x16xf32>, tensor<1x4xi32>) -> tensor<1x4x16xf32>
  // CHECK: %[[OUT:.*]], %[[LSE:.*]] = nn.attention %{{[^ ]*}} {heads = #nn.heads<2, scale = 5.000000e-01>, mask = #nn.mask<causal>} : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  %out, %lse = nn.attention %qkv {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  // CHECK: nn.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} rng %{{[^ ]*}} layer %{{[^ ]*}} micro_batch %{{[^ ]*}} {dropout = #nn.dropout<1.000000e-01, site = 3>, heads = #nn.heads<4, kv = 2, scale = 5.000000e-01>, mask = #nn.mask<full>} : (tensor<1x4x16xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>, tensor<4xi32>, index, index) -> (tensor<1x4x16xf32>, tensor<1x4x4xf32>)
  %out3, %lse3 = nn.attention %q, %k, %v rng %rng layer %layer micro_batch %micro_batch {dropout = #nn.dropout<0.1, site = 3>, heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x16xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>, tensor<4xi32>, index, index) -> (tensor<1x4x16xf32>, tensor<1x4x4xf32>)
  // CHECK: nn.attention %{{[^ ]*}} {heads = #nn.heads<2, scale = 5.000000e-01, softcap = 5.000000e+01>, mask = #nn.mask<causal, window = 3>}
  %capped:2 = nn.attention %qkv {heads = #nn.heads<2, scale = 0.5, softcap = 50.0>, mask = #nn.mask<causal, window = 3>} : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  // CHECK: nn.reshape %{{[^ ]*}} : (tensor<1x4x16xf32>) -> tensor<1x4x2x8xf32>
  %heads = nn.reshape %q : (tensor<1x4x16xf32>) -> tensor<1x4x2x8xf32>
  // CHECK: nn.reshape %{{[^ ]*}} : (tensor<1x4x2x8xf32>) -> tensor<1x4x16xf32>
  %joined = nn.reshape %heads : (tensor<1x4x2x8xf32>) -> tensor<1x4x16xf32>
  // CHECK: nn.attention_grad %[[OUT]], %{{[^ ]*}} forward %[[OUT]] lse %[[LSE]] {heads = #nn.heads<2, scale = 5.000000e-01>, mask = #nn.mask<causal>} : (tensor<1x4x8xf32>, tensor<1x4x24xf32>, tensor<1x4x8xf32>, tensor<1x2x4xf32>) -> tensor<1x4x24xf32>
  %2 = nn.attention_grad %out, %qkv forward %out lse %lse {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x4x8xf32>, tensor<1x4x24xf32>, tensor<1x4x8xf32>, tensor<1x2x4xf32>) -> tensor<1x4x24xf32>
  // CHECK: nn.attention {{.*}} micro_batch %{{[^ ]*}} part %{{[^ ]*}} {dropout = {{.*}}, placement = #nn.placement<parts = 2>} : (tensor<1x4x16xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>, tensor<4xi32>, index, index, index) -> (tensor<1x4x16xf32>, tensor<1x4x4xf32>)
  %out4, %lse4 = nn.attention %q, %k, %v rng %rng layer %layer micro_batch %micro_batch part %part {dropout = #nn.dropout<0.1, site = 3>, heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = #nn.mask<full>, placement = #nn.placement<parts = 2>} : (tensor<1x4x16xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>, tensor<4xi32>, index, index, index) -> (tensor<1x4x16xf32>, tensor<1x4x4xf32>)
  // CHECK: %{{.*}}:3 = nn.attention_grad {{.*}} part %{{[^ ]*}} {dropout = {{.*}}, placement = #nn.placement<parts = 2>} : ({{.*}}, index, index, index) -> (tensor<1x4x16xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>)
  %4:3 = nn.attention_grad %out4, %q, %k, %v forward %out4 lse %lse4 rng %rng layer %layer micro_batch %micro_batch part %part {dropout = #nn.dropout<0.1, site = 3>, heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = #nn.mask<full>, placement = #nn.placement<parts = 2>} : (tensor<1x4x16xf32>, tensor<1x4x16xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>, tensor<1x4x16xf32>, tensor<1x4x4xf32>, tensor<4xi32>, index, index, index) -> (tensor<1x4x16xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>)
  // CHECK: nn.attention %{{[^ ]*}} lengths %{{[^ ]*}} sequence_shard %[[I:[^ ]*]] ring_step %[[I]] {heads = #nn.heads<2, scale = 7.071000e-01>, mask = #nn.mask<full>, placement = #nn.placement<sequence_shards = 3>} : (tensor<1x4x24xf32>, tensor<1xi32>, index, index) ->
  %out5, %lse5 = nn.attention %qkv lengths %lengths sequence_shard %part ring_step %part {heads = #nn.heads<2, scale = 0.7071>, mask = #nn.mask<full>, placement = #nn.placement<sequence_shards = 3>} : (tensor<1x4x24xf32>, tensor<1xi32>, index, index) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  // CHECK: nn.attention_grad {{.*}} lse %{{[^ ]*}} lengths %{{[^ ]*}} {heads = #nn.heads<2, scale = 1.000000e+00>, mask = #nn.mask<causal>} : (tensor<1x4x8xf32>, tensor<1x4x24xf32>, tensor<1x4x8xf32>, tensor<1x2x4xf32>, tensor<1xi32>) ->
  %5 = nn.attention_grad %out, %qkv forward %out lse %lse lengths %lengths {heads = #nn.heads<2, scale = 1.0>, mask = #nn.mask<causal>} : (tensor<1x4x8xf32>, tensor<1x4x24xf32>, tensor<1x4x8xf32>, tensor<1x2x4xf32>, tensor<1xi32>) -> tensor<1x4x24xf32>
  // CHECK: %{{.*}}:3 = nn.attention_grad %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} forward %{{[^ ]*}} lse %{{[^ ]*}} rng %{{[^ ]*}} layer %{{[^ ]*}} micro_batch %{{[^ ]*}} {dropout = {{.*}}} : ({{.*}}) -> (tensor<1x4x16xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>)
  %3:3 = nn.attention_grad %out3, %q, %k, %v forward %out3 lse %lse3 rng %rng layer %layer micro_batch %micro_batch {dropout = #nn.dropout<0.1, site = 3>, heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x16xf32>, tensor<1x4x16xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>, tensor<1x4x16xf32>, tensor<1x4x4xf32>, tensor<4xi32>, index, index) -> (tensor<1x4x16xf32>, tensor<1x4x8xf32>, tensor<1x4x8xf32>)
  nn.return
}

// CHECK-LABEL: nn.func @loss
nn.func @loss(%logits: tensor<2x3x8xf32>, %labels: tensor<2x3xi32>,
    %total: tensor<f32>, %position: tensor<i32>, %first: index) {
  // CHECK: %[[LOSSES:.*]], %[[LSE:.*]] = nn.cross_entropy %{{.*}}, %{{.*}} : (tensor<2x3x8xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %losses, %lse = nn.cross_entropy %logits, %labels : (tensor<2x3x8xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  // CHECK: %[[COUNT:.*]] = nn.count_labels %{{.*}} : (tensor<2x3xi32>) -> tensor<f32>
  %count = nn.count_labels %labels : (tensor<2x3xi32>) -> tensor<f32>
  // CHECK: %[[SCALE:.*]] = nn.loss_scale %[[COUNT]] : (tensor<f32>) -> tensor<f32>
  %scale = nn.loss_scale %count : (tensor<f32>) -> tensor<f32>
  // CHECK: %[[WEIGHTS:.*]] = nn.token_weights %{{.*}} scale %[[SCALE]] : (tensor<2x3xi32>, tensor<f32>) -> tensor<2x3xf32>
  %weights = nn.token_weights %labels scale %scale : (tensor<2x3xi32>, tensor<f32>) -> tensor<2x3xf32>
  // CHECK: nn.count_labels %{{.*}} weights %[[WEIGHTS]] : (tensor<2x3xi32>, tensor<2x3xf32>) -> tensor<f32>
  %6 = nn.count_labels %labels weights %weights : (tensor<2x3xi32>, tensor<2x3xf32>) -> tensor<f32>
  // CHECK: nn.token_weights %{{.*}} scale %[[SCALE]] weights %[[WEIGHTS]] : (tensor<2x3xi32>, tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = nn.token_weights %labels scale %scale weights %weights : (tensor<2x3xi32>, tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.cross_entropy_grad %{{.*}}, %{{.*}}, %[[LSE]], %[[WEIGHTS]] : (tensor<2x3x8xf32>, tensor<2x3xi32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3x8xf32>
  %0 = nn.cross_entropy_grad %logits, %labels, %lse, %weights : (tensor<2x3x8xf32>, tensor<2x3xi32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3x8xf32>
  // CHECK: nn.sum %[[LOSSES]] : (tensor<2x3xf32>) -> tensor<f32>
  %1 = nn.sum %losses : (tensor<2x3xf32>) -> tensor<f32>
  // CHECK: nn.sum %[[LOSSES]] weights %[[WEIGHTS]] init %{{.*}} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
  %2 = nn.sum %losses weights %weights init %total : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
  // CHECK: nn.reorder %{{.*}} by %{{.*}} : (tensor<2x3x8xf32>, tensor<4xi32>) -> tensor<2x3x4xf32>
  %order = arith.constant dense<[7, 0, 3, 3]> : tensor<4xi32>
  %few = nn.reorder %logits by %order : (tensor<2x3x8xf32>, tensor<4xi32>) -> tensor<2x3x4xf32>
  // CHECK: nn.take_row %{{.*}}[%{{.*}}] : (tensor<2x3x8xf32>, tensor<i32>) -> tensor<2x1x8xf32>
  %3 = nn.take_row %logits[%position] : (tensor<2x3x8xf32>, tensor<i32>) -> tensor<2x1x8xf32>
  // CHECK: %[[PART:.*]], %[[LABEL:.*]] = nn.cross_entropy_part %{{.*}}, %{{.*}} first %{{.*}} {vocab = 15 : i64} : (tensor<2x3x8xf32>, tensor<2x3xi32>, index) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %part, %label = nn.cross_entropy_part %logits, %labels first %first {vocab = 15} : (tensor<2x3x8xf32>, tensor<2x3xi32>, index) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  // CHECK: nn.cross_entropy_join %[[PART]], %[[LABEL]], %{{.*}} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %4:2 = nn.cross_entropy_join %part, %label, %labels : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  // CHECK: nn.cross_entropy_grad %{{.*}}, %{{.*}}, %[[LSE]], %[[WEIGHTS]] first %{{.*}} {vocab = 15 : i64} : (tensor<2x3x8xf32>, tensor<2x3xi32>, tensor<2x3xf32>, tensor<2x3xf32>, index) -> tensor<2x3x8xf32>
  %5 = nn.cross_entropy_grad %logits, %labels, %lse, %weights first %first {vocab = 15} : (tensor<2x3x8xf32>, tensor<2x3xi32>, tensor<2x3xf32>, tensor<2x3xf32>, index) -> tensor<2x3x8xf32>
  nn.return
}

// CHECK-LABEL: nn.func @optimizer
nn.func @optimizer(%p: tensor<128xf32>, %g: tensor<128xf32>, %m: tensor<128xf32>,
    %v: tensor<128xf32>, %lr: tensor<f32>, %c1: tensor<f32>, %c2: tensor<f32>,
    %power: tensor<f64>, %i: index) {
  // CHECK: nn.fill 0.000000e+00 : () -> tensor<128xf32>
  %zero = nn.fill 0.0 : () -> tensor<128xf32>
  // CHECK: %[[SUMS:.*]] = nn.square_sums %{{.*}} : (tensor<128xf32>) -> tensor<1xf32>
  %sums = nn.square_sums %g : (tensor<128xf32>) -> tensor<1xf32>
  // CHECK: nn.global_norm %{{.*}}, %{{.*}} : (tensor<128xf32>, tensor<128xf32>) -> tensor<f32>
  %0 = nn.global_norm %g, %zero : (tensor<128xf32>, tensor<128xf32>) -> tensor<f32>
  // CHECK: nn.global_norm %[[SUMS]] {summed} : (tensor<1xf32>) -> tensor<f32>
  %norm = nn.global_norm %sums {summed} : (tensor<1xf32>) -> tensor<f32>
  // CHECK: nn.update "adamw" %{{[^ ]*}}, %{{[^ ]*}} states(%{{[^ ]*}}, %{{[^ ]*}}) with(%{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}) : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>) {
  // CHECK-NEXT: ^bb0(%[[A:[^:]*]]: f64, %{{[^:]*}}: f64, %[[C:[^:]*]]: f64, %[[D:[^:]*]]: f64, %{{.*}}: f64):
  // CHECK-NEXT: nn.return %[[A]], %[[C]], %[[D]] : f64, f64, f64
  %1:3 = nn.update "adamw" %p, %g states(%m, %v) with(%lr, %c1, %c2) : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>) { ^bb0(%a_: f64, %b_: f64, %c_: f64, %d_: f64, %e_: f64, %f_: f64, %g_: f64): nn.return %a_, %c_, %d_ : f64, f64, f64 }
  // CHECK: nn.update "adamw" {{.*}}, %{{[^ ]*}}) if %{{[^ ]*}} : {{.*}} -> (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<128xbf16>) {
  %2:4 = nn.update "adamw" %p, %g states(%m, %v) with(%lr, %c1, %c2, %norm) if %lr : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<128xbf16>) { ^bb0(%a_: f64, %b_: f64, %c_: f64, %d_: f64, %e_: f64, %f_: f64, %g_: f64, %h_: f64): nn.return %a_, %c_, %d_ : f64, f64, f64 }
  // CHECK: nn.update "none" %{{[^ ]*}}, %{{[^ ]*}} : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32> {
  %3 = nn.update "none" %p, %g : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32> { ^bb0(%a_: f64, %b_: f64): nn.return %a_ : f64 }
  // CHECK: nn.segment_sums %{{[^ ]*}} {segments = array<i64: 64, 64>} : (tensor<128xf32>) -> tensor<2xf32>
  %5 = nn.segment_sums %p {segments = array<i64: 64, 64>} : (tensor<128xf32>) -> tensor<2xf32>
  // CHECK: nn.scale_segments %{{[^ ]*}} by %{{[^ ]*}} first %{{[^ ]*}} {segments = array<i64: 64, 192>} : (tensor<128xf32>, tensor<2xf32>, index) -> tensor<128xf32>
  %6 = nn.scale_segments %p by %5 first %i {segments = array<i64: 64, 192>} : (tensor<128xf32>, tensor<2xf32>, index) -> tensor<128xf32>
  // CHECK: nn.average %{{[^ ]*}}, %{{[^ ]*}} with(%{{[^ ]*}}) if %{{[^ ]*}} wire "sign1" of @all : (tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>) -> tensor<128xf32> {
  // CHECK-NEXT: ^bb0(%{{[^:]*}}: f64, %[[B:[^:]*]]: f64, %{{.*}}: f64):
  // CHECK-NEXT: nn.return %[[B]] : f64
  %s9 = nn.average %p, %g with(%c1) if %lr wire "sign1" of @all : (tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>) -> tensor<128xf32> { ^bb0(%a_: f64, %b_: f64, %c_: f64): nn.return %b_ : f64 }
  // CHECK: nn.average %{{[^ ]*}}, %{{[^ ]*}} if %{{[^ ]*}} keep %{{[^ ]*}} by %{{[^ ]*}} wire "sign1" of @all {joint} : (tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<2xf32>) -> tensor<128xf32> {
  %s16 = nn.average %p, %g if %lr keep %lr by %5 wire "sign1" of @all {joint} : (tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<2xf32>) -> tensor<128xf32> { ^bb0(%a_: f64, %b_: f64): nn.return %b_ : f64 }
  // CHECK: nn.group_maxima %{{[^ ]*}} first %{{[^ ]*}} {tensors = array<i64: 4, 6, 2, 1, 4, 6, 0, 5, 7, 1, 0, 5, 7, 0>} : (tensor<128xf32>, index) -> tensor<2x6xf32>
  %g0 = nn.group_maxima %p first %i {tensors = array<i64: 4, 6, 2, 1, 4, 6, 0, 5, 7, 1, 0, 5, 7, 0>} : (tensor<128xf32>, index) -> tensor<2x6xf32>
  // CHECK: nn.group_maxima %{{[^ ]*}} first %{{[^ ]*}} part %{{[^ ]*}} {tensors = array<i64: 4, 6, 2, 1, 4, 12, 2>}
  %g10 = nn.group_maxima %p first %i part %i {tensors = array<i64: 4, 6, 2, 1, 4, 12, 2>} : (tensor<128xf32>, index, index) -> tensor<2x4xf32>
  %g1 = nn.max_rows %g0 : (tensor<2x6xf32>) -> tensor<6xf32>
  // CHECK: nn.group_sums %{{[^ ]*}} {tensors = array<i64: 8, 8, 1, 0, 8, 8, 0, 5, 7, 1, 0, 5, 7, 0>} : (tensor<128xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  %g2, %g3 = nn.group_sums %p {tensors = array<i64: 8, 8, 1, 0, 8, 8, 0, 5, 7, 1, 0, 5, 7, 0>} : (tensor<128xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  // CHECK: nn.group_sums %{{[^ ]*}} above %{{[^ ]*}} {tensors = array<i64: 8, 8, 1, 0, 8, 8, 0, 5, 7, 1, 0, 5, 7, 0>} : (tensor<128xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  %g4, %g5 = nn.group_sums %p above %g2 {tensors = array<i64: 8, 8, 1, 0, 8, 8, 0, 5, 7, 1, 0, 5, 7, 0>} : (tensor<128xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  // CHECK: nn.fake_quantize %{{[^ ]*}} by %{{[^ ]*}} bits %{{[^ ]*}} ratio %{{[^ ]*}} {asymmetric, tensors = array<i64: 4, 6, 2, 1, 4, 6, 0, 5, 7, 1, 0, 5, 7, 0>} : (tensor<128xf32>, tensor<6xf32>, tensor<f32>, tensor<f32>) -> tensor<128xbf16>
  %g6 = nn.fake_quantize %p by %g1 bits %lr ratio %lr {asymmetric, tensors = array<i64: 4, 6, 2, 1, 4, 6, 0, 5, 7, 1, 0, 5, 7, 0>} : (tensor<128xf32>, tensor<6xf32>, tensor<f32>, tensor<f32>) -> tensor<128xbf16>
  %g7 = nn.group_maxima %p {tensors = array<i64: 8, 8, 1, 0, 8, 8, 0, 5, 7, 1, 0, 5, 7, 0>} : (tensor<128xf32>) -> tensor<1x4xf32>
  %g8 = nn.max_rows %g7 : (tensor<1x4xf32>) -> tensor<4xf32>
  // CHECK: nn.fake_quantize %{{[^ ]*}} by %{{[^ ]*}} bits %{{[^ ]*}} ratio %{{[^ ]*}} means %{{[^ ]*}} levels %{{[^ ]*}} {tensors = array<i64: 8, 8, 1, 0, 8, 8, 0, 5, 7, 1, 0, 5, 7, 0>}
  %g9 = nn.fake_quantize %p by %g8 bits %lr ratio %lr means %g2 levels %g4 {tensors = array<i64: 8, 8, 1, 0, 8, 8, 0, 5, 7, 1, 0, 5, 7, 0>} : (tensor<128xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<2xf32>, tensor<2xf32>) -> tensor<128xf32>
  // CHECK: nn.segment_maxima %{{[^ ]*}} first %{{[^ ]*}} {counts = array<i64: 50, 60>} : (tensor<128xf32>, index) -> tensor<2x2xf32>
  %n0 = nn.segment_maxima %p first %i {counts = array<i64: 50, 60>} : (tensor<128xf32>, index) -> tensor<2x2xf32>
  // CHECK: nn.max_rows %{{[^ ]*}} : (tensor<2x2xf32>) -> tensor<2xf32>
  %n1 = nn.max_rows %n0 : (tensor<2x2xf32>) -> tensor<2xf32>
  // CHECK: nn.read_numbers %{{[^ ]*}} : (tensor<128xf32>) -> tensor<2xf32>
  %n2 = nn.read_numbers %p : (tensor<128xf32>) -> tensor<2xf32>
  // CHECK: nn.write_numbers %{{[^ ]*}} to %{{[^ ]*}} if %{{[^ ]*}} : (tensor<2xf32>, tensor<128xf32>, tensor<f32>) -> tensor<128xf32>
  %n3 = nn.write_numbers %n2 to %p if %lr : (tensor<2xf32>, tensor<128xf32>, tensor<f32>) -> tensor<128xf32>
  // CHECK: %[[SCALE:.*]] = nn.sign_scales %{{[^ ]*}} if %{{[^ ]*}} parts 2 {counts = array<i64: 100>} : (tensor<128xf32>, tensor<f32>) -> tensor<1x1xf32>
  %s10 = nn.sign_scales %p if %lr parts 2 {counts = array<i64: 100>} : (tensor<128xf32>, tensor<f32>) -> tensor<1x1xf32>
  // CHECK: %[[WORDS:[^ ]*]], %{{[^ ]*}} = nn.pack_signs %{{[^ ]*}} scales %[[SCALE]] parts 2 {counts = array<i64: 100>} : (tensor<128xf32>, tensor<1x1xf32>) -> (tensor<1x2x2xi32>, tensor<128xf32>)
  %s11:2 = nn.pack_signs %p scales %s10 parts 2 {counts = array<i64: 100>} : (tensor<128xf32>, tensor<1x1xf32>) -> (tensor<1x2x2xi32>, tensor<128xf32>)
  // CHECK: nn.sign_scales %{{[^ ]*}} if %{{[^ ]*}} first %{{[^ ]*}} parts 1 {chunked, counts = array<i64: 100>} : (tensor<128xf32>, tensor<f32>, index) -> tensor<1x1xf32>
  %s12 = nn.sign_scales %p if %lr first %i parts 1 {chunked, counts = array<i64: 100>} : (tensor<128xf32>, tensor<f32>, index) -> tensor<1x1xf32>
  // CHECK: nn.mean_signs %{{[^ ]*}} scales %{{[^ ]*}} to %{{[^ ]*}} first %{{[^ ]*}} parts 1 {counts = array<i64: 100>} : (tensor<1x1x4xi32>, tensor<1x1xf32>, tensor<128xf32>, index) -> tensor<128xf32>
  %s13:2 = nn.pack_signs %p scales %s12 first %i parts 1 {chunked, counts = array<i64: 100>} : (tensor<128xf32>, tensor<1x1xf32>, index) -> (tensor<1x1x4xi32>, tensor<128xf32>)
  %s14 = nn.mean_signs %s13#0 scales %s12 to %p first %i parts 1 {counts = array<i64: 100>} : (tensor<1x1x4xi32>, tensor<1x1xf32>, tensor<128xf32>, index) -> tensor<128xf32>
  // CHECK: nn.unpack_signs %{{[^ ]*}} scales %{{[^ ]*}} else %{{[^ ]*}} if %{{[^ ]*}} parts 1 {counts = array<i64: 100>} : (tensor<1x1x4xi32>, tensor<1x1xf32>, tensor<128xf32>, tensor<f32>) -> tensor<128xf32>
  %s15 = nn.unpack_signs %s13#0 scales %s12 else %p if %lr parts 1 {counts = array<i64: 100>} : (tensor<1x1x4xi32>, tensor<1x1xf32>, tensor<128xf32>, tensor<f32>) -> tensor<128xf32>
  // CHECK: nn.join_scales %{{[^ ]*}} parts 2 {counts = array<i64: 100>} : (tensor<1x1xf32>) -> (tensor<1x1xf32>, tensor<1x1xf32>)
  %n4:2 = nn.join_scales %s10 parts 2 {counts = array<i64: 100>} : (tensor<1x1xf32>) -> (tensor<1x1xf32>, tensor<1x1xf32>)
  %n6 = nn.read_numbers %p : (tensor<128xf32>) -> tensor<1xf32>
  // CHECK: nn.unpack_signs %{{[^ ]*}} scales %{{[^ ]*}} times %{{[^ ]*}} else %{{[^ ]*}} if %{{[^ ]*}} parts 1 {counts = array<i64: 100>} : (tensor<1x1x4xi32>, tensor<1x1xf32>, tensor<128xf32>, tensor<f32>, tensor<1xf32>) -> tensor<128xf32>
  %n5 = nn.unpack_signs %s13#0 scales %s12 times %n6 else %p if %lr parts 1 {counts = array<i64: 100>} : (tensor<1x1x4xi32>, tensor<1x1xf32>, tensor<128xf32>, tensor<f32>, tensor<1xf32>) -> tensor<128xf32>
  // CHECK: nn.advance_power %{{[^ ]*}} by 9.000000e-01 if %{{[^ ]*}} : (tensor<f64>, tensor<f32>) -> (tensor<f64>, tensor<f32>)
  %4:2 = nn.advance_power %power by 0.9 if %lr : (tensor<f64>, tensor<f32>) -> (tensor<f64>, tensor<f32>)
  // CHECK: nn.count_update %{{[^ ]*}} if %{{[^ ]*}} : (tensor<f64>, tensor<f32>) -> tensor<f64>
  %7 = nn.count_update %power if %lr : (tensor<f64>, tensor<f32>) -> tensor<f64>
  // CHECK: %[[COUNT:.*]] = nn.count_update %{{[^ ]*}} : (tensor<f64>) -> tensor<f64>
  %8 = nn.count_update %7 : (tensor<f64>) -> tensor<f64>
  // CHECK: nn.take_rate %{{[^ ]*}}[%[[COUNT]]] : (tensor<2xf32>, tensor<f64>) -> tensor<f32>
  %9 = nn.take_rate %5[%8] : (tensor<2xf32>, tensor<f64>) -> tensor<f32>
  // CHECK: %[[NEXT:.*]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} = nn.advance_loss_scale %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} of(%{{[^ ]*}}, %{{[^ ]*}}) {consecutive, hysteresis = 2 : i64, least = 5.000000e-01 : f64, window = 1000 : i64} : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
  %10:5 = nn.advance_loss_scale %lr, %lr, %lr, %lr of(%9, %lr) {window = 1000 : i64, hysteresis = 2 : i64, least = 0.5, consecutive}
      : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
  // CHECK: nn.advance_loss_scale %[[NEXT]], %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} {hysteresis = 1 : i64, least = 1.000000e+00 : f64, window = 0 : i64} :
  %11:5 = nn.advance_loss_scale %10#0, %10#1, %10#2, %10#3 {window = 0 : i64, hysteresis = 1 : i64, least = 1.0}
      : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
  nn.return
}

// CHECK-LABEL: nn.model @model family "gpt2" phase "train" attributes {config = "{}", strategy = #dist.strategy<{batch = {global = 2, micro = 2}}>, weights = {random = true, seed = 7 : i64}} {
nn.model @model family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2}}>,
    config = "{}", weights = {random = true, seed = 7 : i64}} {
  // CHECK: nn.state @w role parameter : tensor<64xf32> {checkpointed, decays, init = #nn.init<normal, 0.000000e+00 : f64, 2.000000e-02 : f64>, source = #nn.source<"w" : tensor<64xbf16>>, storage = #dist.sharding<{{\[\[}}"data"]], unreduced []>, trainable}
  nn.state @w role parameter : tensor<64xf32> {trainable, checkpointed, decays,
      source = #nn.source<"w" : tensor<64xbf16>>,
      init = #nn.init<normal, 0.0 : f64, 0.02 : f64>,
      storage = #dist.sharding<[["data"]], unreduced []>}
  // CHECK: nn.state @w.grad role gradient : tensor<64xf32> {parameter = "w"}
  nn.state @w.grad role gradient : tensor<64xf32> {parameter = "w"}
  // CHECK: nn.state @w.m role optimizer : tensor<64xf32> {held = #nn.held<whole>, parameter = "w"}
  nn.state @w.m role optimizer : tensor<64xf32> {held = #nn.held<whole>, parameter = "w"}
  // CHECK: nn.state @loss role accumulator : tensor<f32>
  nn.state @loss role accumulator : tensor<f32>
  // CHECK: nn.bucket @all [@w, @w.grad] : tensor<128xf32>
  nn.bucket @all [@w, @w.grad] : tensor<128xf32>
  // CHECK: nn.func @layer(%{{.*}}: tensor<2x64xf32>, %{{.*}}: index) -> tensor<2x64xf32> attributes {ties = array<i64: 0>} {
  nn.func @layer(%x: tensor<2x64xf32>, %layer: index) -> tensor<2x64xf32>
      attributes {ties = array<i64: 0>} {
    nn.return %x : tensor<2x64xf32>
  }
  // CHECK: nn.condition @h.0.kept <"h.0", 2.500000e-01 : f64>
  nn.condition @h.0.kept <"h.0", 0.25>
  // CHECK: nn.condition @h.1.kept <"h.1", 1.000000e+00 : f64 of 5.000000e-01 : f64, 1.000000e-03 : f64>
  nn.condition @h.1.kept <"h.1", 1.0 of 0.5, 0.001>
  // CHECK: nn.func @forward(%{{.*}}: tensor<2x64xf32>) -> tensor<2x64xf32> attributes {inputs = [#nn.port<value, "x">], outputs = [#nn.port<logits>], program = #nn.program<generate>} {
  nn.func @forward(%x: tensor<2x64xf32>) -> tensor<2x64xf32> attributes {
      program = #nn.program<generate>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<logits>]} {
    nn.return %x : tensor<2x64xf32>
  }
  // CHECK: nn.step @train(%{{.*}}: tensor<3x2x64xf32>) -> tensor<f32> attributes {inputs = [#nn.port<value, "x">], kind = #nn.program<train>, outputs = [#nn.port<loss>]} {
  nn.step @train(%inputs: tensor<3x2x64xf32>) -> tensor<f32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<loss>]} {
    // CHECK: nn.micro_batches 3 {
    // CHECK-NEXT: ^bb0(%[[I:.*]]: index):
    nn.micro_batches 3 {
    ^bb0(%i: index):
      // CHECK: %[[X:.*]] = nn.micro_batch %{{.*}}[%[[I]]] : tensor<3x2x64xf32> -> tensor<2x64xf32>
      %x = nn.micro_batch %inputs[%i] : tensor<3x2x64xf32> -> tensor<2x64xf32>
      // CHECK: nn.call @layer(%[[X]], %[[I]]) path "h.0" recompute full : (tensor<2x64xf32>, index) -> tensor<2x64xf32>
      %y = nn.call @layer(%x, %i) path "h.0" recompute full : (tensor<2x64xf32>, index) -> tensor<2x64xf32>
      // CHECK: nn.call @layer({{.*}}) path "h.1" when @h.1.kept passes [0] : (tensor<2x64xf32>, index) -> tensor<2x64xf32>
      %kept = nn.call @layer(%x, %i) path "h.1" when @h.1.kept passes [0] : (tensor<2x64xf32>, index) -> tensor<2x64xf32>
      // CHECK: nn.keep %{{.*}} as "h.0" : tensor<2x64xf32>
      nn.keep %y as "h.0" : tensor<2x64xf32>
      // CHECK: nn.return
      nn.return
    }
    // CHECK: nn.get @all : tensor<128xf32>
    %all = nn.get @all : tensor<128xf32>
    // CHECK: nn.set @all, %{{.*}} : tensor<128xf32>
    nn.set @all, %all : tensor<128xf32>
    %loss = nn.get @loss : tensor<f32>
    nn.return %loss : tensor<f32>
  }
}

// How states are made of tensors of files.
// CHECK-LABEL: nn.model @sources
nn.model @sources family "x" phase "import" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // CHECK: nn.state @a {{.*}}source = #nn.source<"a" : tensor<3x4xbf16>>
  nn.state @a role parameter : tensor<3x4xf32> {source = #nn.source<"a" : tensor<3x4xbf16>>}
  // CHECK: nn.state @b {{.*}}source = #nn.source<concat(1, transpose("q" : tensor<4x3xf32>), slice(1, 2, 5, "kv" : tensor<3x9xf32>))>
  nn.state @b role parameter : tensor<3x9xf32> {source = #nn.source<concat(1, transpose("q" : tensor<4x3xf32>), slice(1, 2, 5, "kv" : tensor<3x9xf32>))>}
  // CHECK: nn.state @c {{.*}}source = #nn.source<stack(0, permute([1, 2, 0], reshape([4, 2, 3], "x" : tensor<24xf32>)), "y" : tensor<2x3x4xf16>)>
  nn.state @c role parameter : tensor<2x2x3x4xf32> {source = #nn.source<stack(0, permute([1, 2, 0], reshape([4, 2, 3], "x" : tensor<24xf32>)), "y" : tensor<2x3x4xf16>)>}
}

// A cache of pages, which is written and read.
// CHECK-LABEL: nn.func @cache
nn.func @cache(%k: tensor<3x2x4x16xbf16>, %v: tensor<3x2x16x4xbf16>, %q: tensor<1x5x16xf32>, %x: tensor<1x5x8xf32>, %pages: tensor<1x2xi32>, %at: tensor<1x5xi32>, %n: tensor<1xi32>) -> tensor<1x5x16xf32> {
  // CHECK: %[[K:.*]], %[[V:.*]] = nn.cache_write %{{.*}}, %{{.*}} of %{{.*}}, %{{.*}}, %{{.*}} pages %{{.*}} at %{{.*}} lengths %{{.*}} {heads = #nn.heads<4, kv = 2, scale = 5.000000e-01>}
  %k1, %v1 = nn.cache_write %k, %v of %q, %x, %x pages %pages at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>} : (tensor<3x2x4x16xbf16>, tensor<3x2x16x4xbf16>, tensor<1x5x16xf32>, tensor<1x5x8xf32>, tensor<1x5x8xf32>, tensor<1x2xi32>, tensor<1x5xi32>, tensor<1xi32>) -> (tensor<3x2x4x16xbf16>, tensor<3x2x16x4xbf16>)
  // CHECK: nn.paged_attention %[[K]], %[[V]] of %{{.*}}, %{{.*}}, %{{.*}} pages %{{.*}} at %{{.*}} lengths %{{.*}} {heads = #nn.heads<4, kv = 2, scale = 5.000000e-01, softcap = 2.000000e+00>, mask = #nn.mask<causal, window = 7>}
  %y = nn.paged_attention %k1, %v1 of %q, %x, %x pages %pages at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5, softcap = 2.0>, mask = #nn.mask<causal, window = 7>} : (tensor<3x2x4x16xbf16>, tensor<3x2x16x4xbf16>, tensor<1x5x16xf32>, tensor<1x5x8xf32>, tensor<1x5x8xf32>, tensor<1x2xi32>, tensor<1x5xi32>, tensor<1xi32>) -> tensor<1x5x16xf32>
  nn.return %y : tensor<1x5x16xf32>
}

// Parts of 256 positions, and what joins them.
// CHECK-LABEL: nn.func @parts
nn.func @parts(%k: tensor<20x1x4x16xbf16>, %v: tensor<20x1x16x4xbf16>, %x: tensor<1x1x24xf32>, %pages: tensor<1x17xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> tensor<1x1x16xf32> {
  // CHECK: %[[P:.*]] = nn.paged_attention {{.*}} {heads = #nn.heads<4, kv = 1, scale = 5.000000e-01>, in_parts, mask = #nn.mask<causal>}
  %p = nn.paged_attention %k, %v of %x pages %pages at %at lengths %n {heads = #nn.heads<4, kv = 1, scale = 0.5>, mask = #nn.mask<causal>, in_parts} : (tensor<20x1x4x16xbf16>, tensor<20x1x16x4xbf16>, tensor<1x1x24xf32>, tensor<1x17xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x2x4x6xf32>
  // CHECK: nn.paged_attention_join %[[P]] at %{{.*}} lengths %{{.*}} {mask = #nn.mask<causal>, part_tokens = 256 : i64} : (tensor<1x1x2x4x6xf32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x16xf32>
  %y = nn.paged_attention_join %p at %at lengths %n {mask = #nn.mask<causal>, part_tokens = 256 : i64} : (tensor<1x1x2x4x6xf32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x16xf32>
  nn.return %y : tensor<1x1x16xf32>
}

// One of codes has scales.
// CHECK-LABEL: nn.func @coded
nn.func @coded(%k: tensor<3x2x4x16xi8>, %v: tensor<3x2x16x4xi8>, %s: tensor<3x2x2x16xf16>, %x: tensor<1x5x24xf32>, %pages: tensor<1x2xi32>, %at: tensor<1x5xi32>, %n: tensor<1xi32>) -> tensor<1x5x8xf32> {
  // CHECK: %[[K:.*]], %[[V:.*]], %[[S:.*]] = nn.cache_write %{{.*}}, %{{.*}} scales %{{.*}} of %{{.*}} pages
  %k1, %v1, %s1 = nn.cache_write %k, %v scales %s of %x pages %pages at %at lengths %n {heads = #nn.heads<2, scale = 0.5>} : (tensor<3x2x4x16xi8>, tensor<3x2x16x4xi8>, tensor<3x2x2x16xf16>, tensor<1x5x24xf32>, tensor<1x2xi32>, tensor<1x5xi32>, tensor<1xi32>) -> (tensor<3x2x4x16xi8>, tensor<3x2x16x4xi8>, tensor<3x2x2x16xf16>)
  // CHECK: nn.paged_attention %[[K]], %[[V]] scales %[[S]] of
  %y = nn.paged_attention %k1, %v1 scales %s1 of %x pages %pages at %at lengths %n {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<3x2x4x16xi8>, tensor<3x2x16x4xi8>, tensor<3x2x2x16xf16>, tensor<1x5x24xf32>, tensor<1x2xi32>, tensor<1x5xi32>, tensor<1xi32>) -> tensor<1x5x8xf32>
  nn.return %y : tensor<1x5x8xf32>
}
