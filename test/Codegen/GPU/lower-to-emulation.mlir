// RUN: heddle-opt %s -gpu-lower-to-emulation | FileCheck %s

// CHECK-DAG:   func.func private @heddle_emu_index(i64) -> i64
// CHECK-DAG:   func.func private @heddle_emu_barrier(i64)
// CHECK-DAG:   func.func private @heddle_emu_access(i64, i64, i64, i64, i64)
// CHECK-LABEL: func.func @k(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr)
// CHECK:         call @heddle_emu_workgroup
// CHECK:         call @heddle_emu_index
// Workgroup memory is announced, global memory is not.
// CHECK:         memref.load
// CHECK:         call @heddle_emu_access
// CHECK-NEXT:    memref.store %{{.*}} : memref<64xf32>
// CHECK:         call @heddle_emu_barrier
// CHECK:         call @heddle_emu_shuffle
// CHECK-NOT:     heddle_emu_access
// CHECK:         return
// CHECK-NOT:   gpu.
gpu.module @m {
  gpu.func @k(%in: memref<64xf32>)
      workgroup(%shared: memref<64xf32, #gpu.address_space<workgroup>>) kernel {
    %t = gpu.thread_id x
    %value = memref.load %in[%t] : memref<64xf32>
    memref.store %value, %shared[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %one = arith.constant 1 : i32
    %width = arith.constant 32 : i32
    %other, %valid = gpu.shuffle xor %value, %one, %width : f32
    memref.store %other, %in[%t] : memref<64xf32>
    gpu.return
  }
}
