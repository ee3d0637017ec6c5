// RUN: heddle-opt %s --fuse-verify --memory-plan --memory-verify | FileCheck %s
// RUN: heddle-opt %s --memory-plan | sed 's/plan.buffer at 9216/plan.buffer at 8448/' | not heddle-opt --memory-verify 2>&1 | FileCheck %s --check-prefix=SHORT

// Gaps are bytes of the buffer: 64 rows of 36 elements, 33 of which are the
// tensor's. Without gaps they were 8448 bytes.
// SHORT: error: H0913:
nn.model @m family "gpt2" phase "kernels" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  plan.kernel @linear(%x: tensor<64x4xf32>, %w: tensor<4x33xf32>) -> tensor<64x33xf32>
      attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>, leading_dimensions = array<i64: 0, 0, 36>} {
    %0 = nn.linear %x, %w : (tensor<64x4xf32>, tensor<4x33xf32>) -> tensor<64x33xf32>
    plan.yield %0 : tensor<64x33xf32>
  }
  plan.kernel @add(%x: tensor<64x33xf32>, %y: tensor<64x33xf32>) -> tensor<64x33xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>, leading_dimensions = array<i64: 36, 36>} {
    %0 = nn.add %x, %y : tensor<64x33xf32>
    plan.yield %0 : tensor<64x33xf32>
  }
  plan.kernel @sum(%x: tensor<64x33xf32>) -> tensor<33xf32>
      attributes {generator = #plan.generator<columns>, ties = array<i64: -1>, leading_dimensions = array<i64: 36, 0>} {
    %0 = nn.sum_rows %x : (tensor<64x33xf32>) -> tensor<33xf32>
    plan.yield %0 : tensor<33xf32>
  }

  // CHECK: plan.sequence @f(%[[X:.*]]: memref<64x4xf32>, %[[W:.*]]: memref<4x33xf32>, %[[Y:.*]]: memref<33xf32>) attributes {frame_bytes = 18432 : i64} {
  // CHECK-NEXT: %[[A:.*]] = plan.buffer at 0 live[0, 3] owner "activations" : memref<64x33xf32, strided<[36, 1]>>
  // CHECK-NEXT: %[[B:.*]] = plan.buffer at 9216 live[1, 2] owner "activations" : memref<64x33xf32, strided<[36, 1]>>
  // CHECK-NEXT: plan.launch @linear(%[[X]], %[[W]], %[[A]])
  // CHECK-NEXT: plan.launch @linear(%[[X]], %[[W]], %[[B]])
  // CHECK-NEXT: plan.launch @add(%[[A]], %[[B]])
  // CHECK-NEXT: plan.launch @sum(%[[A]], %[[Y]])
  nn.func @f(%x: tensor<64x4xf32>, %w: tensor<4x33xf32>) -> tensor<33xf32> {
    %a = plan.launch @linear(%x, %w) : (tensor<64x4xf32>, tensor<4x33xf32>) -> tensor<64x33xf32>
    %b = plan.launch @linear(%x, %w) : (tensor<64x4xf32>, tensor<4x33xf32>) -> tensor<64x33xf32>
    %d = plan.launch @add(%a, %b) : (tensor<64x33xf32>, tensor<64x33xf32>) -> tensor<64x33xf32>
    %e = plan.launch @sum(%d) : (tensor<64x33xf32>) -> tensor<33xf32>
    nn.return %e : tensor<33xf32>
  }
}
