// What a verifier finds in a user's file is an error of that file, with the
// line of the operation.

// RUN: %status 3 %heddle compile %s --start-from memory -o %t 2>&1 | FileCheck %s
// RUN: %status 3 %heddle eval %s 2>&1 | FileCheck %s

// CHECK: error[H0354]: bytes [0, 128) are shared with another buffer that is in use at the same command
// CHECK-NEXT: --> {{.*}}edited-bytes.mlir:[[@LINE+10]]:8
// CHECK-NEXT: |  plan.state @v at 0
// CHECK-NEXT: |  ^
// CHECK: note: the other one ({{.*}}edited-bytes.mlir:[[@LINE+8]]:8)
// CHECK: help: take back what was edited there

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
       plan.state @v at 0 : tensor<32xf32> {like = {}} loc("v")
       plan.state @w at 64 : tensor<16xf32> {like = {}} loc("w")
}
