// RUN: heddle-opt %s -gpu-compile-kernels=chip=sm_80 2>%t.80 | FileCheck %s -DCHIP=sm_80
// RUN: FileCheck %s --check-prefix=REMARK -DCHIP=sm_80 --input-file=%t.80
// RUN: heddle-opt %s -gpu-compile-kernels=chip=sm_90 2>%t.90 | FileCheck %s -DCHIP=sm_90
// RUN: FileCheck %s --check-prefix=REMARK -DCHIP=sm_90 --input-file=%t.90
// The cache gives what the compiler gave, and damaged files do no harm.
// RUN: rm -rf %t && heddle-opt %s "-gpu-compile-kernels=chip=sm_90" -o %t.mlir 2>%t.said
// RUN: heddle-opt %s "-gpu-compile-kernels=chip=sm_90 cache=%t" -o %t.cold 2>&1 | diff %t.said -
// RUN: diff %t.mlir %t.cold && ls %t | FileCheck %s --check-prefix=FILES
// RUN: heddle-opt %s "-gpu-compile-kernels=chip=sm_90 cache=%t" -o %t.warm 2>&1 | diff %t.said -
// RUN: diff %t.mlir %t.warm
// RUN: for f in %t/*; do echo damaged > $f; done
// RUN: heddle-opt %s "-gpu-compile-kernels=chip=sm_90 cache=%t" -o %t.damaged 2>&1 | diff %t.said -
// RUN: diff %t.mlir %t.damaged

// FILES-COUNT-4: {{^[0-9a-f]+-.*}}.o
// FILES-NOT:     .o

// REMARK: remark: PTX for [[CHIP]]: @relu
// REMARK: remark: no GPU generator for a result in place of an argument of which other elements are read yet: @turned
// REMARK: warning: code for [[CHIP]] was made for 3 of 4 kernels; no GPU generator yet for turned

// CHECK:      plan.object @relu_ptx
// CHECK-SAME:   .target [[CHIP]]
// CHECK-SAME:   ld.global.v4
// CHECK:      plan.kernel @relu
// CHECK-SAME:   hash = "[[HASH:[0-9a-f]+]]"
// CHECK-SAME:   launches = [#plan.grid_launch<"[[RELU:k_relu_[0-9a-f]+]]", grid = [2, 1, 1], block = [256, 1, 1]>]
// CHECK-SAME:   object = @relu_ptx
// CHECK-SAME:   symbol = "[[RELU]]"
plan.kernel @relu(%x: tensor<64x64xbf16>) -> tensor<64x64xbf16>
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
  %y = nn.map relu(%x) : tensor<64x64xbf16>
  plan.yield %y : tensor<64x64xbf16>
}

// Two launches that share scratch memory.
// CHECK:      plan.object @columns_ptx
// CHECK-SAME:   .entry [[COLUMNS:k_sum_rows_[0-9a-f]+]](
// CHECK-SAME:   .entry [[COLUMNS]]_sum(
// CHECK:      plan.kernel @columns
// CHECK-SAME:   launches = [#plan.grid_launch<"[[COLUMNS]]", grid = [1, 16, 1], block = [256, 1, 1]>,
// CHECK-SAME:     #plan.grid_launch<"[[COLUMNS]]_sum", grid = [8, 1, 1], block = [256, 1, 1]>]
// CHECK-SAME:   scratch_bytes = 4096
plan.kernel @columns(%x: tensor<4096x64xbf16>) -> tensor<64xf32>
    attributes {generator = #plan.generator<columns>, ties = array<i64: -1>} {
  %s = nn.sum_rows %x : (tensor<4096x64xbf16>) -> tensor<64xf32>
  plan.yield %s : tensor<64xf32>
}

// CHECK:      plan.kernel @turned
// CHECK-NOT:    object
plan.kernel @turned(%x: tensor<2x3x4xf32>, %ids: tensor<2x3xi32>) -> tensor<2x3x4xf32>
    attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
  %y = nn.rotary %x at %ids {heads = 2 : i64, dims = 2 : i64, theta = 100.0 : f64}
      : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
  plan.yield %y : tensor<2x3x4xf32>
}

// An instruction leads to an operation of the body: its name is the file, and its
// number the line.
// CHECK:      plan.object @relu_columns_ptx
// CHECK-SAME:   .loc\091 2 0\0A
// CHECK-SAME:   .loc\092 1 0\0A\09mul.wide.s32{{[^;]*;}}\0A\09add.s64{{[^;]*;}}\0A\09ld.global
// CHECK-SAME:   .file\091 \22sum_rows\22
// CHECK-SAME:   .file\092 \22relu\22
plan.kernel @relu_columns(%x: tensor<4096x64xbf16>) -> tensor<64xf32>
    attributes {generator = #plan.generator<columns>, ties = array<i64: -1>} {
  %y = nn.map relu(%x) : tensor<4096x64xbf16>
  %s = nn.sum_rows %y : (tensor<4096x64xbf16>) -> tensor<64xf32>
  plan.yield %s : tensor<64xf32>
}
