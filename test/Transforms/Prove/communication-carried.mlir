// RUN: heddle-opt %s --split-input-file --prove-communication --verify-diagnostics

// The store of one run is under way while the next one fetches other bytes, and is
// waited for before the kernel that writes what it reads.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %v = plan.state_ref @v : memref<16xf32>
    plan.settle 0 on copy
    %begun = plan.record compute
    plan.wait %begun on copy
    plan.copy %b, %v on copy : memref<16xf32>, memref<16xf32>
    %fetched = plan.record copy
    plan.wait %fetched
    plan.settle 0
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on store
    plan.copy %v, %a on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store carried 0
    plan.end
  }
}

// -----

// The kernel overwrites what the run before has left.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %v = plan.state_ref @v : memref<16xf32>
    // expected-error @+1 {{H0919: writes bytes [64, 128) of the arena, which plan.copy, command 4 of @train of the run before still uses}}
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.settle 0
    %ready = plan.record compute
    plan.wait %ready on store
    // expected-note @+1 {{the other one}}
    plan.copy %v, %a on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store carried 0
    plan.end
  }
}

// -----

// What is fetched is not stored yet.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %v = plan.state_ref @v : memref<16xf32>
    %begun = plan.record compute
    plan.wait %begun on copy
    // expected-error @+1 {{H0919: reads bytes [4096, 4160) of the persistent region, which plan.copy, command 9 of @train of the run before still uses}}
    plan.copy %b, %v on copy : memref<16xf32>, memref<16xf32>
    %fetched = plan.record copy
    plan.wait %fetched
    plan.settle 0
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on store
    // expected-note @+1 {{the other one}}
    plan.copy %v, %a on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store carried 0
    plan.end
  }
}

// -----

// Who waits for what was fetched behind it waits for it too.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %v = plan.state_ref @v : memref<16xf32>
    plan.settle 0 on copy
    %begun = plan.record compute
    plan.wait %begun on copy
    plan.copy %b, %v on copy : memref<16xf32>, memref<16xf32>
    %fetched = plan.record copy
    plan.wait %fetched
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on store
    plan.copy %v, %a on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store carried 0
    plan.end
  }
}

// -----

// No run waits for it.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, file 4096>, files = {activations = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @v at 0 in file : tensor<16xf32> {like = {}}
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %v = plan.state_ref @v : memref<16xf32>
    plan.settle 0 on copy
    plan.launch @relu(%x, %b) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on store
    // expected-error @+1 {{H0923: plan.copy, command 4 of @train is left to the next run, which does not wait for it}}
    plan.copy %v, %a on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store carried 0
    plan.end
  }
}
