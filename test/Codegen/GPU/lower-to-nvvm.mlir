// RUN: heddle-opt %s -pass-pipeline='builtin.module(gpu.module(gpu-lower-to-nvvm))' | FileCheck %s

// Shared memory is aligned for ldmatrix, square roots are instructions, vectors
// are aligned to their size.
// CHECK:       llvm.mlir.global internal @__wg_k_0() {addr_space = 3 : i32, alignment = 16 : i64}
// CHECK-LABEL: llvm.func @k(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i32)
// CHECK-SAME:    nvvm.kernel
// CHECK-SAME:    nvvm.maxntid = array<i32: 32, 1, 1>
// CHECK:         llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// CHECK:         llvm.intr.sqrt
// A copy of fewer elements than its target takes keeps their number.
// CHECK:         nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache =  cg
// CHECK:         llvm.call_intrinsic "llvm.nvvm.cp.async.cg.shared.global.16.s"(%{{.*}}, %{{.*}}, %{{.*}}) : (!llvm.ptr<3>, !llvm.ptr<1>, i32) -> ()
// CHECK:         nvvm.barrier0
// CHECK:         nvvm.ldmatrix
// CHECK:         llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.bf16"
// CHECK-SAME:      (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
gpu.module @m {
  gpu.func @k(%out: memref<64xf32>, %in: memref<64xbf16>, %at: index)
      workgroup(%s: memref<16x24xbf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %t = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %v = vector.load %out[%at] : memref<64xf32>, vector<4xf32>
    %first = vector.extract %v[0] : f32 from vector<4xf32>
    %root = math.sqrt %first : f32
    %whole = nvgpu.device_async_copy %in[%at], %s[%t, %c0], 8 {bypassL1}
        : memref<64xbf16> to memref<16x24xbf16, #gpu.address_space<workgroup>>
    %part = nvgpu.device_async_copy %in[%at], %s[%t, %c0], 8, %at {bypassL1}
        : memref<64xbf16> to memref<16x24xbf16, #gpu.address_space<workgroup>>
    gpu.barrier
    %a = nvgpu.ldmatrix %s[%t, %c0] {numTiles = 4 : i32, transpose = false}
        : memref<16x24xbf16, #gpu.address_space<workgroup>> -> vector<4x2xbf16>
    %b = nvgpu.ldmatrix %s[%t, %c0] {numTiles = 2 : i32, transpose = true}
        : memref<16x24xbf16, #gpu.address_space<workgroup>> -> vector<2x2xbf16>
    %zero = arith.constant dense<0.0> : vector<2x2xf32>
    %d = nvgpu.mma.sync (%a, %b, %zero) {mmaShape = [16, 8, 16]}
        : (vector<4x2xbf16>, vector<2x2xbf16>, vector<2x2xf32>) -> vector<2x2xf32>
    %e = vector.extract %d[0, 1] : f32 from vector<2x2xf32>
    %sum = arith.addf %e, %root : f32
    memref.store %sum, %out[%t] : memref<64xf32>
    gpu.return
  }
}

// Memory of the launch is declared, not defined.
// CHECK:       llvm.mlir.global external @__dynamic_shmem__0() {addr_space = 3 : i32, alignment = 128 : i64} : !llvm.array<0 x i8>
// CHECK-LABEL: llvm.func @dynamic(
gpu.module @n {
  gpu.func @dynamic(%out: memref<32xf32>) kernel {
    %t = gpu.thread_id x
    %bytes = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
    %c0 = arith.constant 0 : index
    %s = memref.view %bytes[%c0][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<32xf32, #gpu.address_space<workgroup>>
    %v = memref.load %s[%t] : memref<32xf32, #gpu.address_space<workgroup>>
    memref.store %v, %out[%t] : memref<32xf32>
    gpu.return
  }
}

// An index has 32 bits, unless a buffer has more elements.
// CHECK-LABEL: llvm.func @large(
// CHECK-SAME:    %[[AT:[a-z0-9]+]]: i64)
// CHECK:         llvm.getelementptr %{{.*}}[%[[AT]]] : (!llvm.ptr, i64)
gpu.module @l {
  gpu.func @large(%out: memref<2147483648xi8>, %at: index) kernel {
    %c = arith.constant 1 : i8
    memref.store %c, %out[%at] : memref<2147483648xi8>
    gpu.return
  }
}
