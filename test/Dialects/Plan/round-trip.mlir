// RUN: heddle-opt %s --verify-roundtrip | FileCheck %s

// The value form: kernels and launches on tensors.
// CHECK-LABEL: nn.model @values
nn.model @values family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // CHECK: plan.kernel @relu(%{{.*}}: tensor<4xf32>) -> tensor<4xf32> attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
  plan.kernel @relu(%x: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
    %0 = nn.map relu(%x) : tensor<4xf32>
    // CHECK: plan.yield %{{.*}} : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  // Launches on a GPU, with and without clusters of two blocks and shared memory.
  // CHECK: launches = [#plan.grid_launch<"first", grid = [4, 1, 1], block = [32, 1, 1]>, #plan.grid_launch<"second", grid = [4, 1, 1], block = [32, 1, 1], cluster = [2, 1, 1], shared = 64>,
  // CHECK-SAME: #plan.grid_launch<"third", grid = [4, 1, 1], block = [32, 1, 1], shared = 64>, #plan.grid_launch<"fourth", grid = [4, 1, 1], block = [32, 1, 1], cluster = [2, 1, 1]>]
  plan.kernel @pairs(%x: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>,
                  launches = [#plan.grid_launch<"first", grid = [4, 1, 1], block = [32, 1, 1]>,
                              #plan.grid_launch<"second", grid = [4, 1, 1], block = [32, 1, 1], cluster = [2, 1, 1], shared = 64>,
                              #plan.grid_launch<"third", grid = [4, 1, 1], block = [32, 1, 1], shared = 64>,
                              #plan.grid_launch<"fourth", grid = [4, 1, 1], block = [32, 1, 1], cluster = [2, 1, 1]>]} {
    %0 = nn.map relu(%x) : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  nn.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    // CHECK: plan.launch @relu(%{{.*}}) {path = "h.0"} : (tensor<4xf32>) -> tensor<4xf32>
    %0 = plan.launch @relu(%x) {path = "h.0"} : (tensor<4xf32>) -> tensor<4xf32>
    nn.return %0 : tensor<4xf32>
  }
}

// The buffer form: a whole program.
// CHECK: plan.program @bytes family "gpt2" phase "memory" attributes {arena_bytes = #plan.bytes<device 4096>, config = "{}", owners = {activations = 128 : i64}, persistent_bytes = #plan.bytes<device 4096>, scratch_bytes_per_thread = 64 : i64, scratch_offset = 256 : i64, strategy = #dist.strategy<{}>, weights = {}} {
plan.program @bytes family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 64 : i64,
    owners = {activations = 128 : i64}} {
  // CHECK: plan.state @w at 64 : tensor<8xf32> {like = {role = #nn<role parameter>}}
  plan.state @w at 64 : tensor<8xf32> {like = {role = #nn<role parameter>}}
  // CHECK: plan.object @object "f0VMRg=="
  plan.object @object "f0VMRg=="
  // CHECK: plan.kernel @add(%{{.*}}: tensor<8xf32>, %{{.*}}: index) -> tensor<8xf32> attributes {generator = #plan.generator<rows>, hash = "abc", object = @object, scratch_bytes = 64 : i64, symbol = "add_8", ties = array<i64: -1>} {
  plan.kernel @add(%x: tensor<8xf32>, %i: index) -> tensor<8xf32> attributes {
      generator = #plan.generator<rows>, ties = array<i64: -1>, object = @object,
      symbol = "add_8", hash = "abc", scratch_bytes = 64 : i64} {
    %0 = nn.add %x, %x : tensor<8xf32>
    plan.yield %0 : tensor<8xf32>
  }
  // CHECK: plan.sequence @layer(%{{.*}}: memref<8xf32>, %{{.*}}: index, %{{.*}}: memref<8xf32>) attributes {frame_bytes = 0 : i64} {
  plan.sequence @layer(%x: memref<8xf32>, %i: index, %y: memref<8xf32>)
      attributes {frame_bytes = 0 : i64} {
    // CHECK: plan.launch @add(%{{.*}}, %{{.*}}, %{{.*}}) : (memref<8xf32>, index, memref<8xf32>) -> ()
    plan.launch @add(%x, %i, %y) : (memref<8xf32>, index, memref<8xf32>) -> ()
    // CHECK: plan.end
    plan.end
  }
  // CHECK: plan.condition @kept <"h.0", 5.000000e-01 : f64>
  plan.condition @kept <"h.0", 0.5>
  // CHECK: plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    // CHECK: %[[IDS:.*]] = plan.buffer at 0 live[0, 3] owner "inputs and outputs" {input = #nn.port<ids>} : memref<2x8xf32>
    %ids = plan.buffer at 0 live[0, 3] owner "inputs and outputs" {input = #nn.port<ids>} : memref<2x8xf32>
    // CHECK: plan.buffer at 128 live[1, 2] owner "activations" : memref<8xf32>
    %y = plan.buffer at 128 live [1, 2] owner "activations" : memref<8xf32>
    // CHECK: plan.state_ref @w : memref<8xf32>
    %w = plan.state_ref @w : memref<8xf32>
    // CHECK: plan.loop 2 {
    // CHECK-NEXT: ^bb0(%[[I:.*]]: index):
    plan.loop 2 {
    ^bb0(%i: index):
      // CHECK: plan.slice %[[IDS]][%[[I]]] : memref<2x8xf32> -> memref<8xf32>
      %x = plan.slice %ids[%i] : memref<2x8xf32> -> memref<8xf32>
      // Or a run of its first dimension's elements.
      // CHECK: plan.slice %[[IDS]][%[[I]]] : memref<2x8xf32> -> memref<1x8xf32>
      %z = plan.slice %ids[%i] : memref<2x8xf32> -> memref<1x8xf32>
      // CHECK: plan.slice %{{.*}}[%[[I]]] : memref<1x8xf32> -> memref<1x4xf32>
      %h = plan.slice %z[%i] : memref<1x8xf32> -> memref<1x4xf32>
      // CHECK: plan.call @layer(%{{.*}}, %{{.*}}, %{{.*}}) frame 192 path "h.0" : memref<8xf32>, index, memref<8xf32>
      plan.call @layer(%x, %i, %y) frame 192 path "h.0" : memref<8xf32>, index, memref<8xf32>
      // CHECK: plan.copy %{{.*}}, %{{.*}} : memref<8xf32>, memref<8xf32>
      plan.copy %w, %y : memref<8xf32>, memref<8xf32>
      // CHECK: plan.copy %{{.*}}, %{{.*}} {plan.unless = @kept} : memref<8xf32>, memref<8xf32>
      plan.copy %y, %w {plan.unless = @kept} : memref<8xf32>, memref<8xf32>
      // CHECK: plan.call @layer({{.*}}) frame 192 path "h.0" {plan.when = @kept} : memref<8xf32>, index, memref<8xf32>
      plan.call @layer(%x, %i, %y) frame 192 path "h.0" {plan.when = @kept} : memref<8xf32>, index, memref<8xf32>
    }
    plan.end
  }
}

// A kernel that the cores beside a GPU run.
// CHECK-LABEL: plan.program @host
plan.program @host family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<pinned 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // CHECK: plan.kernel @double{{.*}} attributes {generator = #plan.generator<rows>, on_host, ties = array<i64: 0>}
  plan.kernel @double(%x: tensor<8xf32>) -> tensor<8xf32>
      attributes {generator = #plan.generator<rows>, on_host, ties = array<i64: 0>} {
    %0 = nn.add %x, %x : tensor<8xf32>
    plan.yield %0 : tensor<8xf32>
  }
  plan.sequence @layer(%x: memref<8xf32>) attributes {frame_bytes = 0 : i64} {
    // CHECK: plan.launch @double(%{{.*}}) on host : (memref<8xf32>) -> ()
    plan.launch @double(%x) on host : (memref<8xf32>) -> ()
    plan.end
  }
}

// Memory of four kinds, and two streams that tokens put in an order.
// CHECK: plan.program @streams {{.*}} attributes {arena_bytes = #plan.bytes<device 4096, pinned 8192>, {{.*}}persistent_bytes = #plan.bytes<host 4096, file 64>,
plan.program @streams family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 64, host 4096, device 0>,
    arena_bytes = #plan.bytes<device 4096, pinned 8192>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // CHECK: plan.state @w at 0 in host : tensor<8xf32> {like = {}}
  plan.state @w at 0 in host : tensor<8xf32> {like = {}}
  // CHECK: plan.flat @f at 0 in file : tensor<8xf32> of 16 over ["data"]
  plan.flat @f at 0 in file : tensor<8xf32> of 16 over ["data"]
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    // CHECK: plan.buffer at 0 live[0, 5] owner "activations" : memref<8xf32>
    %x = plan.buffer at 0 in device live [0, 5] owner "activations" : memref<8xf32>
    // CHECK: plan.buffer at 64 in pinned live[1, 5] owner "activations" : memref<8xf32>
    %p = plan.buffer at 64 in pinned live [1, 5] owner "activations" : memref<8xf32>
    %table = plan.buffer at 128 live [0, 5] owner "activations" : memref<9x4xf32>
    %rows = plan.buffer at 320 live [0, 5] owner "activations" : memref<2x4xf32>
    %ids = plan.buffer at 384 live [0, 5] owner "activations" : memref<2xi32>
    // CHECK: plan.fill %{{.*}} : memref<8xf32>
    plan.fill %x : memref<8xf32>
    // CHECK: %[[READY:.*]] = plan.record compute
    %ready = plan.record compute
    // CHECK: plan.wait %[[READY]] on copy
    plan.wait %ready on copy
    // CHECK: plan.copy %{{.*}}, %{{.*}} on copy : memref<8xf32>, memref<8xf32>
    plan.copy %p, %x on copy : memref<8xf32>, memref<8xf32>
    // CHECK: plan.copy_rows %{{.*}}, %{{.*}} at %{{.*}} on copy : memref<2x4xf32>, memref<9x4xf32>, memref<2xi32>
    plan.copy_rows %rows, %table at %ids on copy : memref<2x4xf32>, memref<9x4xf32>, memref<2xi32>
    %i = plan.rank ["tensor"] : index
    // CHECK: plan.copy_rows %{{.*}}, %{{.*}} at %{{.*}} first %{{.*}} on copy : memref<2x4xf32>, memref<9x4xf32>, memref<2xi32>
    plan.copy_rows %rows, %table at %ids first %i on copy : memref<2x4xf32>, memref<9x4xf32>, memref<2xi32>
    // CHECK: %[[COPIED:.*]] = plan.record copy
    %copied = plan.record copy
    // CHECK: plan.wait %[[COPIED]]{{$}}
    plan.wait %copied on compute
    plan.end
  }
}
