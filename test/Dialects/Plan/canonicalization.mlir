// RUN: heddle-opt %s --canonicalize --cse | FileCheck %s

// Places that nothing uses go away; two buffers that look alike are two
// buffers, and commands stay, in their order.
plan.program @bytes family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64,
    owners = {}} {
  plan.state @w at 0 : tensor<8xf32> {like = {}}
  // CHECK: plan.sequence @train
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    // CHECK: %[[X:.*]] = plan.buffer at 0 live[0, 1]
    %x = plan.buffer at 0 live [0, 1] owner "activations" : memref<8xf32>
    // CHECK: %[[Y:.*]] = plan.buffer at 0 live[0, 1]
    %y = plan.buffer at 0 live [0, 1] owner "activations" : memref<8xf32>
    // CHECK: %[[W:.*]] = plan.state_ref @w
    // CHECK-NOT: plan.state_ref
    %w = plan.state_ref @w : memref<8xf32>
    %same = plan.state_ref @w : memref<8xf32>
    %unused = plan.state_ref @w : memref<8xf32>
    // CHECK: plan.copy %[[X]], %[[W]]
    plan.copy %x, %w : memref<8xf32>, memref<8xf32>
    // CHECK-NEXT: plan.copy %[[Y]], %[[W]]
    plan.copy %y, %same : memref<8xf32>, memref<8xf32>
    // CHECK-NEXT: plan.end
    plan.end
  }
}
