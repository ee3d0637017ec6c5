// RUN: heddle-opt %s -gpu-map-kernels -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-NOT: gpu.func

// expected-remark @+1 {{no GPU generator for a result in place of an argument of which other elements are read yet}}
plan.kernel @turned(%x: tensor<2x3x4xf32>, %ids: tensor<2x3xi32>) -> tensor<2x3x4xf32>
    attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
  %y = nn.rotary %x at %ids {heads = 2 : i64, dims = 2 : i64, theta = 100.0 : f64}
      : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
  plan.yield %y : tensor<2x3x4xf32>
}

// -----

// expected-error @+1 {{yields tensors without a common row shape}}
plan.kernel @shapes(%x: tensor<4x8xf32>, %y: tensor<5x8xf32>) -> (tensor<4x8xf32>, tensor<5x8xf32>)
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
  %a = nn.map relu(%x) : tensor<4x8xf32>
  %b = nn.map relu(%y) : tensor<5x8xf32>
  plan.yield %a, %b : tensor<4x8xf32>, tensor<5x8xf32>
}

// -----

// expected-error @+1 {{holds no matrix product; its generator is not "gemm"}}
plan.kernel @no_product(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.map relu(%x) : tensor<4x8xf32>
  plan.yield %y : tensor<4x8xf32>
}

// -----

plan.kernel @packed(%x: tensor<3x16xf32>, %w: tensor<1x16x32x1xf32>) -> tensor<3x8xf32>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  // expected-error @+2 {{H0174: its weight has the layout panels, and kernels of this target read fragments}}
  // expected-note @+1 {{help: compile again from a dump of a phase before fuse, which chooses the layout}}
  %y = nn.packed_linear %x, %w : (tensor<3x16xf32>, tensor<1x16x32x1xf32>) -> tensor<3x8xf32>
  plan.yield %y : tensor<3x8xf32>
}

// -----

// expected-remark @+1 {{no GPU generator for attention that yields a result twice}}
plan.kernel @twice(%qkv: tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x4x8xf32>)
    attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1>} {
  %y, %lse = nn.attention %qkv {heads = #nn.heads<2, kv = 2, scale = 0.5>, mask = #nn.mask<causal>}
      : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  plan.yield %y, %y : tensor<1x4x8xf32>, tensor<1x4x8xf32>
}
