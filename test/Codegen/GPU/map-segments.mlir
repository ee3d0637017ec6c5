// RUN: heddle-opt %s -gpu-map-kernels | FileCheck %s

// Pieces of 65536 elements, then a warp for each segment.
// CHECK:       memref.global "private" constant @sums_begins : memref<4xi32, #gpu.address_space<global>> = dense<[0, 2, 1030, 1031]>
// CHECK:       memref.global "private" constant @sums_pieces : memref<4xi32, #gpu.address_space<global>> = dense<[0, 1, 3, 4]>
// CHECK-LABEL: gpu.func @sums(
// CHECK-SAME:    %[[SCRATCH:[a-z0-9]+]]: memref<32xi8>, %{{.*}}: i64)
// CHECK-SAME:    known_grid_size = array<i32: 4, 1, 1>
// CHECK:         memref.get_global @sums_pieces
// CHECK:         arith.mulf %{{.*}} : f64
// CHECK:         gpu.barrier
// CHECK-LABEL: gpu.func @sums_sum(
// CHECK-SAME:    known_block_size = array<i32: 32, 1, 1>
// CHECK-SAME:    known_grid_size = array<i32: 3, 1, 1>
// CHECK-NOT:     gpu.barrier
// CHECK:         gpu.shuffle
plan.kernel @sums(%x: tensor<4096xf32>, %i: index) -> tensor<3xf32>
    attributes {generator = #plan.generator<segments>, ties = array<i64: -1>} {
  %y = nn.segment_sums %x first %i {segments = array<i64: 128, 65792, 64>}
      : (tensor<4096xf32>, index) -> tensor<3xf32>
  plan.yield %y : tensor<3xf32>
}

// CHECK-LABEL: gpu.func @scaled(
// CHECK:         memref.get_global @scaled_begins
// CHECK:         vector.load %{{.*}} vector<4xf32>
// CHECK:         vector.store %{{.*}} vector<4xf32>
plan.kernel @scaled(%x: tensor<4096xf32>, %f: tensor<3xf32>, %i: index) -> tensor<4096xf32>
    attributes {generator = #plan.generator<segments>, ties = array<i64: 0>} {
  %y = nn.scale_segments %x by %f first %i {segments = array<i64: 128, 65792, 64>}
      : (tensor<4096xf32>, tensor<3xf32>, index) -> tensor<4096xf32>
  plan.yield %y : tensor<4096xf32>
}
