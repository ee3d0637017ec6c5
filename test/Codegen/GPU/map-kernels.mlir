// RUN: heddle-opt %s -gpu-map-kernels -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-NOT: gpu.func

// expected-remark @+1 {{no GPU generator for results of different shapes yet}}
plan.kernel @shapes(%x: tensor<4x8xf32>, %y: tensor<5x8xf32>) -> (tensor<4x8xf32>, tensor<5x8xf32>)
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
  %a = nn.map relu(%x) : tensor<4x8xf32>
  %b = nn.map relu(%y) : tensor<5x8xf32>
  plan.yield %a, %b : tensor<4x8xf32>, tensor<5x8xf32>
}

// -----

// expected-remark @+1 {{no GPU generator for nn.linear whose operands are not bf16 yet}}
plan.kernel @wide(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.linear %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  plan.yield %y : tensor<4x8xf32>
}

// -----

// expected-remark @+1 {{no GPU generator for nn.linear_grad_weight yet}}
plan.kernel @weights(%x: tensor<4x8xbf16>, %g: tensor<4x8xbf16>) -> tensor<8x8xf32>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.linear_grad_weight %x, %g : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32>
  plan.yield %y : tensor<8x8xf32>
}
