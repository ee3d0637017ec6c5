// RUN: heddle-opt %s -gpu-map-kernels | FileCheck %s

// Sort, fill, sum: no atomics.
// CHECK-LABEL: gpu.func @grad(
// CHECK-SAME:    memref<2x50xi32>, %{{.*}}: memref<9x64xbf16>, %[[SCRATCH:[a-z0-9]+]]: memref<800xi8>)
// CHECK-SAME:    known_grid_size = array<i32: 4, 1, 1>
// CHECK-NOT:     atomic
// CHECK:         gpu.barrier
// CHECK:           vector.load %{{.*}} vector<4xi32>
// CHECK:         gpu.barrier
// CHECK-COUNT-9: gpu.shuffle xor %{{.*}} : i32
// CHECK:         memref.store %{{.*}} : memref<100xi32>
// CHECK:         memref.store %{{.*}} : memref<100xi32>
// CHECK-LABEL: gpu.func @grad_fill(
// CHECK-SAME:    %[[OUT:[a-z0-9]+]]: memref<576xbf16>, %{{.*}}: memref<800xi8>)
// CHECK:         vector.store %{{.*}}, %[[OUT]]{{.*}} vector<8xbf16>
// CHECK-LABEL: gpu.func @grad_rows(
// CHECK-SAME:    %[[G:[a-z0-9]+]]: memref<2x50x64xbf16>
// CHECK-SAME:    known_grid_size = array<i32: 100, 1, 1>
// CHECK:           vector.load %[[G]]{{.*}} vector<8xbf16>
// CHECK:         gpu.barrier
// CHECK-NOT:     atomic
// CHECK:         arith.truncf
plan.kernel @grad(%g: tensor<2x50x64xbf16>, %ids: tensor<2x50xi32>) -> tensor<9x64xbf16>
    attributes {generator = #plan.generator<scatter>, ties = array<i64: -1>} {
  %y = nn.embedding_grad %g[%ids] : (tensor<2x50x64xbf16>, tensor<2x50xi32>) -> tensor<9x64xbf16>
  plan.yield %y : tensor<9x64xbf16>
}

// Onto what stands there: no row but those of the ids is touched.
// CHECK-LABEL: gpu.func @onto(
// CHECK-NOT:   gpu.func @onto_fill(
// CHECK-LABEL: gpu.func @onto_rows(
// CHECK-SAME:    %[[I:[a-z0-9]+]]: memref<9x64xf32>, %{{.*}}: memref<800xi8>)
// CHECK:         memref.load %[[I]]
// CHECK:         memref.store %{{.*}}, %[[I]]
plan.kernel @onto(%g: tensor<2x50x64xbf16>, %ids: tensor<2x50xi32>, %i: tensor<9x64xf32>) -> tensor<9x64xf32>
    attributes {generator = #plan.generator<scatter>, ties = array<i64: 2>} {
  %y = nn.embedding_grad %g[%ids] init %i
      : (tensor<2x50x64xbf16>, tensor<2x50xi32>, tensor<9x64xf32>) -> tensor<9x64xf32>
  plan.yield %y : tensor<9x64xf32>
}
