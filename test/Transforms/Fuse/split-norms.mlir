// RUN: heddle-opt %s -fuse-split-norms | FileCheck %s

// CHECK-LABEL: nn.func @long
nn.func @long(%a: tensor<200001xf32>, %b: tensor<3x7xf32>) -> tensor<f32> {
  // CHECK: %[[A:.*]] = nn.square_sums %{{.*}} : (tensor<200001xf32>) -> tensor<4xf32>
  // CHECK: %[[B:.*]] = nn.square_sums %{{.*}} : (tensor<3x7xf32>) -> tensor<1xf32>
  // CHECK: nn.global_norm %[[A]], %[[B]] {summed} : (tensor<4xf32>, tensor<1xf32>) -> tensor<f32>
  %n = nn.global_norm %a, %b : (tensor<200001xf32>, tensor<3x7xf32>) -> tensor<f32>
  nn.return %n : tensor<f32>
}

// CHECK-LABEL: nn.func @short
nn.func @short(%a: tensor<65536xf32>) -> tensor<f32> {
  // CHECK-NOT: nn.square_sums
  // CHECK: nn.global_norm %{{.*}} : (tensor<65536xf32>) -> tensor<f32>
  %n = nn.global_norm %a : (tensor<65536xf32>) -> tensor<f32>
  nn.return %n : tensor<f32>
}
