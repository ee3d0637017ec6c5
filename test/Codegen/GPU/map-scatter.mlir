// RUN: heddle-opt %s -gpu-map-kernels | FileCheck %s

// Sort, fill, sum: integers are counted by atomics, no float is added by one.
// CHECK-LABEL: gpu.func @grad(
// CHECK-SAME:    memref<100xi32>, %{{.*}}: memref<576xbf16>, %[[SCRATCH:[a-z0-9]+]]: memref<1200xi8>)
// CHECK-SAME:    known_block_size = array<i32: 1024, 1, 1>
// CHECK-SAME:    known_grid_size = array<i32: 10, 1, 1>
// CHECK-NOT:     atomic_rmw {{.*}}f
// CHECK:         memref.atomic_rmw addi
// CHECK-COUNT-5: gpu.shuffle up %{{.*}} : i32
// CHECK:         gpu.barrier
// CHECK:         match.any.sync
// CHECK:         memref.store %{{.*}} : memref<100xi32>
// CHECK:         vector.store %{{.*}} : memref<100x2xi32>, vector<2xi32>
// CHECK-LABEL: gpu.func @grad_fill(
// CHECK-SAME:    %[[OUT:[a-z0-9]+]]: memref<576xbf16>, %{{.*}}: memref<1200xi8>)
// CHECK:         vector.store %{{.*}}, %[[OUT]]{{.*}} vector<8xbf16>
// Eight columns a thread: 32 rows of threads below each other.
// CHECK-LABEL: gpu.func @grad_rows(
// CHECK-SAME:    %[[G:[a-z0-9]+]]: memref<6400xbf16>
// CHECK-SAME:    known_grid_size = array<i32: 4, 1, 1>
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
// CHECK-SAME:    %[[I:[a-z0-9]+]]: memref<576xf32>, %{{.*}}: memref<1200xi8>)
// CHECK:         vector.load %[[I]]
// CHECK:         vector.store %{{.*}}, %[[I]]
plan.kernel @onto(%g: tensor<2x50x64xbf16>, %ids: tensor<2x50xi32>, %i: tensor<9x64xf32>) -> tensor<9x64xf32>
    attributes {generator = #plan.generator<scatter>, ties = array<i64: 2>} {
  %y = nn.embedding_grad %g[%ids] init %i
      : (tensor<2x50x64xbf16>, tensor<2x50xi32>, tensor<9x64xf32>) -> tensor<9x64xf32>
  plan.yield %y : tensor<9x64xf32>
}
