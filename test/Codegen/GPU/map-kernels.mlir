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

// expected-error @+1 {{holds no matrix product; its generator is not "gemm"}}
plan.kernel @no_product(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
    attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
  %y = nn.map relu(%x) : tensor<4x8xf32>
  plan.yield %y : tensor<4x8xf32>
}
