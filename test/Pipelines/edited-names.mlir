// A name that one sequence uses and does not define is not looked for in the
// next one. (It was, and an error there freed an operation twice.)

// RUN: %status 3 %heddle compile %s --start-from memory -o %t 2>&1 | FileCheck %s
// RUN: %status 3 %heddle eval %s 2>&1 | FileCheck %s

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @one() attributes {frame_bytes = 64 : i64} {
// CHECK: error[H03{{70|96}}]: use of undeclared SSA value name
// CHECK-NEXT: --> {{.*}}edited-names.mlir:[[@LINE+1]]:15
    plan.fill %x : memref<16xf32>
    plan.fill %y : memref<16xf32>
    plan.end
  }
  plan.sequence @two() attributes {frame_bytes = 64 : i64} {
    %x = plan.buffer at 0 live [0, 1] owner "activations" : memref<16xf32>
    %y = plan.buffer at 0 live [0, 1] owner "activations" : memref<8xf32>
    plan.fill %x : memref<16xf32>
    plan.end
  }
}
